/** A serial log that piled up while the central side was out of reach: how fast it is sent. */
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { figure } from '../../e2e/upstream-support.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { rowsBroker } from '../broker.ts';
import { measured } from '../outbox/child.ts';
import { PARTITIONS } from '../outbox/settings.ts';
import { filledLog } from '../serial-log.ts';
import { atLeast, inTurns, type Line, medianOf, type Row } from '../table.ts';
import { cpuOfBox, startBox } from './boxes.ts';
import type { Drained } from './programs/bare-upstream.ts';
import { SENTENCE_BYTES, sentences } from './sentences.ts';

const AIM = 0.1;
const MIB = 1_048_576;
/** upstream.batch_bytes as it is shipped. */
const BATCH_BYTES = 262_144;
/** Each look is a whole page of metrics, which the hub has to write beside its work. */
const LOOK_MS = 200;
const LIMIT_MS = 300_000;

const cases = [
  { entryBytes: 4_096, what: 'entries of 4,096 bytes (a line without a pause)' },
  { entryBytes: SENTENCE_BYTES, what: `entries of ${SENTENCE_BYTES} bytes (sentences)` },
] as const;

export const drain: Row = {
  name: 'drain',
  async run({ quick, say }) {
    const bytes = (quick ? 8 : 64) * MIB;
    const rounds = quick ? 1 : 3;
    const broker = await rowsBroker();
    // Java compiles while it runs: the first that come would be slower.
    await bare(broker, bytes);
    const lines: Line[] = [];
    for (const { entryBytes, what } of cases) {
      const found = await inTurns(
        { rounds },
        { bare: () => bare(broker, bytes), own: () => own(broker, bytes, entryBytes) },
        (who, one) => say(`${what}, ${who}: ${JSON.stringify(one)}`),
      );
      lines.push(line(bytes, what, found.own, found.bare));
    }
    await broker.kill();
    return lines;
  },
};

let topics = 0;

async function newTopic(broker: TestBroker): Promise<string> {
  const topic = `bench.log-${topics++}`;
  await broker.admin.createTopic(topic, PARTITIONS);
  return topic;
}

async function bare(broker: TestBroker, bytes: number): Promise<Drained> {
  return measured<Drained>('bare-upstream', [broker.plain, await newTopic(broker), bytes, BATCH_BYTES]);
}

async function own(broker: TestBroker, bytes: number, entryBytes: number): Promise<Drained> {
  const dir = temporaryDirectory();
  const content = sentences();
  await filledLog(dir, Math.ceil(bytes / entryBytes), (n) => {
    const from = (n * entryBytes) % (content.length - entryBytes);
    return content.subarray(from, from + Math.min(entryBytes, bytes - n * entryBytes));
  });
  const topic = await newTopic(broker);
  // The last batch is not a whole one, and would wait for company that never comes.
  const box = await startBox({ bootstrap: broker.plain, to: 'kafka', topic, dir, lingerMs: 100 });
  let [fromMs, fromCpu] = [performance.now(), cpuOfBox(box)];
  const sent = (): Promise<number> => figure(box, 'sent_bytes_total');
  while (!((await sent()) > 0)) {
    [fromMs, fromCpu] = [performance.now(), cpuOfBox(box)];
    await sleep(LOOK_MS);
  }
  for (const endMs = fromMs + LIMIT_MS; (await sent()) < bytes; await sleep(LOOK_MS))
    if (performance.now() > endMs) throw new Error(`not sent within ${LIMIT_MS} ms: ${await sent()} of ${bytes} bytes`);
  const [ms, cpu] = [performance.now() - fromMs, cpuOfBox(box)];
  await box.stop();
  return { ms, cpu: cpu.line - fromCpu.line + cpu.hub - fromCpu.hub };
}

function line(bytes: number, what: string, own: readonly Drained[], bare: readonly Drained[]): Line {
  const ms = (all: readonly Drained[]): number => medianOf(all, (one) => one.ms);
  const cpu = (all: readonly Drained[]): string => `${medianOf(all, (one) => one.cpu).toFixed(1)} CPU s`;
  const rate = (all: readonly Drained[]): string => `${(bytes / 1e3 / ms(all)).toFixed(1)} MB/s`;
  return {
    row: `draining ${bytes / MIB} MiB of the serial log, ${what}, to Apache Kafka`,
    lineside: `${rate(own)}, ${cpu(own)} of line and hub; read from the card's log, packed, acknowledged batch by batch`,
    against: `bare node-rdkafka, the same bytes from memory in messages of ${BATCH_BYTES / 1_024} KiB: ${rate(bare)}, ${cpu(bare)}`,
    ...atLeast(ms(bare) / ms(own), AIM),
  };
}
