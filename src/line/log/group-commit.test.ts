import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import type { LogEntry } from './entry.ts';
import { GroupCommit } from './group-commit.ts';
import { unpack } from './packed.ts';
import { Pressure } from './pending-queue.ts';
import type { Segment } from './segments.ts';
import type {
  Appended,
  AppendRequest,
  NewEvent,
  Opened,
  OpenRequest,
  StoreCalls,
  StoreClient,
} from './store-client.ts';

const nothing: Opened = {
  firstId: 0,
  lastId: 0,
  decidedId: 0,
  usedBytes: 0,
  fileBytes: 0,
  walBytes: 0,
  ceilingId: 16_384,
  logId: 'fake',
  nextId: 1,
  gaps: [],
  segments: [],
  lostEntries: 0,
  lostBytes: 0,
  setAside: '',
  setAsideReason: '',
  unchecked: false,
};

/** A store whose commits end when the test says so. */
class FakeStore implements Pick<StoreClient, 'call'> {
  readonly batches: AppendRequest[] = [];
  #settle: { ok(sizes: Appended): void; fail(error: Error): void } | undefined;
  #decided = 0;
  opens = 0;
  setAsides = 0;

  call<K extends keyof StoreCalls>(name: K, request: StoreCalls[K]['request']): Promise<StoreCalls[K]['response']> {
    if (name === 'open') return this.#open(request as OpenRequest);
    assert.equal(name, 'append');
    return this.#append(request as AppendRequest);
  }

  #open({ setAsideFor }: OpenRequest): Promise<Opened> {
    this.opens++;
    if (setAsideFor !== '') this.setAsides++;
    return Promise.resolve(nothing);
  }

  #append(request: AppendRequest): Promise<Appended> {
    assert.equal(this.#settle, undefined, 'one batch at a time');
    this.batches.push(request);
    return new Promise((ok, fail) => {
      this.#settle = { ok, fail };
    });
  }

  get ids(): number[][] {
    return this.batches.map(({ batch }) =>
      unpack(batch, { after: 0, upTo: Number.POSITIVE_INFINITY }).map(({ id }) => id),
    );
  }

  async commit(): Promise<void> {
    const last = this.batches.at(-1);
    this.#decided = Math.max(this.#decided, ...(this.ids.at(-1) ?? []), ...(last?.gaps ?? []).map((g) => g.lastId));
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.ok({ ...nothing, decidedId: this.#decided, entries: 0 });
    await turn();
  }

  async fail(code: string): Promise<void> {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.fail(Object.assign(new Error('no'), { code }));
    await turn();
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const event = (detail: string): NewEvent => {
  const stamp = { atMs: 1, state: 'unknown', bootId: '', offsetMs: 0 } as const;
  return { afterId: 0, kind: 1, by: '', detail, ...stamp };
};

async function started(queueBytes = 1024 * 1024, segments: Segment[] = []) {
  const clock = new FakeClock();
  const store = new FakeStore();
  let head = 0;
  const lost = { entries: 0 };
  const pressure = new Pressure(clock, queueBytes);
  const commit = new GroupCommit({
    store,
    dir: '/data',
    limits: () => ({ commitMs: 1000, maxBytes: 1 << 30 }),
    queueBytes,
    pressure,
    clock,
    logger: silentLogger,
    headId: () => head,
    onOpened: () => undefined,
    onCommitted: () => undefined,
    onLost: () => {
      lost.entries += 1;
    },
    segments: {
      due: (lastId) => segments.filter(({ firstId }) => firstId <= lastId),
      written: (taken) => void segments.splice(0, taken.length),
    },
  });
  await commit.start();
  const entry = (bytes = 10): LogEntry => ({
    id: ++head,
    dir: 1,
    timestampMs: head,
    data: Buffer.alloc(bytes),
    note: '',
  });
  const add = (count: number, bytes?: number): void => {
    for (let i = 0; i < count; i++) commit.add(entry(bytes));
  };
  return { clock, store, commit, pressure, entry, add, lost };
}

test('waits for the commit interval, then commits everything pending', async () => {
  const { clock, store, add } = await started();
  add(3);
  clock.advance(999);
  assert.deepEqual(store.ids, []);
  clock.advance(1);
  assert.deepEqual(store.ids, [[1, 2, 3]]);
  add(2);
  clock.advance(5000);
  assert.deepEqual(store.ids, [[1, 2, 3]], 'one batch at a time');
  await store.commit();
  assert.deepEqual(store.ids, [
    [1, 2, 3],
    [4, 5],
  ]);
});

test('commits at once when a caller waits, and those that come meanwhile together', async () => {
  const { store, commit, entry, add } = await started();
  add(1);
  const answered: number[] = [];
  const first = commit.addAndWait(entry()).then(({ id }) => answered.push(id));
  assert.deepEqual(store.ids, [[1, 2]]);
  const others = [entry(), entry(), entry()].map((e) => commit.addAndWait(e).then(({ id }) => answered.push(id)));
  assert.deepEqual(answered, []);
  await store.commit();
  await first;
  assert.deepEqual(answered, [2]);
  await store.commit();
  await Promise.all(others);
  assert.deepEqual(store.ids, [
    [1, 2],
    [3, 4, 5],
  ]);
});

test('a failed commit refuses the waiting callers, counts their entries as lost and keeps the rest', async () => {
  const { clock, store, commit, entry, add, lost } = await started();
  add(1);
  const waiting = commit.addAndWait(entry());
  add(1);
  const refused = assert.rejects(waiting, { code: 'LOG_NOT_STORED' });
  await store.fail('SQLITE_FULL');
  await refused;
  assert.match(commit.failure, /Free space on the file system of \/data/);
  assert.notEqual(commit.refusal, '');
  assert.equal(lost.entries, 1);
  clock.advance(250);
  await turn();
  assert.deepEqual(store.ids.at(-1), [1, 3]);
  assert.deepEqual(
    store.batches.at(-1)?.gaps.map(({ firstId, lastId, entries }) => [firstId, lastId, entries]),
    [[2, 2, 1]],
  );
  await store.commit();
  assert.equal(commit.failure, '');
  assert.equal(store.opens, 1);
});

test('tries again with growing pauses, up to five seconds, and opens the file afresh after repeated I/O errors', async () => {
  const { clock, store, add } = await started();
  add(1);
  clock.advance(1000);
  for (const pauseMs of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    const before = store.batches.length;
    await store.fail('SQLITE_IOERR_WRITE');
    clock.advance(pauseMs - 1);
    await turn();
    assert.equal(store.batches.length, before, `not before ${pauseMs} ms`);
    clock.advance(1);
    await turn();
    assert.equal(store.batches.length, before + 1);
  }
  assert.equal(store.opens, 2);
});

test('while nothing can be stored the oldest entries go, as one range', async () => {
  const { clock, store, commit, add, lost } = await started(10_000);
  add(5, 744);
  await store.fail('SQLITE_FULL');
  add(50, 744);
  assert.equal(commit.pendingEntries, 10);
  assert.equal(lost.entries, 45);
  assert.deepEqual(
    commit.pendingGaps.map((g) => [g.firstId, g.lastId, g.entries, g.bytes]),
    [[1, 45, 45, 45 * 744]],
  );
  clock.advance(250);
  await turn();
  for (let i = 0; i < 20 && commit.pendingEntries > 0; i++) await store.commit();
  assert.deepEqual(store.ids.flat().slice(-10), [46, 47, 48, 49, 50, 51, 52, 53, 54, 55]);
  assert.equal(
    store.batches.flatMap(({ gaps }) => gaps).reduce((sum, gap) => sum + gap.entries, 0),
    45,
  );
});

test('presses while a healthy store is behind, never because it hangs', async () => {
  const { clock, store, pressure, add } = await started(100_000);
  let relieved = 0;
  pressure.onRelieved(() => relieved++);
  clock.advance(10_000);
  add(60, 744);
  assert.equal(pressure.pressed, true);
  clock.advance(500);
  assert.equal(pressure.pressed, false, 'no answer for half a second: it hangs');
  assert.equal(relieved, 1);
  await store.commit();
  add(30, 744);
  assert.equal(pressure.pressed, true);
  for (let i = 0; i < 5; i++) await store.commit();
  assert.equal(pressure.pressed, false);
  assert.equal(relieved, 2);
});

test('a store that hangs refuses those who come, and takes back nothing that it may yet commit', async () => {
  const { clock, store, commit, entry } = await started();
  const first = commit.addAndWait(entry());
  const second = commit.addAndWait(entry());
  const refused = assert.rejects(second, { code: 'LOG_NOT_STORED' });
  clock.advance(10_000);
  await refused;
  assert.match(commit.failure, /has not answered/);
  await store.commit();
  assert.equal((await first).id, 1);
  assert.equal(commit.failure, '');
});

test('damage that is there at a second look is repaired by a new file at once, without refusing anyone', async () => {
  const { store, commit, entry } = await started();
  const waiting = commit.addAndWait(entry());
  await store.fail('SQLITE_CORRUPT');
  assert.deepEqual([store.opens, store.setAsides], [2, 0]);
  await store.fail('SQLITE_CORRUPT');
  assert.deepEqual([store.opens, store.setAsides], [3, 1]);
  assert.deepEqual(store.ids, [[1], [1], [1]]);
  await store.commit();
  assert.equal((await waiting).id, 1);
});

test('damage that is gone at a second look, or comes back much later, costs no file', async () => {
  const { clock, store, commit, entry } = await started();
  for (let i = 0; i < 3; i++) {
    const waiting = commit.addAndWait(entry());
    await store.fail('SQLITE_CORRUPT');
    await store.commit();
    await waiting;
    clock.advance(60_000);
  }
  assert.deepEqual([store.opens, store.setAsides], [4, 0]);
});

test('corrections of stored stamps are stored at once, without entries, and retried until they are', async () => {
  const segments: Segment[] = [];
  const { clock, store, commit, entry } = await started(undefined, segments);
  const stored = commit.addAndWait(entry());
  await store.commit();
  await stored;
  const corrected: Segment = { firstId: 1, state: 'unsynced', bootId: 'b', offsetMs: 0, correctionMs: 5_000 };
  segments.push(corrected, { ...corrected, firstId: 2, correctionMs: undefined });
  commit.storeCorrection();
  await store.fail('EIO');
  clock.advance(250);
  await turn();
  const wanted = store.batches.slice(1).map((request) => [request.batch.blocks.length, request.segments]);
  assert.deepEqual(wanted, [
    [0, [corrected]],
    [0, [corrected]],
  ]);
  await store.commit();
  clock.advance(60_000);
  assert.equal(store.batches.length, 3, 'the segment without entries waits for its first');
  const next = commit.addAndWait(entry());
  assert.deepEqual(
    store.batches.at(-1)?.segments.map(({ firstId }) => firstId),
    [2],
  );
  await store.commit();
  assert.equal((await next).id, 2);
});

test('events are stored within commitMs, together; those of a commit that failed come again, of too many the newest', async () => {
  const { commit, store, clock } = await started();
  const details = (): string[] | undefined => store.batches.at(-1)?.events.map(({ detail }) => detail);
  commit.addEvent(event('a'));
  commit.addEvent(event('b'));
  clock.advance(999);
  await turn();
  assert.equal(store.batches.length, 0);
  clock.advance(1);
  await turn();
  assert.deepEqual(details(), ['a', 'b']);
  commit.addEvent(event('c'));
  await store.fail('SQLITE_FULL');
  clock.advance(5_000);
  await turn();
  assert.deepEqual(details(), ['a', 'b', 'c']);
  for (let n = 0; n < 2_000; n++) commit.addEvent(event(String(n)));
  await store.commit();
  clock.advance(1_000);
  await turn();
  assert.deepEqual([details()?.length, details()?.at(-1)], [1_000, '1999']);
  const flushed = commit.flush();
  await store.commit();
  await flushed;
});
