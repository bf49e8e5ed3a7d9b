/**
 * The image on QEMU's Raspberry Pi boards, each with the device tree of the board: what takes too long for every day. The
 * table says what ran on which board, and what it showed.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { BundleReport } from '../../src/doctor/bundle/bundle-target.ts';
import type { DoctorReport } from '../../src/shared/gen/http.ts';
import {
  type BootedBoard,
  firstBoot,
  memoryOf,
  pullBoardPlugs,
  startBoard,
  tryFieldLine,
  UART,
} from '../image/board-life.ts';
import type { QemuBox } from '../image/box.ts';
import { writeNextBundle } from '../image/bundles.ts';
import { copyToCard, imageMissing } from '../image/card.ts';
import type { BoardOptions } from '../image/machine.ts';
import { tryFramings, trySession } from '../image/uart-session.ts';
import { typicalSite } from './board-site.ts';

type Say = (line: string) => void;

interface Step {
  readonly name: string;
  /** The result is what it showed. */
  readonly run: (board: BootedBoard) => Promise<string>;
}

/** 512 MB, less what the firmware keeps for the graphics processor. */
const SMALLEST_MIB = 448;
const SITE_MINUTES = 10;
/** Above the longest limit of the commands, 120 s. */
const COMMAND_LIMIT_MS = 180_000;
const BUNDLE = 'next.update';
/** It is read three times and written once, all of it on the emulated card. */
const INSTALL_LIMIT_MS = 900_000;

/** In each board as it is first started; `pulls`: how often the plug of the 3B is pulled. */
export async function boardRuns(dir: string, pulls: number, seed: number, say: Say): Promise<void> {
  assert.equal(imageMissing(), false);
  const rows: string[] = [];
  const failures: unknown[] = [];
  const run = async (options: BoardOptions, steps: readonly Step[]): Promise<void> => {
    const { machine, tree } = options;
    let board: BootedBoard | undefined;
    const timed = async (name: string, work: () => Promise<string>): Promise<void> => {
      const from = performance.now();
      const shown = await work().catch((error: unknown) => {
        rows.push(`| ${machine}, ${tree} | ${name} | **failed** | ${secondsSince(from)} |`);
        say(`${tree}: ${name}: ${String(error)}`);
        throw error;
      });
      rows.push(`| ${machine}, ${tree} | ${name} | ${shown} | ${secondsSince(from)} |`);
      say(`${tree}: ${name}: ${shown}`);
    };
    try {
      await timed('first start', async () => {
        board = await firstBoot(join(dir, tree), options, say);
        return `ready after ${board.started.seconds.toFixed(0)} s; starts without USB before: ${board.started.withoutUsb}`;
      });
      for (const { name, run: work } of steps) await timed(name, () => work(board as BootedBoard));
    } catch (error) {
      failures.push(error);
    } finally {
      board?.client.close();
      board?.http.close();
      await board?.box.kill();
    }
  };
  const plugs = pulledPlugs(pulls, seed, say);
  const all = [services, fieldLine, framings, session, doctor, supportBundle, rebootAndUpdate(say), plugs];
  await run({ machine: 'raspi3b', tree: 'bcm2837-rpi-3-b' }, all);
  await run({ machine: 'raspi4b', tree: 'bcm2711-rpi-4-b' }, [services, fieldLine, doctor, supportBundle]);
  const smallest = { machine: 'raspi3b', tree: 'bcm2837-rpi-zero-2-w', memoryMib: SMALLEST_MIB } as const;
  await run(smallest, [{ name: 'typical site', run: (board) => typicalSite(board, SITE_MINUTES) }]);
  process.stdout.write(['| board | what ran | what it showed | s |', '|---|---|---|---|', ...rows, ''].join('\n'));
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} boards failed`);
}

const secondsSince = (from: number): string => ((performance.now() - from) / 1000).toFixed(0);

const services: Step = {
  name: 'both services',
  async run({ box }) {
    const states = 'systemctl is-active lineside lineside-hub && systemctl --failed --no-legend --plain';
    assert.equal(await box.until('a running system', states), 'active\nactive');
    const { totalMb, availableMb, lineMb, hubMb } = await memoryOf(box);
    return `active, no unit failed; line ${lineMb} MB, hub ${hubMb} MB, ${availableMb} of ${totalMb} MB available`;
  },
};

const fieldLine: Step = {
  name: 'field line',
  async run(board) {
    await tryFieldLine(board);
    return '0 bytes before the first send; then 256 bytes and a break in each direction, exactly';
  },
};

const framings: Step = {
  name: 'framings',
  async run({ box, client }) {
    await box.watchUart(true);
    return `${await tryFramings(client, box, UART)}: in the registers of the PL011 as requested`;
  },
};

const session: Step = {
  name: 'Session',
  async run({ box, client }) {
    await trySession(client, box);
    await box.watchUart(false);
    return 'settings, modem lines, breaks, drain, XOFF and line errors in the order of the requests';
  },
};

const doctor: Step = {
  name: 'doctor',
  async run({ box }) {
    const { checks } = await printed<DoctorReport>(box, 'lineside doctor --json');
    const failed = checks.flatMap(({ findings }) => findings.filter(({ state }) => state === 'failed'));
    assert.deepEqual(
      failed.filter(({ found }) => !isLate(found)),
      [],
    );
    const [slowest] = checks.toSorted((a, b) => b.tookMs - a.tookMs);
    const warnings = checks.filter(({ state }) => state === 'warning').map(({ name }) => name);
    const slow = `the slowest, ${slowest?.name}, took ${((slowest?.tookMs ?? 0) / 1000).toFixed(1)} s`;
    return `${checks.length} checks, no fault found; at their time limit: ${failed.length}; warnings: ${warnings.join(', ') || 'none'}; ${slow}`;
  },
};

const supportBundle: Step = {
  name: 'support-bundle',
  async run({ box }) {
    const command = 'lineside support-bundle --json --force --output /run/support.tar.gz';
    const { bytes, files, leftOut } = await printed<BundleReport>(box, command);
    const atLimit = leftOut.some(({ why }) => isLate(why));
    for (const name of ['doctor.json', 'line-status.json', 'units.txt', 'kernel.txt', 'journal.txt'])
      assert.ok(atLimit || files.some((file) => file.name === name), `no ${name}: ${JSON.stringify(leftOut)}`);
    const left = leftOut.map(({ what, why }) => `${what} (${why})`).join(', ');
    return `${files.length} files, ${bytes} bytes; left out: ${left || 'nothing'}`;
  },
};

/** The limits are those of a board: an emulator that shares its machine is slower still. */
const isLate = (text: string): boolean => /did not end within|does not answer within|: late$/.test(text);

/** What the command prints as JSON, also if its status says that something failed. */
async function printed<T>(box: QemuBox, command: string): Promise<T> {
  const { stdout, stderr } = await box.trySsh(command, COMMAND_LIMIT_MS);
  assert.match(stdout, /^\{/, stderr);
  return JSON.parse(stdout) as T;
}

function rebootAndUpdate(say: Say): Step {
  return {
    name: 'reboot and update',
    async run({ box }) {
      const before = box.uartReceived().length;
      let withoutUsb = 0;
      const startAgain = async (prepare?: () => void): Promise<string> => {
        await box.trySsh('systemctl reboot');
        assert.equal(await box.ended(), 'reset');
        prepare?.();
        const started = await startBoard(box, say);
        withoutUsb += started.withoutUsb;
        return started.seconds.toFixed(0);
      };
      // Over the emulated network it would take a quarter of an hour.
      const first = await startAgain(() => copyToCard(box.card, writeNextBundle(box.dir), BUNDLE));
      await box.ssh(`lineside update install /boot/firmware/${BUNDLE}`, INSTALL_LIMIT_MS);
      const second = await startAgain();
      await box.until('the new slot is kept', "grep -q 'good=b try=-' /boot/firmware/slot.txt");
      assert.equal(await box.ssh('sed -n s/^SLOT=//p /run/lineside-boot'), 'b');
      assert.equal(box.uartReceived().length, before, 'bytes on the field line');
      return `reset by the box twice, ready after ${first} s, and after ${second} s in the new slot, which is kept; 0 bytes on the line; starts without USB: ${withoutUsb}`;
    },
  };
}

function pulledPlugs(pulls: number, seed: number, say: Say): Step {
  return { name: `plug pulled ${pulls} times`, run: (board) => pullBoardPlugs(board, pulls, seed, say) };
}
