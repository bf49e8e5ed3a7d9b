/** The receive path at full speed: PTY to StreamLog, logged. */
import { performance } from 'node:perf_hooks';
import {
  allStored,
  bareContender,
  type Contender,
  cpuOf,
  type LinesideContender,
  linesideContender,
  ser2netContenders,
  skipped,
} from '../contenders.ts';
import { CONTENT_BYTES } from '../pty-driver.ts';
import { expectedDigest, Receiver, receiveLog } from '../receiver.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';

const BAUD = 12_000_000;
/** Every read is an entry: the least that a server can do. */
const GAP_MS = 0;
/** What the kernel's line discipline takes at once. */
const WRITE_BYTES = 4_096;
const LIMIT_MS = 120_000;
const ROW = 'receive path, PTY to StreamLog, logged; SHA-256 equal, also read back';
/** At least so many times the peer's bytes/s. */
const AIMS: Readonly<Record<string, number>> = { 'ser2net as shipped': 2, 'ser2net tuned': 0.5, 'bare grpc-js': 0.9 };

interface Run {
  readonly megabytesPerSecond: number;
  readonly cpuPer100Megabytes: number;
}

export const receive: Row = {
  name: 'receive',
  async run({ quick, say }) {
    const bytes = (quick ? 20 : 100) * CONTENT_BYTES;
    const rounds = quick ? 1 : 3;
    const lineside = await linesideContender({ baud: BAUD, subscribed: true });
    const { ser2net, missing } = await ser2netContenders(BAUD);
    const peers = [...ser2net, await bareContender(GAP_MS)];
    const runs = new Map<Contender, Run[]>([lineside, ...peers].map((contender) => [contender, []]));
    // The first round of each warms its compiler up and does not count.
    for (let round = -1; round < rounds; round++) {
      for (const [contender, results] of runs) {
        const run = await flood(
          contender,
          bytes,
          contender === lineside ? () => allStored(lineside.lineside) : undefined,
        );
        say(`${contender.name}: ${show(run)}`);
        if (round >= 0) results.push(run);
      }
    }
    await storedIsEqual(lineside, bytes * (rounds + 1));
    const own = middle(runs.get(lineside) ?? []);
    const lines = peers.map((peer): Line => {
      const other = middle(runs.get(peer) ?? []);
      const ratio = own.megabytesPerSecond / other.megabytesPerSecond;
      const aim = AIMS[peer.name] ?? 1;
      return {
        row: ROW,
        lineside: show(own),
        against: `${peer.name}: ${show(other)}`,
        ratio: times(ratio),
        aim: `at least ${aim} x the bytes/s`,
        verdict: judge(ratio >= aim),
      };
    });
    for (const contender of runs.keys()) await contender.close();
    return [...skipped(ROW, missing), ...lines];
  },
};

async function flood(contender: Contender, bytes: number, settled?: () => Promise<void>): Promise<Run> {
  const { receiver, driver } = contender;
  const { cpu, result: seconds } = await cpuOf(contender.pid, async () => {
    const from = performance.now();
    await Promise.all([receiver.all(bytes, LIMIT_MS), driver.flood(bytes, WRITE_BYTES)]);
    const took = (receiver.endedAt - from) / 1_000;
    await settled?.();
    return took;
  });
  if (receiver.digest() !== expectedDigest(bytes))
    throw new Error(`${contender.name}: the SHA-256 of what arrived is not that of what was sent`);
  return { megabytesPerSecond: bytes / seconds / 1e6, cpuPer100Megabytes: (cpu * 1e8) / bytes };
}

async function storedIsEqual({ lineside }: LinesideContender, bytes: number): Promise<void> {
  const stored = new Receiver();
  const stream = receiveLog(lineside.address, true, stored);
  await stored.all(bytes, LIMIT_MS);
  await stream.close();
  if (stored.digest() !== expectedDigest(bytes))
    throw new Error('the SHA-256 of the stored log is not that of what was sent');
}

const middle = (runs: readonly Run[]): Run => ({
  megabytesPerSecond: median(runs.map((run) => run.megabytesPerSecond)),
  cpuPer100Megabytes: median(runs.map((run) => run.cpuPer100Megabytes)),
});

const show = (run: Run): string =>
  `${run.megabytesPerSecond.toFixed(1)} MB/s, ${run.cpuPer100Megabytes.toFixed(2)} CPU s per 100 MB`;
