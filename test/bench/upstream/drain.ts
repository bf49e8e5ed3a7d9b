/** A serial log that piled up while the central side was out of reach: how fast it goes out. */

import { RX } from '../../../src/line/log/entry.ts';
import { openSerialLog } from '../../../src/line/log/serial-log.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../src/shared/base/logger.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { type BenchBroker, startBroker } from '../outbox/broker.ts';
import { measured } from '../outbox/child.ts';
import { removeDirectory, sleep, temporaryDirectory } from '../processes.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';
import { startBox } from './box.ts';
import type { Drained } from './programs/bare-upstream.ts';
import { SENTENCE_BYTES, sentences } from './sentences.ts';

const AIM = 0.1;
const MIB = 1_048_576;
/** upstream.batch_bytes as it is shipped. */
const BATCH_BYTES = 262_144;
/** Each look is a whole page of metrics, which the hub has to write beside its work. */
const LOOK_MS = 200;
const LIMIT_MS = 300_000;
const AT_ONCE_BYTES = 4 * MIB;

const cases = [
  { entryBytes: 4_096, what: 'entries of 4,096 bytes (a line without a pause)' },
  { entryBytes: SENTENCE_BYTES, what: `entries of ${SENTENCE_BYTES} bytes (sentences)` },
] as const;

export const drain: Row = {
  name: 'drain',
  async run({ quick, say }) {
    const bytes = (quick ? 8 : 64) * MIB;
    const rounds = quick ? 1 : 3;
    const broker = await startBroker();
    // Java compiles while it runs: the first that come would be slower.
    await bare(broker, bytes);
    const lines: Line[] = [];
    for (const { entryBytes, what } of cases) {
      const found: Record<'own' | 'bare', Drained[]> = { own: [], bare: [] };
      for (let round = 0; round < rounds; round++) {
        found.bare.push(await bare(broker, bytes));
        found.own.push(await own(broker, bytes, entryBytes));
        say(`${what}: ${JSON.stringify([found.own.at(-1), found.bare.at(-1)])}`);
      }
      lines.push(line(bytes, what, found.own, found.bare));
    }
    await broker.close();
    return lines;
  },
};

let topics = 0;

async function bare(broker: BenchBroker, bytes: number): Promise<Drained> {
  const topic = `bench.bare-${topics++}`;
  await broker.createTopic(topic);
  return measured<Drained>('bare-upstream', [broker.bootstrap, topic, bytes, BATCH_BYTES]);
}

async function own(broker: BenchBroker, bytes: number, entryBytes: number): Promise<Drained> {
  const dataDir = temporaryDirectory();
  await fill(dataDir, bytes, entryBytes);
  const topic = `bench.own-${topics++}`;
  await broker.createTopic(topic);
  // The last batch is not a whole one, and would wait for company that never comes.
  const box = await startBox({ bootstrap: broker.bootstrap, upstream: 'kafka', topic, dataDir, lingerMs: 100 });
  let [fromMs, fromCpu] = [performance.now(), box.cpu()];
  const sent = (): Promise<number> => box.figure('sent_bytes_total');
  while ((await sent()) === 0) {
    [fromMs, fromCpu] = [performance.now(), box.cpu()];
    await sleep(LOOK_MS);
  }
  for (const endMs = fromMs + LIMIT_MS; (await sent()) < bytes; await sleep(LOOK_MS))
    if (performance.now() > endMs) throw new Error(`not sent within ${LIMIT_MS} ms: ${await sent()} of ${bytes} bytes`);
  const [ms, cpu] = [performance.now() - fromMs, box.cpu()];
  await box.close();
  removeDirectory(dataDir);
  return { ms, cpu: cpu.line - fromCpu.line + cpu.hub - fromCpu.hub };
}

async function fill(dir: string, bytes: number, entryBytes: number): Promise<void> {
  const content = sentences();
  const log = await openSerialLog({
    dir,
    commitMs: 100,
    maxBytes: 1_024 * MIB,
    maxAgeDays: 30,
    queueBytes: 64 * MIB,
    tailBytes: 65_536,
    clock: systemClock,
    logger: silentLogger,
  });
  for (let done = 0; done < bytes; ) {
    const end = Math.min(bytes, done + AT_ONCE_BYTES);
    for (; done < end; done += entryBytes) {
      const from = done % (content.length - entryBytes);
      log.record(RX, Date.now(), content.subarray(from, from + Math.min(entryBytes, bytes - done)));
    }
    await until('the log to be stored', async () => (await log.status()).pendingEntries === 0);
  }
  await log.close();
}

function line(bytes: number, what: string, own: readonly Drained[], bare: readonly Drained[]): Line {
  const ms = (all: readonly Drained[]): number => median(all.map((one) => one.ms));
  const cpu = (all: readonly Drained[]): string => `${median(all.map((one) => one.cpu)).toFixed(1)} CPU s`;
  const rate = (all: readonly Drained[]): string => `${(bytes / 1e3 / ms(all)).toFixed(1)} MB/s`;
  const ratio = ms(bare) / ms(own);
  return {
    row: `draining ${bytes / MIB} MiB of the serial log, ${what}, to Apache Kafka`,
    lineside: `${rate(own)}, ${cpu(own)} of line and hub; read from the card's log, packed, acknowledged batch by batch`,
    against: `bare node-rdkafka, the same bytes from memory in messages of ${BATCH_BYTES / 1_024} KiB: ${rate(bare)}, ${cpu(bare)}`,
    ratio: times(ratio),
    aim: `at least ${AIM} x`,
    verdict: judge(ratio >= AIM),
  };
}
