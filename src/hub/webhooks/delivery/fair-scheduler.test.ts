import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FairScheduler, halfOpenLimit, overallLimit, type ResponseClass, subscriptionLimit } from './schedule.ts';

/** So many numbers from the first on. */
function range(count: number, first = 1): number[] {
  return Array.from({ length: count }, (_, n) => first + n);
}

function schedulerOf(count: number): FairScheduler {
  const scheduler = new FairScheduler();
  scheduler.keep(range(count));
  return scheduler;
}

/** Starts attempts in turn until no subscription may start one; answers their ids. */
function fill(scheduler: FairScheduler, wants: (id: number) => boolean = () => true): number[] {
  const started: number[] = [];
  for (let id = scheduler.next(wants); id !== undefined; id = scheduler.next(wants)) {
    scheduler.started(id);
    started.push(id);
  }
  return started;
}

function sorted(ids: readonly number[]): number[] {
  return ids.toSorted((a, b) => a - b);
}

/** One attempt of each that ended so. */
function prove(scheduler: FairScheduler, ids: readonly number[], sign: ResponseClass): void {
  for (const id of ids) {
    scheduler.started(id);
    scheduler.ended(id, sign);
  }
}

test('one that is not known yet begins with 1 at a time, then 2, then 4, and never more', () => {
  const scheduler = schedulerOf(1);
  assert.deepEqual(fill(scheduler), [1]);
  scheduler.ended(1, 'accepted');
  assert.deepEqual(fill(scheduler), [1, 1]);
  scheduler.ended(1, 'accepted');
  assert.equal(fill(scheduler).length, 3);
  scheduler.ended(1, 'accepted');
  scheduler.ended(1, 'accepted');
  assert.equal(fill(scheduler).length, 2);
  assert.deepEqual(fill(scheduler), [], 'four are under way');
});

test('one whose attempt failed has 1 at a time, and begins with 2 again when one was accepted', () => {
  const scheduler = schedulerOf(1);
  prove(scheduler, [1, 1, 1], 'accepted');
  assert.equal(fill(scheduler).length, 4);
  scheduler.ended(1, 'failed');
  assert.deepEqual(fill(scheduler), [], 'while others of it are under way');
  for (let n = 0; n < 3; n++) scheduler.ended(1, 'failed');
  assert.deepEqual(fill(scheduler), [1]);
  scheduler.ended(1, 'accepted');
  assert.equal(fill(scheduler).length, 2);
});

test('a final refusal is a sign of life, and no reason to send more at a time', () => {
  const scheduler = schedulerOf(30);
  prove(scheduler, [1], 'failed');
  prove(scheduler, [1, 1, 1, 1], 'answered');
  const first = fill(scheduler, (id) => id === 1);
  assert.deepEqual(first, [1]);
  prove(scheduler, range(29, 2), 'failed');
  assert.equal(fill(scheduler, (id) => id > 1).length, halfOpenLimit, 'it is none of the suspects');
});

test('an attempt that says nothing of the subscription changes nothing', () => {
  const scheduler = schedulerOf(2);
  prove(scheduler, [1, 1], 'accepted');
  prove(scheduler, [2], 'failed');
  for (const id of [1, 2]) {
    scheduler.started(id);
    scheduler.ended(id, 'void');
  }
  assert.deepEqual(sorted(fill(scheduler)), [1, 1, 1, 1, 2]);
});

test('16 at a time in all, in turn', () => {
  const scheduler = schedulerOf(100);
  prove(scheduler, range(100), 'accepted');
  assert.deepEqual(fill(scheduler), range(overallLimit));
  scheduler.ended(5, 'accepted');
  assert.deepEqual(fill(scheduler), [17]);
});

test('suspects hold 8 places together, the others all that is left', () => {
  const scheduler = schedulerOf(40);
  const dead = range(38);
  prove(scheduler, dead, 'failed');
  prove(scheduler, [39, 39, 39, 40, 40, 40], 'accepted');
  const started = fill(scheduler);
  assert.equal(started.filter((id) => id <= 38).length, halfOpenLimit);
  assert.equal(started.filter((id) => id === 39).length, 4);
  assert.equal(started.filter((id) => id === 40).length, 4);
});

test('a subscription that failed before the start is half-open until an attempt succeeds', () => {
  const scheduler = schedulerOf(30);
  for (let id = 1; id <= 29; id++) scheduler.markHalfOpen(id);
  prove(scheduler, [30], 'accepted');
  scheduler.markHalfOpen(30);
  assert.equal(fill(scheduler).length, halfOpenLimit + 2);
});

test('back from being offline all begin with 1', () => {
  const scheduler = schedulerOf(3);
  prove(scheduler, [1, 1, 1, 2, 2, 2, 3, 3, 3], 'accepted');
  scheduler.restart();
  assert.deepEqual(fill(scheduler), [1, 2, 3]);
});

test('one that is left out has no turn, and is unknown when it comes back', () => {
  const scheduler = schedulerOf(2);
  prove(scheduler, [1, 1], 'accepted');
  scheduler.started(1);
  scheduler.keep([2]);
  assert.deepEqual(fill(scheduler), [2]);
  scheduler.ended(1, 'void');
  scheduler.ended(2, 'void');
  scheduler.keep([2]);
  scheduler.keep([1, 2]);
  assert.deepEqual(sorted(fill(scheduler)), [1, 2]);
});

type Step =
  | { readonly kind: 'start'; readonly wanting: readonly number[] }
  | { readonly kind: 'end'; readonly which: number; readonly sign: ResponseClass | 'void' }
  | { readonly kind: 'keep'; readonly without: number }
  | { readonly kind: 'again' };

const ids = range(24);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('start' as const), wanting: fc.subarray(ids) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('end' as const),
      which: fc.nat(100),
      sign: fc.constantFrom('accepted', 'failed', 'failed', 'answered', 'void'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('keep' as const), without: fc.integer({ min: 0, max: 24 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('again' as const) }) },
);

test('no limit is ever passed, and only who takes turns and wants to is started', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const scheduler = schedulerOf(24);
      let kept = ids;
      const running: number[] = [];
      const suspects = new Set<number>();
      for (const one of steps) {
        if (one.kind === 'again') scheduler.restart();
        if (one.kind === 'keep') {
          kept = ids.filter((id) => id !== one.without);
          scheduler.keep(kept);
          if (!running.includes(one.without)) suspects.delete(one.without);
        }
        if (one.kind === 'end' && running.length > 0) {
          const [id = 0] = running.splice(one.which % running.length, 1);
          scheduler.ended(id, one.sign);
          if (one.sign === 'failed') suspects.add(id);
          else if (one.sign !== 'void') suspects.delete(id);
        }
        if (one.kind !== 'start') continue;
        const id = scheduler.next((wanted) => one.wanting.includes(wanted));
        if (id === undefined) continue;
        assert.ok(one.wanting.includes(id) && kept.includes(id));
        const before = running.filter((other) => other === id).length;
        assert.ok(before < (suspects.has(id) ? 1 : subscriptionLimit));
        if (suspects.has(id)) assert.ok(running.filter((other) => suspects.has(other)).length < halfOpenLimit);
        scheduler.started(id);
        running.push(id);
        assert.ok(running.length <= overallLimit);
      }
    }),
    { numRuns: 500 },
  );
});

test('a live one among many dead ones never waits for them, and among many live ones for one turn of each', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 150 }),
      fc.integer({ min: 1, max: 49 }),
      fc.nat(1_000),
      (dead, live, chance) => {
        const scheduler = schedulerOf(dead + live);
        const isDead = (id: number): boolean => id <= dead;
        const first = (): number | undefined => scheduler.next(() => true);
        prove(scheduler, range(dead), 'failed');
        prove(scheduler, range(live, dead + 1), 'accepted');
        // The dead keep every place that they get; the live ones give theirs back one after the other.
        const meant = dead + 1 + (chance % live);
        const running = fill(scheduler, (id) => id !== meant);
        let freed = 0;
        while (scheduler.next((id) => id === meant) === undefined) {
          const at = running.findIndex((id) => !isDead(id));
          assert.notEqual(at, -1, 'only the dead are under way, and it has no place');
          const [id = 0] = running.splice(at, 1);
          scheduler.ended(id, 'accepted');
          freed++;
          // Others may come first, each once.
          for (let next = first(); next !== undefined && next !== meant; next = first()) {
            scheduler.started(next);
            running.push(next);
          }
          assert.ok(freed <= live, 'everyone else has had two turns');
        }
      },
    ),
    { numRuns: 300 },
  );
});
