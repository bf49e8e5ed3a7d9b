/** What a million waiting rows cost further changes: rate and memory, with an unreachable broker. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { releaseAfterStartMs } from '../../../src/shared/base/memory.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { freePort } from '../../free-port.ts';
import { residentOf } from '../processes.ts';
import { atLeast, inTurns, type Line, median, medianOf, more, type Row, rate, rounded, shown } from '../table.ts';
import { measured } from './child.ts';
import { type RowsHub, withHub } from './hub.ts';
import type { BacklogRates } from './programs/backlog.ts';
import { dataOf } from './samples.ts';
import { seedWaiting } from './seed.ts';

const RATE_AIM = 0.9;
/** Two runs of the same program differ by as much. */
const FLAT_MB = 10;
const CLIENTS = 8;
const SETTLE_MS = releaseAfterStartMs + 5_000;

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
    // No process listens there.
    const nowhere = `127.0.0.1:${await freePort()}`;
    const rates = await measured<BacklogRates>('backlog', [nowhere, dirOf('empty'), dirOf('full'), rounds, changes]);
    say(`empty ${rounded(rates.empty)}`);
    say(`full ${rounded(rates.full)}`);
    const waiting = rows.toLocaleString('en');
    const load = quick ? 500 : 5_000;
    const seed = (to: string): void => copyFileSync(file, join(to, 'refdata.db'));
    const found = await inTurns(
      { rounds: quick ? 1 : 3 },
      {
        empty: () => withHub({ bootstrap: nowhere }, (hub) => loaded(hub, load)),
        full: () => withHub({ bootstrap: nowhere, seed }, (hub) => loaded(hub, load)),
      },
    );
    const rateLine: Line = {
      row: `records created per second with ${waiting} rows waiting, no broker within reach`,
      lineside: `${Math.round(median(rates.full))}/s`,
      against: `empty outbox: ${Math.round(median(rates.empty))}/s`,
      ...atLeast(median(rates.full) / median(rates.empty), RATE_AIM),
    };
    const memoryLine = (row: string, when: 'idle' | 'after', judged: boolean): Line => {
      const [full, empty] = [medianOf(found.full, (one) => one[when]), medianOf(found.empty, (one) => one[when])];
      const difference = more(full - empty, 1, 'MB', `flat (at most +${FLAT_MB} MB)`, full - empty <= FLAT_MB);
      return {
        row: `resident memory of the hub with ${waiting} rows waiting, ${row}`,
        lineside: `${full.toFixed(1)} MB`,
        against: `empty outbox: ${empty.toFixed(1)} MB`,
        ...(judged ? difference : shown(difference.ratio)),
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

async function loaded(hub: RowsHub, changes: number): Promise<Resident> {
  await hub.createDictionary();
  await sleep(SETTLE_MS);
  const idle = residentOf(hub.pid()).all;
  await rate(changes, CLIENTS, (n) => hub.create(`new-${n}`, dataOf(n)));
  await sleep(SETTLE_MS);
  return { idle, after: residentOf(hub.pid()).all };
}
