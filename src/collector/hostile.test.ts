/** What a hostile or faulty box sends: refused by name, never stored, never read ahead, and never the end of the collector. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { ClientError, Status } from 'nice-grpc';
import { openGate } from '../../test/gate.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { lineside } from '../shared/proto/services.ts';
import { type BatchLike, batchOf, encoded, stored, u64, words } from './batches.fixture.ts';
import { connect, refused, settled, start } from './client.fixture.ts';
import { MAX_BATCH_BYTES, MAX_ENTRIES } from './limits.ts';
import { type Disk, realDisk } from './stored-log.ts';

describe('requests of a hostile box to a collector', () => {
  it('is refused by its size, before and after it is unpacked', async (t) => {
    const { dir, port } = await start(t);
    const largest = MAX_BATCH_BYTES - 100;
    assert.equal(await connect(t, port).pushed({ after: 0, through: 1, bytes: largest }), 1);
    const larger = encoded({ after: 1, through: 2, bytes: MAX_BATCH_BYTES });
    await refused(connect(t, port).pushed(larger), Status.RESOURCE_EXHAUSTED, /larger than max/);
    const bomb = encoded({ after: 1, through: 2, bytes: 20 * 1024 * 1024 });
    assert.ok(gzipSync(bomb).length < MAX_BATCH_BYTES);
    const packed = connect(t, port, '', undefined, true);
    await refused(packed.pushed(bomb), Status.RESOURCE_EXHAUSTED, /decompresses to a size larger/);
    assert.deepEqual(await stored(dir), ['1']);
    assert.equal(await packed.pushed({ after: 1, through: 5 }), 5);
  });

  it('is refused by the number of its parts before they become objects', async (t) => {
    const { dir, port } = await start(t);
    const head = lineside.v1.UpstreamBatch.encode({ ...batchOf({ after: 0, through: 1, ids: [] }) }).finish();
    const many = (field: number, count: number): Uint8Array =>
      Buffer.concat([head, Buffer.alloc(count * 2, Buffer.from([(field << 3) | 2, 0]))]);
    const client = connect(t, port);
    const faults: readonly (readonly [number, number, RegExp])[] = [
      [7, 2_000_000, /^entries: 2000000 of them; at most 65536/],
      [7, MAX_ENTRIES + 1, /^entries: 65537 of them/],
      [8, 5_000, /^gaps: 5000 of them; at most 4096/],
      [9, 5_000, /^clock_corrections: 5000 of them/],
    ];
    for (const [field, count, fault] of faults)
      await refused(client.pushed(many(field, count)), Status.INVALID_ARGUMENT, fault);
    assert.deepEqual(await stored(dir), []);
    const full = Array.from({ length: MAX_ENTRIES }, (_, at) => at + 1);
    assert.equal(await client.pushed({ after: 0, through: MAX_ENTRIES, ids: full, bytes: 1 }), MAX_ENTRIES);
  });

  it('is not read ahead of what the disk takes', async (t) => {
    const release = Promise.withResolvers<void>();
    let isWriting = false;
    const disk: Disk = {
      ...realDisk,
      write(...what) {
        isWriting = true;
        return release.promise.then(() => realDisk.write(...what));
      },
    };
    const { port } = await start(t, { disk });
    t.after(() => release.resolve());
    const link = await openGate(() => port);
    t.after(() => link.close());
    const bytes = MAX_BATCH_BYTES - 100;
    const batches = Array.from({ length: 20 }, (_, at) => ({ after: at, through: at + 1, bytes }));
    const pushed = connect(t, link.port).pushed(...batches);
    await until('the first batch is being written', () => isWriting);
    await settled(() => link.bytes().up);
    // One is at the disk, the next may wait in gRPC: not the sixteen that grpc-js reads ahead.
    assert.ok(link.bytes().up < 3 * MAX_BATCH_BYTES, `${link.bytes().up} bytes were taken`);
    release.resolve();
    assert.equal(await pushed, 20);
  });

  it('is named by field and fault, and never stored', async (t) => {
    const { dir, port } = await start(t);
    const client = connect(t, port);
    const odd = (more: object): Uint8Array =>
      lineside.v1.UpstreamBatch.encode(Object.assign(batchOf({ after: 0, through: 1 }), more)).finish();
    const faults: readonly (readonly [BatchLike | Uint8Array, RegExp])[] = [
      [odd({ schemaVersion: 2 }), /^schema_version: is 2/],
      [odd({ entries: [{ id: u64(1) }] }), /^entries\[0\]\.entry: is missing/],
      [odd({ gaps: [{ firstId: u64(1), lastId: u64(1) }], entries: [] }), /^gaps\[0\]\.cause/],
      [odd({ bootId: 'x'.repeat(129) }), /^boot_id: has 129/],
      [{ after: 5, through: 3 }, /^after_id: 5 is above through_id 3/],
      [{ after: 0, through: 5, ids: [1, 3, 2] }, /^entries\[2\]\.id: 2 is not above the id before it, 3/],
      [{ after: 0, through: 5, ids: [1, 1] }, /^entries\[1\]\.id: 1 is not above/],
      [{ after: 0, through: 5, ids: [0, 1] }, /^entries\[0\]\.id: 0 is not above after_id 0/],
      [{ after: 0, through: 5, ids: [6] }, /^entries\[0\]\.id: 6 is above through_id 5/],
      [
        { after: 0, through: 9, ids: [2], gaps: [{ from: 1, to: 3 }] },
        /^gaps\[0\]: from 1 to 3, and entries\[0\]\.id 2 lies in it/,
      ],
      [
        {
          after: 0,
          through: 9,
          ids: [],
          gaps: [
            { from: 3, to: 4 },
            { from: 4, to: 5 },
          ],
        },
        /^gaps\[1\]\.first_id: 4 is not above the last_id before it, 4/,
      ],
      [{ after: 0, through: 9, ids: [], gaps: [{ from: 3, to: 10 }] }, /^gaps\[0\]\.last_id: 10 is above through_id 9/],
      [{ after: 0, through: 9, ids: [], gaps: [{ from: 4, to: 3 }] }, /^gaps\[0\]\.last_id: 3 is below first_id 4/],
      [
        { after: 0, through: 9, ids: [], gaps: [{ from: 0, to: 3 }] },
        /^gaps\[0\]\.first_id: 0 is not above after_id 0/,
      ],
      [
        { after: 0, through: 9, corrections: [{ from: 5, to: 4, ms: 1 }] },
        /^clock_corrections\[0\]\.last_id: 4 is below first_id 5/,
      ],
      [
        { after: 0, through: 9, corrections: [{ from: 5, to: 10, ms: 1 }] },
        /^clock_corrections\[0\]\.last_id: 10 is above/,
      ],
    ];
    for (const [like, fault] of faults) await refused(client.pushed(like), Status.INVALID_ARGUMENT, fault);
    await refused(
      client.pushed({ after: 0, through: 1 }, { deviceId: 'other', after: 0, through: 1 }),
      Status.INVALID_ARGUMENT,
      /another one than in the batch before/,
    );
    assert.deepEqual(await stored(dir, 'other'), []);
    assert.equal(await client.position(), 1);
  });

  it('never brings it down, and is stored only where a second check would store it', async (t) => {
    const { dir, port } = await start(t);
    const client = connect(t, port);
    let log = 0;
    let taken = 0;
    const id = fc.integer({ min: 0, max: 12 });
    const range = fc.record({ from: id, to: id, openEnded: fc.boolean() });
    const like = fc.record({
      after: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, id),
      through: id,
      ids: fc.uniqueArray(id, { maxLength: 6 }).map((ids) => ids.sort((a, b) => a - b)),
      gaps: fc.array(range, { maxLength: 2 }),
      corrections: fc.array(fc.record({ from: id, to: id, ms: fc.integer() }), { maxLength: 1 }),
    });
    const good = id.chain((through) =>
      fc.subarray(words(1, through).map(Number)).map((ids) => ({ after: 0, through, ids, gaps: [], corrections: [] })),
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof({ weight: 3, arbitrary: like }, good), async (one) => {
        const logId = `log-${(log += 1)}`;
        const outcome = await client.pushed({ ...one, logId }).catch((error: ClientError) => error);
        const isGood = isValid(one) && one.after === 0;
        if (isGood) {
          taken += 1;
          assert.equal(outcome, one.through);
        } else {
          assert.ok(
            outcome instanceof ClientError && [Status.INVALID_ARGUMENT, Status.OUT_OF_RANGE].includes(outcome.code),
          );
        }
        assert.equal(await client.position('box-1', logId), isGood ? one.through : 0);
        const entries = (await stored(dir, 'box-1', logId)).filter((word) => /^\d+$/.test(word));
        assert.deepEqual(entries, isGood ? one.ids.map(String) : []);
      }),
      { numRuns: 200 },
    );
    assert.ok(taken > 10, `only ${taken} were good`);
  });

  it('may be bytes of any kind', async (t) => {
    const { dir, port } = await start(t);
    const client = connect(t, port);
    const good = encoded({
      after: 0,
      through: 3,
      gaps: [{ from: 2, to: 2 }],
      corrections: [{ from: 1, to: 1, ms: 9 }],
      logId: 'g',
    });
    const spoilt = fc
      .array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map((changes) => changes.reduce((bytes, [at, value]) => bytes.with(at, value), good));
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 60 }), spoilt), async (bytes) => {
        const outcome = await client.pushed(bytes).catch((error: ClientError) => error);
        const codes = [Status.INVALID_ARGUMENT, Status.OUT_OF_RANGE];
        if (typeof outcome === 'number') return;
        assert.ok(codes.includes(outcome.code), `${Status[outcome.code]}: ${outcome.details}`);
      }),
      { numRuns: 300 },
    );
    assert.equal(await client.pushed({ after: 0, through: 3, logId: 'afterwards' }), 3);
    assert.ok((await stored(dir)).every((word) => word !== 'damage'));
  });
});

/** By the words of the schema, another way than the collector's own. */
function isValid({ after, through, ids = [], gaps = [], corrections = [] }: BatchLike): boolean {
  if (after > through) return false;
  const within = (one: number): boolean => one > after && one <= through;
  const covered = ids.map(String);
  let last = after;
  for (const { from, to, openEnded = false } of gaps) {
    if (from <= last || to > through || to < from - (openEnded ? 1 : 0)) return false;
    for (let one = from; one <= to; one += 1) covered.push(String(one));
    last = to;
  }
  return (
    ids.every(within) &&
    new Set(covered).size === covered.length &&
    corrections.every(({ from, to }) => from >= 1 && from <= to && to <= through)
  );
}
