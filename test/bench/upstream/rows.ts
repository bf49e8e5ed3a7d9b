/**
 * The rows of upstream, each by the compiled service as `lineside serve` starts it, line and hub: a serial log that piled up
 * while the central side was unreachable, and what sending costs beside a box that does not send.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { type Toml, temporaryDirectory } from '../../e2e/daemon.ts';
import { openPort } from '../../e2e/faults.ts';
import { type Both, startBoth } from '../../e2e/hub.ts';
import { figure } from '../../e2e/upstream-support.ts';
import type { Gate } from '../../gate.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { gatedBroker, rowsBroker } from '../broker.ts';
import { measured } from '../outbox/child.ts';
import { DEVICE_ID, PARTITIONS } from '../outbox/settings.ts';
import { processSeconds } from '../processes.ts';
import { PtyDriver } from '../pty-driver.ts';
import { filledLog } from '../serial-log.ts';
import { type Drained, drainLine, type Line, type Row, shown, times } from '../table.ts';
import { SENTENCE_BYTES, sentences } from './sentences.ts';

interface BoxOptions {
  readonly bootstrap: string;
  readonly topic: string;
  readonly to: 'off' | 'kafka';
  readonly compression?: 'none' | 'zstd';
  readonly lingerMs?: number;
  /** Its serial log is there already. */
  readonly dir?: string;
}

function startBox({ bootstrap, topic, to, compression = 'zstd', lingerMs = 5_000, dir }: BoxOptions): Promise<Both> {
  const config: Toml = {
    serial: { extra_ports: ['/dev/pts/*'] },
    device: { id: DEVICE_ID, inventory: false },
    http: { listen: ['unix:http.sock'] },
    kafka: { bootstrap, topic_prefix: 'bench.hub' },
    upstream: { to, topic, compression, linger_ms: lingerMs },
  };
  return startBoth({ config, ...(dir !== undefined && { dir }) });
}

function cpuOfBox(box: Both): { readonly line: number; readonly hub: number } {
  return { line: processSeconds(box.linePid), hub: processSeconds(box.pid()) };
}

// How fast a serial log that piled up is sent.

const MIB = 1_048_576;
/** upstream.batch_bytes as it is shipped. */
const BATCH_BYTES = 262_144;
/** Each look is a whole page of metrics, which the hub has to write beside its work. */
const LOOK_MS = 200;
const DRAIN_LIMIT_MS = 300_000;

const drainCases = [
  { entryBytes: 4_096, what: 'entries of 4,096 bytes (a line without a pause)', aim: 0.5 },
  { entryBytes: SENTENCE_BYTES, what: `entries of ${SENTENCE_BYTES} bytes (sentences)`, aim: 0.4 },
] as const;

const drain: Row = {
  name: 'drain',
  whyMissed:
    "The peer sends the same memory again and again. lineside's bytes are read from the card in one process, pass " +
    'a socket to the other, and are packed and compressed there. In a profile of the hub, zlib has 12 %, garbage ' +
    '15 to 19 % and packing 10 % of the time; it waits for the line and the broker a quarter of the time.',
  async run({ quick, say }) {
    const bytes = (quick ? 8 : 64) * MIB;
    const rounds = quick ? 1 : 3;
    const broker = await rowsBroker();
    // Java compiles while it runs: the first that come would be slower.
    await bare(broker, bytes);
    const lines: Line[] = [];
    for (const { entryBytes, what, aim } of drainCases) {
      const line = await drainLine({
        row: `draining ${bytes / MIB} MiB of the serial log, ${what}, to Apache Kafka`,
        rounds,
        say,
        rate: (ms) => `${(bytes / 1e3 / ms).toFixed(1)} MB/s`,
        own: () => own(broker, bytes, entryBytes),
        ownNote: " of line and hub; read from the card's log (commits of 32 KiB, compressed), packed, acknowledged",
        bare: () => bare(broker, bytes),
        bareWhat: `bare node-rdkafka, the same bytes from memory in messages of ${BATCH_BYTES / 1_024} KiB`,
        aim,
      });
      lines.push(line);
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
  for (const endMs = fromMs + DRAIN_LIMIT_MS; (await sent()) < bytes; await sleep(LOOK_MS))
    if (performance.now() > endMs)
      throw new Error(`not sent within ${DRAIN_LIMIT_MS} ms: ${await sent()} of ${bytes} bytes`);
  const [ms, cpu] = [performance.now() - fromMs, cpuOfBox(box)];
  await box.stop();
  return { ms, cpu: cpu.line - fromCpu.line + cpu.hub - fromCpu.hub };
}

// Five boxes side by side, each with a line of its own and a way to the broker of its own: what each logged byte costs on the
// link, and what sending it costs in processor time.

const BITS_PER_BYTE = 10;
const FAST = { baud: 115_200, bytesPerSecond: 115_200 / BITS_PER_BYTE, what: '115,200 baud of sentences' };
const SLOW = { baud: 9_600, bytesPerSecond: SENTENCE_BYTES, what: `one sentence of ${SENTENCE_BYTES} bytes a second` };
/** Longer than upstream.linger_ms: the first batches, and what the connection takes, are before. */
const BEFORE_S = 12;

type Case = Pick<BoxOptions, 'to' | 'compression'> & { readonly pace: typeof FAST };
const cases: readonly Case[] = [
  { pace: FAST, to: 'kafka', compression: 'zstd' },
  { pace: FAST, to: 'kafka', compression: 'none' },
  { pace: SLOW, to: 'kafka', compression: 'zstd' },
  { pace: SLOW, to: 'kafka', compression: 'none' },
  { pace: FAST, to: 'off' },
];

type Cost = Awaited<ReturnType<typeof measure>>;

const traffic: Row = {
  name: 'traffic',
  async run({ quick, say }) {
    const seconds = quick ? 20 : 120;
    const { broker, gates } = await gatedBroker(cases.length);
    const file = join(temporaryDirectory(), 'sentences');
    writeFileSync(file, sentences());
    const costs = await Promise.all(
      cases.map((one, n) => {
        const gate = gates[n];
        if (gate === undefined) throw new Error('a box without a gate');
        return measure(one, gate, file, seconds, `bench.serial-log-${n}`);
      }),
    );
    for (const gate of gates) gate.close();
    await broker.kill();
    for (const [n, one] of cases.entries())
      say(`${one.pace.what}, ${one.compression ?? 'off'}: ${JSON.stringify(costs[n])}`);
    const [on, , , , off] = costs;
    if (on === undefined || off === undefined) throw new Error('a case was not measured');
    return [
      ...cases.slice(0, -1).map((one, n) => linkLine(one, costs[n]?.linkPerByte ?? Number.NaN, seconds)),
      cpuLine(on, off, seconds),
    ];
  },
};

async function measure({ pace, ...options }: Case, gate: Gate, file: string, seconds: number, topic: string) {
  const driver = await PtyDriver.open();
  const box = await startBox({ ...options, bootstrap: `127.0.0.1:${gate.port}`, topic });
  await openPort(box.client, driver.slavePath, { baudRate: pace.baud });
  const end = driver.pace(
    pace.bytesPerSecond * (BEFORE_S + seconds + BEFORE_S),
    SENTENCE_BYTES,
    pace.bytesPerSecond,
    file,
  );
  await sleep(BEFORE_S * 1_000);
  const before = await figures(box, gate, options.to);
  await sleep(seconds * 1_000);
  const after = await figures(box, gate, options.to);
  await end;
  await box.stop();
  await driver.close();
  const wall = (after.atMs - before.atMs) / 1_000;
  return {
    linkPerByte: (after.link - before.link) / (after.sent - before.sent),
    /** Percent of a core. */
    line: ((after.line - before.line) / wall) * 100,
    hub: ((after.hub - before.hub) / wall) * 100,
  };
}

/** Just after a batch has gone, where batches go: so that whole ones are counted. */
async function figures(box: Both, gate: Gate, to: 'off' | 'kafka') {
  let sent = 0;
  if (to === 'kafka') {
    const last = await figure(box, 'sent_bytes_total');
    await until('another batch', async () => (await figure(box, 'sent_bytes_total')) > last);
    sent = await figure(box, 'sent_bytes_total');
  }
  const { up, down } = gate.bytes();
  return { atMs: performance.now(), link: up + down, sent, ...cpuOfBox(box) };
}

function linkLine({ pace, compression }: Case, perByte: number, seconds: number): Line {
  return {
    row: `bytes on the link per logged byte, ${pace.what}, ${compression === 'none' ? 'uncompressed' : (compression ?? '')}, ${seconds} s`,
    lineside: `${perByte.toFixed(3)}; ${Math.round((perByte * pace.bytesPerSecond * 86_400) / 1e6)} MB a day`,
    against: '1.0: the bytes of the line alone',
    ...shown(
      perByte.toFixed(3),
      'reported: payload of TCP, both directions, signs of life of both clients of the hub included',
    ),
  };
}

function cpuLine(on: Cost, off: Cost, seconds: number): Line {
  const percent = (value: number): string => `${value.toFixed(2)} %`;
  return {
    row: `CPU of line and hub, 115,200 baud continuous, upstream on, ${seconds} s`,
    lineside: `${percent(on.line + on.hub)} of a core (line ${percent(on.line)}, hub ${percent(on.hub)})`,
    against: `side by side with upstream off: ${percent(off.line + off.hub)} (line ${percent(off.line)}, hub ${percent(off.hub)})`,
    ...shown(times((on.line + on.hub) / (off.line + off.hub)), 'reported'),
  };
}

/** In the order of the table. */
export const rows: readonly Row[] = [drain, traffic];
