/** The card on an emulated Raspberry Pi with the device tree of a Zero 2 W and its memory: its first start, and two pulled plugs. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { chosenSeed } from '../soak/random.ts';
import { type BootedBoard, firstBoot, memoryOf, pullBoardPlugs, screenText, tryFieldLine } from './board-life.ts';
import { imageMissing } from './card.ts';

/** 512 MB, less what the firmware keeps for the graphics processor. */
const MEMORY_MIB = 448;
const PULLS = 2;
const say = (line: string): void => void process.stderr.write(`${line}\n`);

describe('the card in an emulated Raspberry Pi Zero 2 W', { skip: imageMissing() }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-board-'));
  let booted: BootedBoard;

  before(async () => {
    booted = await firstBoot(dir, { machine: 'raspi3b', tree: 'bcm2837-rpi-zero-2-w', memoryMib: MEMORY_MIB }, say);
    say(await booted.box.startTimes());
  });
  after(async () => {
    booted?.client.close();
    booted?.http.close();
    await booted?.box.kill();
    rmSync(dir, { recursive: true, force: true });
  });

  it('has nothing on the field line from power-on, then exactly what is sent, both ways, and a break', () =>
    tryFieldLine(booted));

  it('starts the line before the hub, the network and the announcement of its name', async () => {
    const at = async (unit: string, property: string): Promise<number> =>
      Number(await booted.box.ssh(`systemctl show --property=${property} --value ${unit}`));
    const logs = await at('lineside', 'ActiveEnterTimestampMonotonic');
    assert.ok(logs > 0);
    for (const unit of ['lineside-hub', 'systemd-networkd', 'avahi-daemon'])
      assert.ok((await at(unit, 'InactiveExitTimestampMonotonic')) > logs, unit);
  });

  it('shows on its screen who it is', async () => {
    assert.equal(await booted.box.ssh("tr -d '\\0' </proc/device-tree/model"), 'Raspberry Pi Zero 2 W');
    // The page is written twice a minute.
    await booted.box.until('the hub is active on the screen', "grep -aqE 'lineside-hub .*\\bactive' /dev/vcs1");
    const shown = await screenText(booted.box);
    const fingerprint = await booted.box.ssh('openssl x509 -in /etc/lineside/tls/ca.crt -noout -fingerprint -sha256');
    assert.ok(shown.replaceAll(/\s/g, '').includes(fingerprint.split('=')[1] ?? 'none'), shown);
    assert.match(shown, /pump-house-3/);
    assert.match(shown, /^ {2}lineside-hub +.*\bactive\b/m);
  });

  it('has room for both services in the memory of the smallest board', async () => {
    const memory = await memoryOf(booted.box);
    say(`memory: ${JSON.stringify(memory)}`);
    assert.ok(memory.totalMb < MEMORY_MIB);
    assert.ok(memory.availableMb > memory.totalMb / 4, 'less than a quarter is left');
    assert.equal(await booted.box.ssh('journalctl -k --grep "Out of memory" --no-pager -q || true'), '');
  });

  it(`keeps every promise when the plug is pulled under load, ${PULLS} times`, async () => {
    const seed = chosenSeed();
    say(`pulled plugs: SEED=${seed}`);
    say(await pullBoardPlugs(booted, PULLS, seed, say));
  });
});
