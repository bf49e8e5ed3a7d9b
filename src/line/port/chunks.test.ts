import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CHUNK_BYTES, type Chunk, ChunkCutter, characterMs, defaultGapMs } from './chunks.ts';

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

/** A fast line: the character time plays no part. */
const FAST_MS = 0.001;
const GAP_MS = 2;
/** Whole milliseconds, as the looks are: the gap, 4 characters of UART timeout and the 16 of a FIFO. */
const FAST_QUIET_MS = GAP_MS + 1;

/** Looks as the owner's timer does, at the asked times from `atMs` to `untilMs`, without any byte; gives the chunks. */
function quiet(cutter: ChunkCutter, atMs: number, untilMs: number): Chunk[] {
  const chunks: Chunk[] = [];
  let inMs = cutter.lookInMs(atMs);
  for (let now = atMs; inMs !== undefined && now + inMs <= untilMs; inMs = cutter.lookInMs(now)) {
    now += inMs;
    chunks.push(...cutter.look(now));
  }
  return chunks;
}

describe('the silence that ends a chunk', () => {
  const table: [baudRate: number, dataBits: 5 | 6 | 7 | 8, parity: 0 | 1, stopBits: 0 | 1 | 2, ms: number][] = [
    [300, 8, 0, 0, 3.5 * ((10 * 1000) / 300)],
    [9600, 8, 1, 0, 3.5 * ((11 * 1000) / 9600)],
    [1200, 8, 1, 2, 3.5 * ((12 * 1000) / 1200)],
    [50, 5, 0, 1, 3.5 * ((7.5 * 1000) / 50)],
    [115_200, 8, 0, 0, 2],
    [12_000_000, 8, 0, 0, 2],
  ];
  for (const [baudRate, dataBits, parity, stopBits, ms] of table)
    it(`is ${ms.toFixed(2)} ms at ${baudRate} baud`, () =>
      assert.equal(defaultGapMs({ baudRate, dataBits, parity, stopBits }), ms));
});

describe('chunks', () => {
  it('gathers bytes until silence and stamps them with the arrival of the first', () => {
    const cutter = new ChunkCutter(GAP_MS, FAST_MS);
    assert.deepEqual(cutter.feed(bytes(1), 1_000, 10), []);
    assert.deepEqual(cutter.feed(bytes(2, 3), 1_001, 11), []);
    assert.deepEqual(quiet(cutter, 11, 11 + GAP_MS), []);
    const chunks = quiet(cutter, 11 + GAP_MS, 11 + FAST_QUIET_MS);
    assert.deepEqual(chunks, [{ data: Buffer.from([1, 2, 3]), atMs: 1_000, monoMs: 10 }]);
    assert.equal(cutter.lookInMs(14), undefined);
    assert.deepEqual(cutter.end(), []);
  });

  it('ends a chunk at the read that comes after silence', () => {
    const cutter = new ChunkCutter(10, FAST_MS);
    cutter.feed(bytes(1), 1_000, 10);
    cutter.lookInMs(10);
    quiet(cutter, 10, 20);
    assert.deepEqual(cutter.feed(bytes(2), 1_011, 20.5), [{ data: Buffer.from([1]), atMs: 1_000, monoMs: 10 }]);
    assert.deepEqual(cutter.end(), [{ data: Buffer.from([2]), atMs: 1_011, monoMs: 20.5 }]);
  });

  it('takes the time of a read on the wire and 4 characters of UART timeout for no silence', () => {
    for (const [afterMs, chunks] of [
      [9.99 + 12, 0],
      [10 + 12, 1],
    ] as const) {
      const cutter = new ChunkCutter(10, 1);
      cutter.feed(bytes(1), 1_000, 0);
      quiet(cutter, 0, afterMs);
      assert.equal(cutter.feed(new Uint8Array(8), 1_000, afterMs).length, chunks);
    }
  });

  it('waits for the gap, the UART timeout and a full FIFO before it takes the line for silent', () => {
    const cutter = new ChunkCutter(10, 1);
    cutter.feed(bytes(1), 1_000, 0);
    assert.deepEqual(quiet(cutter, 0, 29), []);
    assert.equal(quiet(cutter, 29, 30).length, 1);
  });

  it('ends a chunk although each look is late, when two polls that are far enough apart found no byte', () => {
    const cutter = new ChunkCutter(GAP_MS, FAST_MS);
    cutter.feed(bytes(1), 1_000, 0);
    let now = 0;
    const lookLate = (): Chunk[] => {
      cutter.lookInMs(now);
      now += 5;
      assert.ok(cutter.late(now));
      cutter.polled(now);
      return cutter.look(now);
    };
    assert.deepEqual(lookLate(), []);
    assert.equal(lookLate().length, 1);
  });

  it('ends a chunk after 1 s, with the bytes of the read, and never before 300 characters', () => {
    for (const [oneCharacterMs, endMs] of [
      [1, 1_000],
      [10, 3_000],
    ] as const) {
      const cutter = new ChunkCutter(100, oneCharacterMs);
      for (let now = 0; now < endMs; now += 50) assert.deepEqual(cutter.feed(bytes(1), now, now), []);
      assert.equal(cutter.feed(bytes(1), endMs, endMs)[0]?.data.length, endMs / 50 + 1);
    }
  });

  it('measures silence by the monotonic clock: a wall clock that jumps back by years cuts nothing', () => {
    const cutter = new ChunkCutter(GAP_MS, FAST_MS);
    cutter.feed(bytes(1), 1_700_000_000_000, 10);
    assert.deepEqual(cutter.feed(bytes(2), 1_000, 11), []);
    assert.deepEqual(cutter.end(), [{ data: Buffer.from([1, 2]), atMs: 1_700_000_000_000, monoMs: 10 }]);
  });

  it('makes every read a chunk when the gap is 0', () => {
    const cutter = new ChunkCutter(0, FAST_MS);
    assert.deepEqual(cutter.feed(bytes(1), 5, 1), [{ data: bytes(1), atMs: 5, monoMs: 1 }]);
    assert.equal(cutter.lookInMs(1), undefined);
  });

  it('keeps every byte in order, in chunks of 4,096 bytes at most that are full unless silence ended them', () => {
    const reads = fc.array(
      fc.record({ size: fc.integer({ min: 1, max: 9_000 }), waitMs: fc.integer({ min: 0, max: 4 }) }),
    );
    fc.assert(
      fc.property(reads, (list) => {
        const cutter = new ChunkCutter(GAP_MS, FAST_MS);
        let at = 0;
        let next = 0;
        const sent: number[] = [];
        const chunks: { data: Uint8Array }[] = [];
        let silences = 0;
        for (const read of list) {
          at += read.waitMs;
          if (read.waitMs >= GAP_MS) silences += 1;
          const data = Uint8Array.from({ length: read.size }, () => next++ % 251);
          sent.push(...data);
          chunks.push(...cutter.feed(data, at, at));
        }
        chunks.push(...cutter.end());
        assert.deepEqual(Buffer.concat(chunks.map((c) => c.data)), Buffer.from(sent));
        assert.ok(chunks.every((c) => c.data.length >= 1 && c.data.length <= CHUNK_BYTES));
        const short = chunks.filter((c) => c.data.length < CHUNK_BYTES).length;
        assert.ok(short <= silences + 1);
      }),
      { numRuns: 60 },
    );
  });
});

/** Bytes that a UART hands over: `atMs`, the earliest moment at which they can be read. */
interface Burst {
  readonly atMs: number;
  readonly bytes: number;
}

/** A stop of the process: nothing is read and no timer fires from `atMs` on, for `ms`. */
interface Stop {
  readonly atMs: number;
  readonly ms: number;
}

/** The chunks' lengths when a process reads the bursts that is stopped at times, and looks as the owner's timer does. */
function readAll(cutter: ChunkCutter, bursts: readonly Burst[], stop: Stop = { atMs: 0, ms: 0 }): number[] {
  const runsAt = (atMs: number): number =>
    atMs >= stop.atMs && atMs < stop.atMs + stop.ms ? stop.atMs + stop.ms : atMs;
  const chunks: Chunk[] = [];
  let lookAtMs = Number.POSITIVE_INFINITY;
  const ask = (now: number): void => {
    const inMs = cutter.lookInMs(now);
    lookAtMs = inMs === undefined ? Number.POSITIVE_INFINITY : now + inMs;
  };
  const lookUntil = (endMs: number): void => {
    while (runsAt(lookAtMs) < endMs) {
      const now = runsAt(lookAtMs);
      if (cutter.late(now)) cutter.polled(now);
      chunks.push(...cutter.look(now));
      ask(now);
    }
  };
  for (let i = 0; i < bursts.length; ) {
    const now = runsAt(bursts[i]?.atMs ?? 0);
    lookUntil(now);
    let size = 0;
    for (; i < bursts.length && (bursts[i]?.atMs ?? 0) <= now; i += 1) size += bursts[i]?.bytes ?? 0;
    chunks.push(...cutter.feed(new Uint8Array(size), now, now));
    if (lookAtMs === Number.POSITIVE_INFINITY) ask(now);
  }
  lookUntil(1e9);
  return chunks.map(({ data }) => data.length);
}

describe('frames, as a UART hands them over', () => {
  const line = fc
    .constantFrom(300, 1_200, 9_600, 19_200, 38_400, 57_600, 115_200, 1_000_000)
    .map((baudRate) => ({ baudRate, dataBits: 8, parity: 0, stopBits: 0 }) as const);
  /** Bursts of 16 bytes at most; Modbus RTU's longest frame has 256. The UART reports the last after 4 characters at most. */
  const frame = fc.record({
    bursts: fc.array(fc.integer({ min: 1, max: 16 }), { minLength: 1, maxLength: 16 }),
    timeout: fc.constantFrom(0, 1, 3.2, 4),
  });
  interface Frame {
    readonly bursts: number[];
    readonly timeout: number;
  }
  const sizeOf = ({ bursts }: Frame): number => bursts.reduce((sum, size) => sum + size, 0);
  function burstsOf({ bursts, timeout }: Frame, fromMs: number, oneCharacterMs: number): Burst[] {
    let last = 0;
    return bursts.map((size, i) => {
      last += size;
      const held = i === bursts.length - 1 ? timeout : 0;
      return { atMs: fromMs + (last + held) * oneCharacterMs, bytes: size };
    });
  }

  it('are never cut, whatever the bursts', () => {
    fc.assert(
      fc.property(line, frame, (settings, sent) => {
        const oneMs = characterMs(settings);
        const cutter = new ChunkCutter(defaultGapMs(settings), oneMs);
        assert.deepEqual(readAll(cutter, burstsOf(sent, 0, oneMs)), [sizeOf(sent)]);
      }),
      { numRuns: 1_000 },
    );
  });

  it('are never cut by a stop of the process, however long and wherever it falls', () => {
    const stops = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      ms: fc.double({ min: 0, max: 3_000, noNaN: true }),
    });
    const short = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      ms: fc.double({ min: 0, max: 40, noNaN: true }),
    });
    fc.assert(
      fc.property(line, frame, fc.oneof(stops, short), (settings, sent, { at, ms }) => {
        const oneMs = characterMs(settings);
        const bursts = burstsOf(sent, 0, oneMs);
        const cutter = new ChunkCutter(defaultGapMs(settings), oneMs);
        const stop = { atMs: at * (bursts.at(-1)?.atMs ?? 0), ms };
        assert.deepEqual(readAll(cutter, bursts, stop), [sizeOf(sent)]);
      }),
      { numRuns: 3_000 },
    );
  });

  it('are chunks of their own after the gap and the 8 characters that two UART timeouts may hide', () => {
    const more = fc.double({ min: 0.001, max: 100, noNaN: true });
    fc.assert(
      fc.property(line, frame, frame, more, (settings, first, second, moreMs) => {
        const oneMs = characterMs(settings);
        const gapMs = defaultGapMs(settings);
        const secondAt = sizeOf(first) * oneMs + gapMs + 8 * oneMs + moreMs;
        const bursts = [...burstsOf(first, 0, oneMs), ...burstsOf(second, secondAt, oneMs)];
        assert.deepEqual(readAll(new ChunkCutter(gapMs, oneMs), bursts), [sizeOf(first), sizeOf(second)]);
      }),
      { numRuns: 1_000 },
    );
  });
});
