/**
 * The live tail: what 1, 10 and 100 subscribers get in all. The source is the PTY: a driver that writes a record as soon as
 * the server has read the one before (so records do not melt together), but never more than WINDOW_BYTES ahead of what
 * the subscribers have received on average: the fastest pace at which everybody stays live.
 */
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { streamEntries } from '../grpc-lean.ts';
import { cpuOf } from '../processes.ts';
import { ACK_BYTES } from '../pty-driver.ts';
import { type Station, startBare, startBareMemory, startLineside } from '../stations.ts';
import { atLeast, inTurns, type Line, medians, type Row } from '../table.ts';

const BAUD = 12_000_000;
const RECORD_BYTES = 64;
const WINDOW_BYTES = 65_536;
const AIM = 0.9;
const LIMIT_MS = 120_000;
/** Delivered in all, per run. */
const DELIVERIES = [
  { subscribers: 1, records: 60_000 },
  { subscribers: 10, records: 20_000 },
  { subscribers: 100, records: 3_000 },
] as const;

interface Run {
  readonly entriesPerSecond: number;
  readonly cpuMicrosecondsPerEntry: number;
  readonly bytesPerEntry: number;
}

/** Subscribers of one server, all counted together; the answer sends them so many records. */
async function audience(station: Station, subscribers: number): Promise<(records: number) => Promise<Run>> {
  const { driver, pid } = station;
  let [bytes, entries, acknowledged, lastAt] = [0, 0, 0, 0];
  const take = (_: Buffer, from: number, to: number): void => {
    entries++;
    bytes += to - from;
    lastAt = performance.now();
    if (bytes < (acknowledged + ACK_BYTES) * subscribers) return;
    acknowledged += ACK_BYTES;
    driver.acknowledge();
  };
  await Promise.all(Array.from({ length: subscribers }, () => station.receive(take)));
  return async (records) => {
    bytes = entries = acknowledged = 0;
    const begin = performance.now();
    const { cpu } = await cpuOf(pid, async () => {
      await driver.records(records, RECORD_BYTES, WINDOW_BYTES);
      await until('the last entry', () => bytes >= records * RECORD_BYTES * subscribers, LIMIT_MS);
    });
    return {
      entriesPerSecond: (entries * 1_000) / (lastAt - begin),
      cpuMicrosecondsPerEntry: (cpu * 1e6) / entries,
      bytesPerEntry: bytes / entries,
    };
  };
}

async function fromMemory(records: number, subscribers: number): Promise<number> {
  const peer = await startBareMemory(records, RECORD_BYTES);
  let entries = 0;
  const from = performance.now();
  const streams = Array.from({ length: subscribers }, () => streamEntries(peer.address, true, () => void entries++));
  await Promise.all(streams.map((stream) => stream.ended));
  const seconds = (performance.now() - from) / 1_000;
  for (const stream of streams) await stream.close();
  await peer.close();
  return entries / seconds;
}

export const tail: Row = {
  name: 'tail',
  whyMissed:
    'An entry is numbered, stored and kept for slower readers, too. Tried: iterators written by hand take 16, 2 ' +
    'and 8 % off the processor time of an entry with 1, 10 and 100 subscribers, for 60 more lines.',
  async run({ quick, say }) {
    const lines: Line[] = [];
    for (const { subscribers, records } of DELIVERIES) {
      const each = quick ? records / 4 : records;
      const stations = [await startLineside(BAUD, { gapMs: 0 }), await startBare(0)] as const;
      const [lineside, peer] = stations;
      const [playOwn, playBare] = [await audience(lineside, subscribers), await audience(peer, subscribers)];
      const { own, bare } = await inTurns(
        { rounds: quick ? 1 : 3, warmUp: true },
        { own: () => playOwn(each), bare: () => playBare(each) },
        (name, run) => say(`${subscribers} subscribers: ${name} ${show(run)}`),
      );
      for (const station of stations) await station.close();
      const memory = await fromMemory(each, subscribers);
      const [a, b] = [medians(own), medians(bare)];
      lines.push({
        row: `live tail of ${RECORD_BYTES}-byte records, ${subscribers} subscriber${subscribers === 1 ? '' : 's'}: entries/s delivered in all`,
        lineside: show(a),
        against: `bare grpc-js, same PTY source: ${show(b)}; from memory, no PTY: ${memory.toFixed(0)}/s`,
        ...atLeast(a.entriesPerSecond / b.entriesPerSecond, AIM),
      });
    }
    return lines;
  },
};

const show = (run: Run): string =>
  `${run.entriesPerSecond.toFixed(0)}/s, ${run.cpuMicrosecondsPerEntry.toFixed(1)} us CPU and ${run.bytesPerEntry.toFixed(0)} bytes an entry`;
