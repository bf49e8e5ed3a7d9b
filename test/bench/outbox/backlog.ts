/** What a million waiting rows cost those who go on changing: rate and memory, the broker out of reach. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../peers/peers.ts';
import { residentMegabytes, sleep, temporaryDirectory } from '../processes.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';
import { rate } from './changes.ts';
import { measured } from './child.ts';
import { type Hub, startHub } from './hub.ts';
import type { BacklogRates } from './programs/backlog.ts';
import { dataOf } from './samples.ts';
import { seedWaiting } from './seed.ts';

const RATE_AIM = 0.9;
/** Two runs of the same program differ by as much. */
const FLAT_MB = 10;
const CLIENTS = 8;
const SETTLE_MS = 10_000;

/** Megabytes. */
interface Resident {
  readonly idle: number;
  readonly after: number;
}

export const backlog: Row = {
  name: 'backlog',
  async run({ quick, say }) {
    const rows = quick ? 100_000 : 1_000_000;
    const [rounds, changes] = quick ? [6, 50] : [60, 60];
    const dir = temporaryDirectory();
    const dirOf = (name: string): string => {
      mkdirSync(join(dir, name), { recursive: true });
      return join(dir, name);
    };
    seedWaiting(dirOf('seed'), rows, rows / 10);
    const file = join(dir, 'seed', 'refdata.db');
    copyFileSync(file, join(dirOf('full'), 'refdata.db'));
    // Nobody listens there.
    const nowhere = `127.0.0.1:${await freePort()}`;
    const rates = await measured<BacklogRates>('backlog', [nowhere, dirOf('empty'), dirOf('full'), rounds, changes]);
    const ratio = median(rates.full) / median(rates.empty);
    const show = (values: readonly number[]): string => values.map((value) => Math.round(value)).join(' ');
    say(`empty ${show(rates.empty)}`);
    say(`full ${show(rates.full)}`);
    const waiting = rows.toLocaleString('en');
    const load = quick ? 500 : 5_000;
    const found: Record<'empty' | 'full', Resident[]> = { empty: [], full: [] };
    const seed = (to: string): void => copyFileSync(file, join(to, 'refdata.db'));
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      found.empty.push(await loaded(await startHub({ bootstrap: nowhere }), load));
      found.full.push(await loaded(await startHub({ bootstrap: nowhere, seed }), load));
    }
    const of = (which: 'empty' | 'full', when: 'idle' | 'after'): number =>
      median(found[which].map((one) => one[when]));
    const rateLine: Line = {
      row: `records created per second with ${waiting} rows waiting, no broker within reach`,
      lineside: `${Math.round(median(rates.full))}/s`,
      against: `empty outbox: ${Math.round(median(rates.empty))}/s`,
      ratio: times(ratio),
      aim: `at least ${RATE_AIM} x`,
      verdict: judge(ratio >= RATE_AIM),
    };
    const memoryLine = (row: string, when: 'idle' | 'after', judged: boolean): Line => {
      const more = of('full', when) - of('empty', when);
      return {
        row: `resident memory of the hub with ${waiting} rows waiting, ${row}`,
        lineside: `${of('full', when).toFixed(1)} MB`,
        against: `empty outbox: ${of('empty', when).toFixed(1)} MB`,
        ratio: `${more >= 0 ? '+' : ''}${more.toFixed(1)} MB`,
        aim: judged ? `flat (at most +${FLAT_MB} MB)` : 'shown beside it',
        verdict: judged ? judge(more <= FLAT_MB) : 'shown',
      };
    };
    return [
      rateLine,
      memoryLine(`after ${load.toLocaleString('en')} changes over HTTP`, 'after', true),
      // A file above 32 MiB is checked by a thread after the start: what that leaves behind is the same for any such file.
      memoryLine('before any change', 'idle', false),
    ];
  },
};

async function loaded(hub: Hub, changes: number): Promise<Resident> {
  await hub.createDictionary();
  await sleep(SETTLE_MS);
  const idle = residentMegabytes(hub.pid);
  await rate(changes, CLIENTS, (n) => hub.create(`new-${n}`, dataOf(n)));
  await sleep(SETTLE_MS);
  const after = residentMegabytes(hub.pid);
  await hub.close();
  return { idle, after };
}
