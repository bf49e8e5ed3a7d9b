/** The whole log from the start: a million entries by StreamLog and by ReadLog, and what that does to the memory. */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { type LeanStream, readBatches, streamEntries } from '../grpc-lean.ts';
import { residentOf } from '../processes.ts';
import { filledLog } from '../serial-log.ts';
import { startBareMemory, startLine } from '../stations.ts';
import { atLeast, inTurns, median, more, type Row, shown, times } from '../table.ts';

const ENTRY_BYTES = 64;
const AIM = 0.7;
/** A heap's garbage between two collections; the log held in memory would be three times as much. */
const FLAT_MB = 30;
const LOOK_MS = 50;
const LIMIT_MS = 180_000;

export const replay: Row = {
  name: 'replay',
  whyMissed:
    'The garbage of two threads between two collections. Each collection that is forced earlier costs processor ' +
    'time.',
  async run({ quick, say }) {
    const entries = quick ? 100_000 : 1_000_000;
    const dir = temporaryDirectory();
    await filledLog(dir, entries, (n) => Buffer.alloc(ENTRY_BYTES, n & 0xff));
    const lineside = await startLine({ dir });
    const peer = await startBareMemory(entries, ENTRY_BYTES);
    const before = residentOf(lineside.pid).all;
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, residentOf(lineside.pid).all);
    }, LOOK_MS);
    const replayed = (address: string) => () => rate(entries, (count) => streamEntries(address, true, () => count(1)));
    const { own, bare, batched } = await inTurns(
      { rounds: quick ? 1 : 3, warmUp: true },
      {
        own: replayed(lineside.address),
        bare: replayed(peer.address),
        batched: () => rate(entries, (count) => readBatches(lineside.address, count)),
      },
      (name, found) => say(`${name} ${found.toFixed(0)}/s`),
    );
    clearInterval(watch);
    await sleep(1_000);
    const after = residentOf(lineside.pid).all;
    await lineside.stop();
    await peer.close();
    const perSecond = (rates: readonly number[]): string => median(rates).toFixed(0);
    const grown = peak - before;
    return [
      {
        row: `replay of ${entries.toLocaleString('en')} entries from the start`,
        lineside: `${perSecond(own)} entries/s by StreamLog`,
        against: `bare grpc-js from memory: ${perSecond(bare)}/s`,
        ...atLeast(median(own) / median(bare), AIM),
      },
      {
        row: 'the same by ReadLog, in batches',
        lineside: `${perSecond(batched)} entries/s`,
        against: `bare grpc-js, an entry a message: ${perSecond(bare)}/s`,
        ...shown(times(median(batched) / median(bare))),
      },
      {
        row: 'resident memory during the replays',
        lineside: `${before.toFixed(1)} MB before, at most ${peak.toFixed(1)}, ${after.toFixed(1)} after`,
        against: 'before',
        ...more(grown, 1, 'MB', `flat (+${FLAT_MB} MB of garbage at most)`, grown <= FLAT_MB),
      },
    ];
  },
};

async function rate(entries: number, open: (count: (entries: number) => void) => LeanStream): Promise<number> {
  let got = 0;
  let last = 0;
  const from = performance.now();
  const stream = open((more) => {
    got += more;
    if (got >= entries && last === 0) last = performance.now();
  });
  await until('the last entry', () => last > 0, LIMIT_MS);
  await stream.close();
  if (got !== entries) throw new Error(`${got} entries came instead of ${entries}`);
  return (entries * 1_000) / (last - from);
}
