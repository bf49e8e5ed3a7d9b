/**
 * Frames arrive whole: a UART reports bytes in bursts and holds back the last ones, and the process may be stopped. The device
 * is uart.c, which reports when it wrote what; a frame is judged only if it was written and handed over in time, so the
 * load of the machine fails no test.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Client, type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { everythingAfter, logStatus, openPort, RX } from './faults.ts';
import { point } from './pty.ts';
import { startUart, type Uart, type WrittenFrame } from './uart.ts';

const BAUDS = [9_600, 19_200, 38_400, 57_600, 115_200] as const;
const BURSTS = [1, 8, 16] as const;
const ROUND_FRAMES = 20;
/** So many frames in time are enough; a machine that is too busy for them gets more rounds. */
const ENOUGH_FRAMES = 20;
/** Of them. A process that does not run joins frames rather than cut one: on a busy machine few stay alone. */
const ENOUGH_ALONE = 5;
const MAX_ROUNDS = 60;
/** A write of uart.c that is later than this does not count as in time: well below the least gap of 2 ms. */
const WRITE_LATE_MS = 0.5;
/** What the reader needs beyond the gap (README, "Chunks"), and for its own delays. */
const PAUSE_CHARACTERS = 8;
const PAUSE_SPARE_MS = 3;

const characterMs = (baud: number): number => 10_000 / baud;
const gapMs = (baud: number): number => Math.max(2, 3.5 * characterMs(baud));

let uart: Uart;
let daemon: Daemon | undefined;
let client: Client;
let portName: string;

before(async () => {
  const dir = temporaryDirectory();
  portName = `${dir}/port0`;
  uart = await startUart();
  point(portName, uart.slavePath);
  daemon = await startDaemon({ dir, config: { serial: { extra_ports: [portName] }, log: { commit_ms: 50 } } });
  ({ client } = daemon);
});
after(async () => {
  if (daemon !== undefined) assert.equal(await daemon.stop(), 0);
});

interface Received {
  readonly hex: string;
  readonly atMs: number;
}

/** The frames that were judged, and how many of them were a chunk of their own. */
interface Verdict {
  judged: number;
  alone: number;
}

/** Fails when a chunk ends within a frame that was written and handed over in time. */
function judge(written: readonly WrittenFrame[], chunks: readonly Received[], baud: number): Verdict {
  assert.equal(chunks.map(({ hex }) => hex).join(''), written.map(({ hex }) => hex).join(''), 'every byte, in order');
  const begins = new Map<number, Received>();
  let position = 0;
  for (const chunk of chunks) {
    begins.set(position, chunk);
    position += chunk.hex.length / 2;
  }
  const verdict: Verdict = { judged: 0, alone: 0 };
  let from = 0;
  for (const frame of written) {
    const size = frame.hex.length / 2;
    const { stop } = frame;
    let inTime = frame.writes.every(({ lateMs }) => lateMs <= WRITE_LATE_MS) && stop?.handedOver !== false;
    for (let at = 1; at < size && inTime; at += 1) {
      const chunk = begins.get(from + at);
      if (chunk === undefined) continue;
      const { wallMs } = frame.writes.findLast((write) => write.at <= at) ?? { wallMs: chunk.atMs };
      const delayMs = chunk.atMs - wallMs;
      // The kernel hands over what uart.c wrote when it has time to, one write in two parts too. A stop of the process is no such excuse.
      const stopped = stop !== undefined && chunk.atMs >= stop.fromMs && wallMs < stop.toMs;
      inTime = stopped || delayMs <= gapMs(baud) - 1;
      assert.ok(
        !inTime,
        `a frame is cut after ${at} of ${size} bytes; the next was read ${delayMs} ms after its write`,
      );
    }
    if (inTime) verdict.judged += 1;
    if (inTime && begins.get(from)?.hex === frame.hex) verdict.alone += 1;
    from += size;
  }
  return verdict;
}

/** Repeats until enough frames were in time, and some of them were a chunk of their own. */
async function untilEnough(minAlone: number, round: () => Promise<Verdict>): Promise<void> {
  const all: Verdict = { judged: 0, alone: 0 };
  for (let rounds = 0; rounds < MAX_ROUNDS; rounds += 1) {
    const { judged, alone } = await round();
    all.judged += judged;
    all.alone += alone;
    if (all.judged >= ENOUGH_FRAMES && all.alone >= minAlone) return;
  }
  assert.fail(`after ${MAX_ROUNDS} rounds ${all.judged} frames were in time, ${all.alone} were chunks of their own`);
}

/** What the log has received after the id, when it has so many bytes. */
async function receivedAfter(id: number, bytes: number): Promise<Received[]> {
  return until(`${bytes} bytes in the log`, async () => {
    const entries = (await everythingAfter(client, id)).flatMap(({ entry }) => (entry?.dir === RX ? [entry] : []));
    const chunks = entries.map(({ rawData, timestamp }) => ({
      hex: Buffer.from(rawData ?? []).toString('hex'),
      atMs: Number(timestamp),
    }));
    return chunks.reduce((sum, { hex }) => sum + hex.length / 2, 0) >= bytes ? chunks : undefined;
  });
}

async function feed(baud: number, command: (pauseUs: number) => string): Promise<Verdict> {
  const before = Number((await logStatus(client)).headId);
  const pauseMs = gapMs(baud) + PAUSE_CHARACTERS * characterMs(baud) + PAUSE_SPARE_MS;
  const written = await uart.run(command(Math.ceil(pauseMs * 1_000)));
  const bytes = written.reduce((sum, { hex }) => sum + hex.length / 2, 0);
  return judge(written, await receivedAfter(before, bytes), baud);
}

for (const baud of BAUDS) {
  for (const burst of BURSTS) {
    test(`frames at ${baud} baud in bursts of ${burst} bytes are chunks of their own`, async () => {
      await openPort(client, portName, { baudRate: baud });
      await untilEnough(ENOUGH_ALONE, () =>
        feed(baud, (pauseUs) => `frames ${ROUND_FRAMES} ${baud} ${burst} ${pauseUs}`),
      );
    });
  }
}

for (const [baud, stopMs] of [
  [115_200, 8],
  [115_200, 3],
  [115_200, 40],
  [9_600, 8],
] as const) {
  test(`the process is stopped for ${stopMs} ms in the midst of each frame at ${baud} baud: none is cut`, async () => {
    await openPort(client, portName, { baudRate: baud });
    await untilEnough(0, () =>
      feed(baud, (pauseUs) => `stops ${ROUND_FRAMES} ${baud} 8 ${pauseUs} ${daemon?.pid} ${stopMs}`),
    );
  });
}
