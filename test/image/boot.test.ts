/** First boot of a card that a technician has edited, and the second. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { QemuBox } from './box.ts';
import { imageMissing, readFromCard, writeCard } from './card.ts';

describe('the image, booted', { skip: imageMissing() }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-boot-'));
  let box: QemuBox;
  before(async () => {
    const card = join(dir, 'card.img');
    box = await QemuBox.create({ dir, card });
    writeCard(card, { 'setup.toml': `[box]\nhostname = "pump-house-3"\n[ssh]\nkeys = ["${box.publicKey}"]\n` });
    const from = performance.now();
    await box.start();
    await box.ready();
    process.stderr.write(`first boot to ready: ${((performance.now() - from) / 1000).toFixed(0)} s\n`);
  });
  after(async () => {
    await box.kill();
    rmSync(dir, { recursive: true, force: true });
  });

  it('runs both services under the name from the card, with nothing failed', async () => {
    const seen = await box.until(
      'a running system',
      'systemctl is-active lineside lineside-hub && hostname && systemctl --failed --no-legend --plain',
    );
    assert.deepEqual(seen.split('\n'), ['active', 'active', 'pump-house-3']);
  });

  it('has a root that nobody can write to', async () => {
    const { status, stdout } = await box.trySsh('findmnt -no FSTYPE,OPTIONS /; touch /usr/x /etc/x');
    assert.notEqual(status, 0);
    assert.match(stdout, /^erofs +ro,/);
  });

  it('has grown its data to the end of the card, and keeps there what it keeps', async () => {
    assert.ok(Number(await box.ssh('df --output=size -BM /data | tail -1 | tr -dc 0-9')) > 2_000);
    const kept = await box.ssh('findmnt -rno TARGET -t ext4');
    for (const place of ['/data', '/etc/lineside', '/var/lib/lineside', '/etc/machine-id']) {
      assert.ok(kept.split('\n').includes(place), place);
    }
    assert.equal(await box.ssh('findmnt -no OPTIONS /boot/firmware | grep -o "^r."'), 'ro');
  });

  it('comes back after a pulled plug as the same box', async () => {
    const identity = 'cat /etc/machine-id /etc/hostname; sha256sum </etc/lineside/tls/server.crt';
    const first = await box.ssh(`${identity}; sync`);
    await box.kill();
    const from = performance.now();
    await box.start();
    await box.ready();
    process.stderr.write(`second boot to ready: ${((performance.now() - from) / 1000).toFixed(0)} s\n`);
    assert.equal(await box.ssh(identity), first);
    assert.match(await box.ssh('cat /run/lineside-boot'), /^DATA=ok$/m);
  });

  it('shuts down in order, with no byte on the field line from power-on to here', async () => {
    await box.shutDown();
    assert.deepEqual(box.uartReceived(), Buffer.alloc(0));
    assert.match(readFromCard(box.card, 'slot.txt').toString('latin1'), /good=a try=- left=0\nos_prefix=a\/\n/);
  });
});
