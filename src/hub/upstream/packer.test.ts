import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { lineside } from '../../shared/proto/services.ts';
import { Cause, encode, FRAME_BYTES, halves, type Packed, Packer, type ReadBatch, withoutEntry } from './packer.ts';

const u64 = (value: number): Long => Long.fromNumber(value, true);

function entry(id: number, bytes = 10, note = ''): lineside.v1.LogEntry {
  return lineside.v1.LogEntry.create({ id: u64(id), entry: { rawData: new Uint8Array(bytes).fill(id), note } });
}

function gap(firstId: number, lastId: number): lineside.v1.LogGap {
  const count = u64(lastId - firstId + 1);
  return lineside.v1.LogGap.create({ firstId: u64(firstId), lastId: u64(lastId), entries: count, reason: 'disk full' });
}

function batch(entries: lineside.v1.LogEntry[], more: Partial<ReadBatch> = {}): ReadBatch {
  return { entries, gaps: [], bootId: 'boot', nextAfterId: u64(Number(entries.at(-1)?.id ?? 0)), ...more };
}

function takeAll(packer: Packer, maxBytes: number): Packed[] {
  const all: Packed[] = [];
  for (let one = packer.take(maxBytes); one !== undefined; one = packer.take(maxBytes)) all.push(one);
  return all;
}

function gapsOf({ gaps }: lineside.v1.UpstreamBatch): [number, number, number, number, boolean][] {
  return gaps.map((one) => [one.cause, Number(one.firstId), Number(one.lastId), Number(one.entries), one.openEnded]);
}

const ids = ({ entries }: Packed): number[] => entries.map(({ id }) => Number(id));

/** A log: each id is an entry of some boot, the beginning of a gap, or was never used. */
const logs = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('entry' as const), bytes: fc.nat(300), note: fc.string() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('gap' as const), length: fc.integer({ min: 1, max: 9 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('unused' as const), length: fc.integer({ min: 1, max: 99 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('boot' as const) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('read' as const) }) },
  ),
  { maxLength: 60 },
);

describe('batches', () => {
  it('cover every id once, of any log, however it was read and is cut', () => {
    fc.assert(
      fc.property(logs, fc.nat(1_000), fc.integer({ min: 1, max: 3_000 }), (log, afterId, maxBytes) => {
        const packer = new Packer('log', afterId);
        const wanted = { entries: [] as number[], gaps: [] as [number, number][], boots: new Map<number, string>() };
        let id = afterId;
        let boot = 0;
        let read = { entries: [] as lineside.v1.LogEntry[], gaps: [] as lineside.v1.LogGap[] };
        const flush = (): void => {
          packer.add({ ...read, bootId: read.entries.length > 0 ? `boot ${boot}` : '', nextAfterId: u64(id) });
          read = { entries: [], gaps: [] };
        };
        for (const item of log) {
          if (item.kind === 'read') flush();
          if (item.kind === 'boot') {
            flush();
            boot += 1;
          }
          if (item.kind === 'unused') id += item.length;
          if (item.kind === 'gap') {
            read.gaps.push(gap(id + 1, id + item.length));
            wanted.gaps.push([id + 1, id + item.length]);
            id += item.length;
          }
          if (item.kind === 'entry') {
            id += 1;
            read.entries.push(entry(id, item.bytes, item.note));
            wanted.entries.push(id);
            wanted.boots.set(id, `boot ${boot}`);
          }
        }
        flush();
        const all = takeAll(packer, maxBytes);
        assert.deepEqual(all.flatMap(ids), wanted.entries);
        assert.deepEqual(
          all.flatMap(({ gaps }) => gaps.map((one) => [one.firstId, one.lastId])),
          wanted.gaps,
        );
        let through = afterId;
        for (const one of all) {
          assert.equal(one.afterId, through);
          assert.ok(one.throughId > one.afterId);
          through = one.throughId;
          for (const each of ids(one)) {
            assert.ok(each > one.afterId && each <= one.throughId);
            assert.equal(one.bootId, wanted.boots.get(each));
          }
          assert.ok(one.bytes <= maxBytes || one.entries.length + one.gaps.length === 1, `${one.bytes} of ${maxBytes}`);
          assert.ok(encode(one, 'device').length <= one.bytes + FRAME_BYTES);
        }
        assert.equal(all.length === 0 || through === id, true);
        assert.deepEqual([packer.bytes, packer.isEmpty, packer.readTo], [0, true, Math.max(id, afterId)]);
      }),
      { numRuns: 300 },
    );
  });

  it('an entry that is read twice, or reaches over the position, counts once', () => {
    const packer = new Packer('log', 5);
    packer.add(batch([entry(4), entry(6)], { gaps: [gap(1, 3)] }));
    packer.add(batch([entry(6), entry(20)], { gaps: [gap(2, 12)] }));
    const [one, none] = takeAll(packer, 10_000);
    assert.deepEqual(one && ids(one), [6, 20]);
    assert.deepEqual(
      one?.gaps.map(({ firstId, lastId, entries }) => [firstId, lastId, entries]),
      [[7, 12, 6]],
    );
    assert.equal(none, undefined);
  });

  it('a range that retention took is a gap before what is there', () => {
    const packer = new Packer('log', 10);
    packer.overtaken(99, 'why');
    packer.overtaken(99, 'again');
    packer.add(batch([entry(100)]));
    const [one] = takeAll(packer, 10_000);
    assert.deepEqual([one?.afterId, one?.throughId, one && ids(one)], [10, 100, [100]]);
    const sent = lineside.v1.UpstreamBatch.decode(
      encode(one as Packed, 'device', [{ firstId: 1, lastId: 9, correctionMs: -5 }]),
    );
    assert.deepEqual(gapsOf(sent), [[Cause.OVERTAKEN, 11, 99, 89, false]]);
    assert.deepEqual(
      sent.clockCorrections.map(({ firstId, lastId, correctionMs }) => [firstId, lastId, correctionMs].map(Number)),
      [[1, 9, -5]],
    );
    assert.deepEqual([sent.deviceId, sent.logId, sent.bootId, sent.schemaVersion], ['device', 'log', 'boot', 1]);
  });

  it('a gap of the log is sent as the line reports it', () => {
    const packer = new Packer('log', 0);
    const lost = { ...gap(3, 7), bytes: u64(900), fromMs: u64(5), toMs: u64(6) };
    packer.add(batch([entry(1), entry(9)], { gaps: [lineside.v1.LogGap.create(lost)] }));
    const sent = lineside.v1.UpstreamBatch.decode(encode(packer.take(10_000) as Packed, 'device'));
    assert.deepEqual(gapsOf(sent), [[Cause.NOT_STORED, 3, 7, 5, false]]);
    assert.equal(sent.gaps[0]?.reason, 'disk full');
    assert.deepEqual(
      sent.gaps.map((one) => [one.bytes, one.fromMs, one.toMs].map(Number)),
      [[900, 5, 6]],
    );
  });
});

describe('a batch that is too large', () => {
  it('is two that cover the same, down to one entry', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: 6, max: 60 }), { minLength: 1 }), (some) => {
        const sorted = some.toSorted((a, b) => a - b);
        const packer = new Packer('log', 5);
        const lost = Array.from({ length: 60 }, (_, i) => i + 6).filter((id) => !sorted.includes(id) && id % 3 === 0);
        const read = sorted.map((id) => entry(id));
        packer.add({ entries: read, gaps: lost.map((id) => gap(id, id)), bootId: 'boot', nextAfterId: u64(70) });
        const whole = packer.take(1_000_000) as Packed;
        const cut = (one: Packed): Packed[] => halves(one)?.flatMap(cut) ?? [one];
        const parts = cut(whole);
        assert.equal(parts.length, sorted.length);
        assert.deepEqual(parts.flatMap(ids), sorted);
        assert.deepEqual(
          parts.flatMap(({ gaps }) => gaps.map(({ firstId }) => firstId)),
          lost,
        );
        let through = whole.afterId;
        for (const part of parts) {
          assert.equal(part.afterId, through);
          through = part.throughId;
        }
        assert.equal(through, whole.throughId);
      }),
    );
  });

  it('of a single entry goes without it, and says so', () => {
    const packer = new Packer('log', 5);
    packer.add(batch([entry(9, 5_000)], { gaps: [gap(6, 7)] }));
    const packed = withoutEntry(packer.take(1) as Packed, 'too large');
    const rest = packer.take(1_000_000) as Packed;
    assert.deepEqual(packed.gaps.map(({ cause }) => cause).concat(rest.gaps.map(({ cause }) => cause)).length, 2);
    const alone = withoutEntry(rest, 'too large');
    assert.deepEqual(alone.gaps.at(-1), {
      cause: Cause.TOO_LARGE,
      firstId: 9,
      lastId: 9,
      entries: 1,
      reason: 'too large',
      openEnded: false,
    });
    assert.deepEqual([alone.entries.length, alone.lineBytes, alone.throughId], [0, 0, 9]);
  });
});
