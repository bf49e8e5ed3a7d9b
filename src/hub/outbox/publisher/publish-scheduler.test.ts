import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Outcome } from '../../kafka/face.ts';
import { PublishScheduler } from './publish-scheduler.ts';
import type { RowHead, SchedulerLimits } from './scheduler-state.ts';
import { ReadAhead } from './waiting-rows.ts';

const ack: Outcome = { kind: 'acknowledged' };
const refused: Outcome = { kind: 'refused', reason: 'no', permanent: false };
const tooLarge: Outcome = { kind: 'refused', reason: 'too large', permanent: true };
const unreached: Outcome = { kind: 'unreached', reason: 'timed out' };

const limits: SchedulerLimits = {
  inFlightBytes: 1_000,
  keys: 100,
  heldRows: 4,
  heldBytes: 1_000,
  blockedKeys: 3,
  maxAttempts: 5,
};

/** The outbox and the loop in a few lines: rows wait in a map, and are offered as the publisher does it. */
class Rig {
  readonly scheduler: PublishScheduler<RowHead>;
  readonly waiting = new Map<number, RowHead>();
  /** Every id that was taken, in order. */
  readonly taken: number[] = [];
  readonly dead: number[] = [];
  now = 0;
  looked = 0;
  #nextId = 1;
  readonly #ahead: ReadAhead<RowHead>;

  constructor(changes: Partial<SchedulerLimits> = {}) {
    this.scheduler = new PublishScheduler({ ...limits, ...changes });
    this.#ahead = new ReadAhead((after) => {
      const rows: RowHead[] = [];
      for (const row of this.waiting.values()) {
        if (row.id <= after || this.scheduler.isLoaded(row.id)) continue;
        if (rows.length === 7) return { rows, readTo: rows.at(-1)?.id ?? after, ended: false };
        rows.push(row);
        this.looked++;
      }
      return { rows, readTo: rows.at(-1)?.id ?? after, ended: true };
    });
  }

  /** "a a b" are three rows of two keys of the topic t; "u/a" one of topic u. */
  add(keys: string, bytes = 10): void {
    for (const name of keys.split(' ')) {
      const [key = '', topic = 't'] = name.split('/').toReversed();
      const id = this.#nextId++;
      this.waiting.set(id, { id, topic, key, attempts: 0, bytes });
    }
  }

  /** Offers all that may go; answers what was taken. */
  pump(room = Number.POSITIVE_INFINITY): number[] {
    const from = this.taken.length;
    this.scheduler.timePassed(this.now);
    for (const { id, row } of this.scheduler.readyRows()) {
      const again = row ?? this.waiting.get(id);
      if (again === undefined) this.scheduler.removed(id);
      else if (!this.scheduler.hasRoomFor(again) || !this.#take(again, room, from)) return this.taken.slice(from);
    }
    for (let looks = 0; ; looks++) {
      assert.ok(looks < 20_000, 'looks for ever');
      const position = this.scheduler.position();
      const row = this.#ahead.peek(position);
      if (row === undefined) {
        if (position.pass === 0) break;
        this.scheduler.exhausted();
        continue;
      }
      const verdict = this.scheduler.decide(row, this.now);
      if (verdict === 'wait' || (verdict === 'offer' && !this.#take(row, room, from))) break;
      this.#ahead.consumed();
    }
    return this.taken.slice(from);
  }

  #take(row: RowHead, room: number, from: number): boolean {
    if (this.taken.length - from >= room) return false;
    this.taken.push(row.id);
    this.scheduler.taken(row, this.now);
    return true;
  }

  /** The outcome, and the commit of what it says unless `uncommitted`. */
  settle(id: number, outcome: Outcome, uncommitted = false): void {
    const write = this.scheduler.settled(id, outcome, this.now);
    if (write === undefined || uncommitted) return;
    const row = this.waiting.get(id);
    assert.ok(row, `${id} was settled twice`);
    if (write.kind === 'attempt') {
      this.waiting.set(id, { ...row, attempts: write.attempts });
      return;
    }
    if (write.kind === 'dead') this.dead.push(id);
    this.waiting.delete(id);
    this.scheduler.written(id);
  }

  requeue(row: RowHead): void {
    this.waiting.set(row.id, row);
    const sorted = [...this.waiting].sort(([a], [b]) => a - b);
    this.waiting.clear();
    for (const [id, each] of sorted) this.waiting.set(id, each);
    this.#ahead.drop();
    this.scheduler.requeued(row.topic, row.id);
  }
}

describe('the publish scheduler', () => {
  test('one row of each key is in flight; the next follows when the one before is written', () => {
    const rig = new Rig();
    rig.add('a a b a c');
    assert.deepEqual(rig.pump(), [1, 3, 5]);
    rig.settle(1, ack, true);
    assert.deepEqual(rig.pump(), [], 'acknowledged is not enough');
    rig.scheduler.written(1);
    rig.waiting.delete(1);
    assert.deepEqual(rig.pump(), [2]);
    rig.settle(2, ack);
    assert.deepEqual(rig.pump(), [4]);
  });

  test('the same key in two topics are two keys', () => {
    const rig = new Rig();
    rig.add('a u/a');
    assert.deepEqual(rig.pump(), [1, 2]);
  });

  test('bytes in flight are bounded; one row is sent whatever its size', () => {
    const rig = new Rig();
    rig.add('a', 5_000);
    rig.add('b c d e', 400);
    assert.deepEqual(rig.pump(), [1]);
    rig.settle(1, ack);
    assert.deepEqual(rig.pump(), [2, 3]);
    assert.deepEqual([rig.scheduler.inFlight, rig.scheduler.inFlightBytes], [2, 800]);
    rig.settle(3, ack);
    assert.deepEqual(rig.pump(), [4]);
  });

  test('keys with a queue are bounded', () => {
    const rig = new Rig({ keys: 2 });
    rig.add('a b c a');
    assert.deepEqual(rig.pump(), [1, 2]);
    rig.settle(1, ack);
    assert.deepEqual(rig.pump(), [3]);
  });

  test('a busy key with more rows than are held lets others pass and gets its own in order', () => {
    const rig = new Rig();
    rig.add(`${'a '.repeat(20)}b ${'a '.repeat(20)}c`);
    assert.deepEqual(rig.pump(), [1, 21, 42]);
    rig.settle(21, ack);
    rig.settle(42, ack);
    const order: number[] = [1];
    for (let id = 1; rig.waiting.size > 0; ) {
      rig.settle(id, ack);
      const [next] = rig.pump();
      if (next === undefined) break;
      order.push((id = next));
    }
    assert.equal(order.length, 40);
    assert.deepEqual(
      order,
      order.toSorted((x, y) => x - y),
    );
    assert.equal(rig.scheduler.inMemory, 0);
  });

  test('a refused key waits, doubling from 1 s, and blocks no other; then it resumes', () => {
    const rig = new Rig();
    rig.add('a a b');
    rig.pump();
    rig.settle(1, refused);
    rig.settle(3, ack);
    rig.add('b c');
    assert.deepEqual(rig.pump(), [4, 5]);
    assert.deepEqual(rig.scheduler.blocked(0), [
      { topic: 't', key: 'a', id: 1, attempts: 1, reason: 'no', retryInMs: 1_000 },
    ]);
    for (const [afterMs, taken] of [
      [999, []],
      [1, [1]],
    ] as const) {
      rig.now += afterMs;
      assert.deepEqual(rig.pump(), taken);
    }
    rig.settle(1, refused);
    rig.now += 1_999;
    assert.deepEqual(rig.pump(), []);
    rig.now += 1;
    assert.deepEqual(rig.pump(), [1]);
    rig.settle(1, ack);
    assert.deepEqual(rig.pump(), [2]);
    assert.deepEqual(rig.scheduler.blocked(0), []);
  });

  test('backoff ends at 60 s; more refusals than allowed make a dead letter, and the key resumes', () => {
    const rig = new Rig({ maxAttempts: 9 });
    rig.add('a a');
    rig.pump();
    for (let attempt = 1; attempt <= 9; attempt++) {
      rig.settle(1, refused);
      rig.now += 60_000;
      assert.deepEqual(rig.pump(), [1]);
    }
    rig.settle(1, refused);
    assert.deepEqual([rig.dead, rig.pump()], [[1], [2]]);
    rig.settle(2, tooLarge);
    assert.deepEqual(rig.dead, [1, 2], 'at once');
  });

  test('unreached costs no attempt, is tried again with a pause, and at once when the broker is back', () => {
    const rig = new Rig();
    rig.add('a a');
    rig.pump();
    for (let n = 0; n < 20; n++) {
      rig.settle(rig.taken.at(-1) ?? 0, unreached);
      assert.deepEqual(rig.pump(), []);
      rig.now += 60_000;
      assert.deepEqual(rig.pump(), [1]);
    }
    rig.settle(1, unreached);
    rig.scheduler.reconnected();
    assert.deepEqual(rig.pump(), [1]);
    assert.equal(rig.waiting.get(1)?.attempts, 0);
    assert.deepEqual(rig.scheduler.blocked(rig.now), []);
  });

  test('more unreached keys than queues hold up no other, and go at once when the broker is back', () => {
    const rig = new Rig();
    const stuck = Array.from({ length: 150 }, (_, n) => `stuck${n}`).join(' ');
    const good = Array.from({ length: 50 }, (_, n) => `good${n} u/good${n}`).join(' ');
    rig.add(`${stuck} ${good} ${stuck} ${good}`, 1);
    const isStuck = (id: number): boolean => rig.waiting.get(id)?.key.startsWith('stuck') === true;
    for (let second = 0; rig.waiting.size > 300; second++) {
      assert.ok(second < 300, `${rig.waiting.size - 300} good rows never go`);
      for (const id of rig.pump()) rig.settle(id, isStuck(id) ? unreached : ack);
      assert.ok(rig.scheduler.inMemory <= 2 * limits.keys + limits.heldRows);
      rig.now += 1_000;
    }
    rig.scheduler.reconnected();
    for (let turn = 0; rig.waiting.size > 0; turn++) {
      assert.ok(turn < 10, `${rig.waiting.size} rows do not go`);
      for (const id of rig.pump()) rig.settle(id, ack);
    }
  });

  test('a topic that refuses everything costs its limit of probes an interval, and no other topic anything', () => {
    const rig = new Rig();
    rig.add('a b c d e f g h u/a u/b');
    assert.deepEqual(rig.pump(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for (const id of rig.taken) rig.settle(id, id <= 8 ? refused : ack);
    rig.add('i u/c');
    assert.deepEqual(rig.pump(), [12]);
    assert.equal(rig.scheduler.blocked(0).length, 3);
    for (let minute = 0; minute < 4; minute++) {
      rig.now += 60_000;
      assert.deepEqual(rig.pump(), [1, 2, 3]);
      for (const id of [1, 2, 3]) rig.settle(id, refused);
    }
    rig.now += 60_000;
    rig.pump();
    for (const id of [1, 2, 3]) rig.settle(id, ack);
    assert.deepEqual(rig.pump(), [4, 5, 6, 7, 8, 11], 'it is open again');
  });

  test('a slow key is not waited for: what it holds is passed over, and found again', () => {
    const rig = new Rig();
    rig.add('a a a a a a b c');
    assert.deepEqual(rig.pump(), [1, 7, 8]);
    rig.now += 5_000;
    rig.add('b b b b b d');
    assert.deepEqual(rig.pump(), [14]);
    rig.settle(7, ack);
    assert.deepEqual(rig.pump(), [9]);
    rig.settle(1, ack);
    assert.deepEqual(rig.pump(), [2]);
  });

  test('a requeued row goes again, and a row that does not wait any more frees its key', () => {
    const rig = new Rig();
    rig.add('a a b');
    const first = rig.waiting.get(1);
    assert.ok(first);
    rig.pump();
    rig.settle(1, tooLarge);
    rig.pump();
    rig.settle(2, ack);
    rig.settle(3, refused);
    assert.deepEqual(rig.pump(), []);
    rig.requeue(first);
    assert.deepEqual(rig.pump(), [1]);
    rig.waiting.delete(3);
    rig.now += 60_000;
    assert.deepEqual(rig.pump(), []);
    rig.settle(1, ack);
    assert.equal(rig.scheduler.inMemory, 0);
  });

  test('many busy keys are read about once, not once a row', () => {
    const rig = new Rig({ heldRows: 100, keys: 1_000, inFlightBytes: 1e9 });
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`).join(' ');
    for (let n = 0; n < 100; n++) rig.add(keys);
    while (rig.waiting.size > 0) for (const id of rig.pump()) rig.settle(id, ack);
    assert.equal(rig.taken.length, 2_000);
    assert.ok(rig.looked < 8_000, `${rig.looked} rows were examined`);
  });

  test('the answer of a row that is not in flight has no effect', () => {
    const rig = new Rig();
    assert.equal(rig.scheduler.settled(7, ack, 0), undefined);
    rig.scheduler.written(7);
    rig.scheduler.removed(7);
  });
});

type Step =
  | { readonly do: 'add'; readonly keys: readonly string[] }
  | { readonly do: 'pump'; readonly room: number }
  | { readonly do: 'settle'; readonly which: number; readonly outcome: Outcome }
  | { readonly do: 'pass time'; readonly ms: number }
  | { readonly do: 'reconnect' }
  /** Rows of these keys are not reached from now on. */
  | { readonly do: 'stick'; readonly names: readonly string[] }
  /** All is settled as it is sent, for so many seconds. */
  | { readonly do: 'run'; readonly seconds: number };

/** a, k54 and k109 are of one slice. */
const allNames = ['a', 'k54', 'k109', 'b', 'c', 'd', 'u/a', 'u/k54', 'u/b', 'u/c', 'u/d'];
const names = fc.constantFrom(...allNames);
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('add' as const), keys: fc.array(names, { minLength: 1, maxLength: 12 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pump' as const), room: fc.constantFrom(0, 1, 3, 100) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      which: fc.nat(30),
      outcome: fc.constantFrom(ack, ack, ack, refused, refused, unreached, tooLarge),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pass time' as const), ms: fc.constantFrom(1, 1_500, 60_000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reconnect' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stick' as const), names: fc.subarray(allNames) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('run' as const), seconds: fc.integer({ min: 1, max: 8 }) }) },
);

/** No row in flight may be behind a waiting row of its key, and what is in memory stays within the limits. */
function checkStep(rig: Rig, inFlight: ReadonlySet<number>, inMemory: number): void {
  const first = new Map<string, number>();
  for (const { id, topic, key } of rig.waiting.values()) {
    const name = `${topic} ${key}`;
    if (!first.has(name)) first.set(name, id);
    if (inFlight.has(id)) assert.equal(first.get(name), id, `${id} overtook ${first.get(name)}`);
  }
  assert.ok(rig.scheduler.inMemory <= inMemory, `${rig.scheduler.inMemory} in memory`);
}

/** A rig, the rows in flight, and the keys that nothing reaches. */
class Model {
  readonly rig: Rig;
  readonly inFlight = new Set<number>();
  readonly #inMemory: number;
  stuck: ReadonlySet<string> = new Set();

  constructor(keys: number) {
    this.#inMemory = 2 * keys + 3;
    this.rig = new Rig({ heldRows: 3, keys, blockedKeys: 2, inFlightBytes: 60, maxAttempts: 4 });
  }

  #isStuck({ topic, key }: RowHead): boolean {
    return this.stuck.has(topic === 't' ? key : `${topic}/${key}`);
  }

  get mayGo(): number {
    return [...this.rig.waiting.values()].filter((row) => !this.#isStuck(row)).length;
  }

  pump(room?: number): void {
    for (const id of this.rig.pump(room)) {
      assert.ok(
        !this.inFlight.has(id) && this.rig.waiting.has(id),
        `${id} was sent while it was in flight, or after it was published`,
      );
      this.inFlight.add(id);
    }
  }

  settle(id: number, outcome: Outcome): void {
    this.inFlight.delete(id);
    const row = this.rig.waiting.get(id);
    this.rig.settle(id, row !== undefined && this.#isStuck(row) ? unreached : outcome);
  }

  second(): void {
    this.pump();
    for (const id of this.inFlight) this.settle(id, ack);
    this.check();
    this.rig.now += 1_000;
  }

  do(step: Step): void {
    const { rig, inFlight } = this;
    if (step.do === 'add') rig.add(step.keys.join(' '));
    else if (step.do === 'pump') this.pump(step.room);
    else if (step.do === 'pass time') rig.now += step.ms;
    else if (step.do === 'reconnect') rig.scheduler.reconnected();
    else if (step.do === 'stick') this.stuck = new Set(step.names);
    else if (step.do === 'run') for (let n = 0; n < step.seconds; n++) this.second();
    else if (inFlight.size > 0) this.settle([...inFlight][step.which % inFlight.size] ?? 0, step.outcome);
    this.check();
  }

  check(): void {
    checkStep(this.rig, this.inFlight, this.#inMemory);
  }
}

test('whatever the broker answers, no row overtakes one of its key, and every row that may go goes in the end', () => {
  fc.assert(
    fc.property(fc.constantFrom(4, 8), fc.array(steps, { maxLength: 120, size: 'max' }), (keys, script) => {
      const model = new Model(keys);
      const { rig } = model;
      for (const step of script) model.do(step);
      for (let second = 0; model.mayGo > 0; second++) {
        assert.ok(second < 3_000, `${model.mayGo} rows never went beside ${[...model.stuck].join(' ')}`);
        model.second();
      }
      model.stuck = new Set();
      for (let second = 0; rig.waiting.size > 0; second++) {
        assert.ok(second < 3_000, `${rig.waiting.size} rows never went`);
        model.second();
      }
      model.pump();
      assert.equal(rig.scheduler.inMemory, 0);
      assert.equal(rig.scheduler.inFlightBytes, 0);
    }),
    { numRuns: 2_000 },
  );
});
