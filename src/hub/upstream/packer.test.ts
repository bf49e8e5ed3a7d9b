import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { lineside } from '../../shared/proto/services.ts';
import { Cause, encode, FRAME_BYTES, type Packed, Packer, type ReadBatch } from './packer.ts';
import type { Run } from './runs.ts';
import { runOf } from './upstream.fixture.ts';

const u64 = (value: number): Long => Long.fromNumber(value, true);

function entry(id: number, bytes = 10, note = ''): lineside.v1.LogEntry {
  return lineside.v1.LogEntry.create({ id: u64(id), entry: { rawData: new Uint8Array(bytes).fill(id), note } });
}

function gap(firstId: number, lastId: number): lineside.v1.LogGap {
  const count = u64(lastId - firstId + 1);
  return lineside.v1.LogGap.create({ firstId: u64(firstId), lastId: u64(lastId), entries: count, reason: 'disk full' });
}

function batch(entries: lineside.v1.LogEntry[], more: Partial<ReadBatch> = {}): ReadBatch {
  const runs = entries.map((one) => runOf(one, 'boot'));
  return { runs, gaps: [], nextAfterId: Number(entries.at(-1)?.id ?? 0), ...more };
}

/** Those with consecutive ids as one. */
function joined(runs: readonly Run[]): Run[] {
  const all: Run[] = [];
  for (const run of runs) {
    const last = all.at(-1);
    if (last === undefined || last.firstId + last.ends.length !== run.firstId || last.bootId !== run.bootId) {
      all.push(run);
      continue;
    }
    const at = (ends: ArrayLike<number>, more: ArrayLike<number>): number[] => {
      const before = Array.from(ends);
      return [...before, (before.at(-1) ?? 0) + (more[0] ?? 0)];
    };
    all[all.length - 1] = {
      ...last,
      records: Buffer.concat([last.records, run.records]),
      ends: at(last.ends, run.ends),
      lineEnds: at(last.lineEnds, run.lineEnds),
    };
  }
  return all;
}

function takeAll(packer: Packer, maxBytes: number): Packed[] {
  const all: Packed[] = [];
  for (let one = packer.take(maxBytes); one !== undefined; one = packer.take(maxBytes)) all.push(one);
  return all;
}

function gapsOf({ gaps }: lineside.v1.UpstreamBatch): [number, number, number, number, boolean][] {
  return gaps.map((one) => [one.cause, Number(one.firstId), Number(one.lastId), Number(one.entries), one.openEnded]);
}

const decoded = (packed: Packed): lineside.v1.UpstreamBatch =>
  lineside.v1.UpstreamBatch.decode(encode(packed, 'device'));
const ids = (packed: Packed): number[] => decoded(packed).entries.map(({ id }) => Number(id));

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
        let read = { runs: [] as Run[], gaps: [] as lineside.v1.LogGap[] };
        const flush = (): void => {
          packer.add({ ...read, runs: joined(read.runs), nextAfterId: id });
          read = { runs: [], gaps: [] };
        };
        for (const item of log) {
          if (item.kind === 'read') flush();
          if (item.kind === 'boot') boot += 1;
          if (item.kind === 'unused') id += item.length;
          if (item.kind === 'gap') {
            read.gaps.push(gap(id + 1, id + item.length));
            wanted.gaps.push([id + 1, id + item.length]);
            id += item.length;
          }
          if (item.kind === 'entry') {
            id += 1;
            read.runs.push(runOf(entry(id, item.bytes, item.note), `boot ${boot}`));
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
          assert.ok(one.bytes <= maxBytes || one.entries + one.gaps.length === 1, `${one.bytes} of ${maxBytes}`);
          assert.ok(encode(one, 'device').length <= one.bytes + FRAME_BYTES);
          const lineBytes = decoded(one).entries.reduce((sum, { entry }) => sum + (entry?.rawData.length ?? 0), 0);
          assert.deepEqual([one.entries, one.lineBytes], [ids(one).length, lineBytes]);
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

describe('a batch that comes again', () => {
  it('is put back in front of what was read behind it, whatever is taken then', () => {
    const packer = new Packer('log', 0);
    packer.add(batch([entry(1), entry(2), entry(3)], { gaps: [gap(4, 5)], nextAfterId: 9 }));
    const taken = [packer.take(1), packer.take(1)] as [Packed, Packed];
    const { bytes } = packer;
    for (const one of taken.toReversed()) packer.putBack(one, one.items);
    packer.add(batch([entry(10)]));
    assert.ok(packer.bytes > bytes);
    const [all] = takeAll(packer, 10_000);
    assert.deepEqual(all && [ids(all), all.afterId, all.throughId], [[1, 2, 3, 10], 0, 10]);
    assert.deepEqual([packer.bytes, all?.gaps.length], [0, 1]);
  });

  it('is halved, when it is too large, down to one entry, which goes as a gap', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 6, max: 60 }), { minLength: 1 }),
        fc.integer({ min: 6, max: 60 }),
        (some, large) => {
          const sorted = some.toSorted((a, b) => a - b);
          const packer = new Packer('log', 5);
          const lost = Array.from({ length: 55 }, (_, i) => i + 6).filter((id) => !sorted.includes(id) && id % 3 === 0);
          const runs = joined(sorted.map((id) => runOf(entry(id), 'boot')));
          packer.add({ runs, gaps: lost.map((id) => gap(id, id)), nextAfterId: 70 });
          const sent: Packed[] = [];
          for (let one = packer.take(1_000_000); one !== undefined; one = packer.take(1_000_000)) {
            if (ids(one).includes(large)) packer.cut(one, 'too large');
            else sent.push(one);
          }
          assert.deepEqual(
            sent.flatMap(ids),
            sorted.filter((id) => id !== large),
          );
          const gaps = sent.flatMap((one) => one.gaps);
          assert.deepEqual(
            gaps.map(({ firstId, cause }) => [firstId, cause]),
            [...new Set([...lost, ...sorted.filter((id) => id === large)])]
              .toSorted((a, b) => a - b)
              .map((id) => [id, id === large && sorted.includes(id) ? Cause.TOO_LARGE : Cause.NOT_STORED]),
          );
          let through = 5;
          for (const one of sent) {
            assert.equal(one.afterId, through);
            through = one.throughId;
          }
          assert.equal(through, 70);
        },
      ),
    );
  });
});
