/** The whole log from the start: a million entries by StreamLog and by ReadLog, and what that does to the memory. */

import { RX } from '../../../src/line/log/entry.ts';
import { openSerialLog } from '../../../src/line/log/serial-log.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../src/shared/base/logger.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { READ_LOG, readLogRequest, STREAM_LOG, streamLogRequest } from '../calls.ts';
import { countBatch, type OnMessage, serverStream } from '../grpc-lean.ts';
import { startLineside } from '../lineside.ts';
import { startBareMemory } from '../peers/peers.ts';
import { removeDirectory, residentMegabytes, sleep, temporaryDirectory } from '../processes.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';

const ENTRY_BYTES = 64;
const AIM = 0.7;
/** A heap's garbage between two collections; the log held in memory would be three times as much. */
const FLAT_MB = 30;
const LOOK_MS = 50;
const LIMIT_MS = 180_000;
const FILL_AT_ONCE = 5_000;
const GIB = 1_073_741_824;

export const replay: Row = {
  name: 'replay',
  async run({ quick, say }) {
    const entries = quick ? 100_000 : 1_000_000;
    const dataDir = temporaryDirectory();
    await fill(dataDir, entries);
    const lineside = await startLineside({ dataDir });
    const bare = await startBareMemory(entries, ENTRY_BYTES);
    const before = residentMegabytes(lineside.pid);
    const own: number[] = [];
    const batched: number[] = [];
    const other: number[] = [];
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, residentMegabytes(lineside.pid));
    }, LOOK_MS);
    for (let round = -1; round < (quick ? 1 : 3); round++) {
      const run = {
        own: await rate(lineside.address, STREAM_LOG, streamLogRequest(true), entries, () => 1),
        other: await rate(bare.address, STREAM_LOG, streamLogRequest(true), entries, () => 1),
        batched: await rate(lineside.address, READ_LOG, readLogRequest(), entries, countBatch),
      };
      say(`lineside ${run.own.toFixed(0)}/s, bare ${run.other.toFixed(0)}/s, ReadLog ${run.batched.toFixed(0)}/s`);
      if (round < 0) continue;
      own.push(run.own);
      batched.push(run.batched);
      other.push(run.other);
    }
    clearInterval(watch);
    await sleep(1_000);
    const after = residentMegabytes(lineside.pid);
    await lineside.close();
    await bare.close();
    removeDirectory(dataDir);
    const ratio = median(own) / median(other);
    const lines: Line[] = [
      {
        row: `replay of ${entries.toLocaleString('en')} entries from the start`,
        lineside: `${median(own).toFixed(0)} entries/s by StreamLog`,
        against: `bare grpc-js from memory: ${median(other).toFixed(0)}/s`,
        ratio: times(ratio),
        aim: `at least ${AIM} x`,
        verdict: judge(ratio >= AIM),
      },
      {
        row: 'the same by ReadLog, in batches',
        lineside: `${median(batched).toFixed(0)} entries/s`,
        against: `bare grpc-js, an entry a message: ${median(other).toFixed(0)}/s`,
        ratio: times(median(batched) / median(other)),
        aim: 'shown beside it',
        verdict: 'shown',
      },
      {
        row: 'resident memory during the replays',
        lineside: `${before.toFixed(1)} MB before, at most ${peak.toFixed(1)}, ${after.toFixed(1)} after`,
        against: 'before',
        ratio: `+${(peak - before).toFixed(1)} MB`,
        aim: `flat (+${FLAT_MB} MB of garbage at most)`,
        verdict: judge(peak - before <= FLAT_MB),
      },
    ];
    return lines;
  },
};

async function rate(
  address: string,
  path: string,
  request: Uint8Array,
  entries: number,
  count: (...args: Parameters<OnMessage>) => number,
): Promise<number> {
  let got = 0;
  let last = 0;
  const from = performance.now();
  const stream = serverStream(address, path, request, (buffer, at, to) => {
    got += count(buffer, at, to);
    if (got >= entries && last === 0) last = performance.now();
  });
  await until('the last entry', () => last > 0, LIMIT_MS);
  await stream.close();
  if (got !== entries) throw new Error(`${path}: ${got} entries came instead of ${entries}`);
  return (entries * 1_000) / (last - from);
}

async function fill(dir: string, entries: number): Promise<void> {
  const log = await openSerialLog({
    dir,
    commitMs: 100,
    maxBytes: GIB,
    maxAgeDays: 30,
    queueBytes: 64 * 1_048_576,
    tailBytes: 65_536,
    clock: systemClock,
    logger: silentLogger,
  });
  for (let done = 0; done < entries; done += FILL_AT_ONCE) {
    for (let i = 0; i < FILL_AT_ONCE; i++) log.record(RX, Date.now(), Buffer.alloc(ENTRY_BYTES, (done + i) & 0xff));
    await until('the log to be stored', async () => (await log.status()).pendingEntries < FILL_AT_ONCE * 4);
  }
  await log.close();
}
