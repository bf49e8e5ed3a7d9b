/** The dispatcher killed at any moment: what is delivered, what the subscriber saw, and what is counted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import {
  type Answer,
  accepted,
  attemptsIn,
  broken,
  type Call,
  dispatcherRig,
  failCommits,
  hourMs,
  plan,
  type Rig,
  restarted,
  rowsIn,
  silent,
  startedRig,
  subscribe,
} from './dispatcher.fixture.ts';

test('a due time lies where it lay, whatever restarts and steps of the wall clock come between', async (t) => {
  let rig = await startedRig(t, broken);
  await rig.clock.pass(1_000);
  for (const step of [-20 * 8_766 * hourMs, 50 * 8_766 * hourMs]) {
    await rig.store.close();
    rig.clock.stepWall(step);
    rig.clock.advance(10_000);
    rig = restarted(t, rig);
    rig.dispatcher.start();
    await settled();
    assert.equal(rig.sender.calls.length, 0);
  }
  await rig.clock.passUntil('attempt 2', () => rig.sender.calls.length === 1);
  assert.equal(rig.sender.calls[0]?.atMs, 20 + 30_000);
});

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('plan' as const),
      id: fc.constantFrom(1, 2, 3),
      count: fc.integer({ min: 1, max: 12 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(1, 7, 20, 40, 90, 1_000, 31_000, 700_000),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom('stop' as const, 'fail', 'repair', 'offline', 'online', 'toggle') }),
  },
);

/** What the subscribers saw over all lives of the service. */
class Seen {
  readonly bytes = new Map<string, string>();
  /** Collected: what is thrown where it is seen would be an attempt that failed, to the dispatcher. */
  readonly faults: string[] = [];
  /** Accepted in this life of the service. */
  accepted = new Set<string>();

  answers(rig: Rig, chance: number): void {
    this.accepted = new Set();
    let n = 0;
    rig.sender.answer = (call) => this.#answer(call, rig, ((chance + ++n) * 2_654_435_761) % 7);
  }

  note(deliveryId: string, body: string): void {
    if ((this.bytes.get(deliveryId) ?? body) !== body) this.faults.push(`${deliveryId} had other bytes`);
    this.bytes.set(deliveryId, body);
  }

  #answer({ deliveryId, body }: Call, rig: Rig, pick: number): Answer {
    this.note(deliveryId, body);
    if (this.accepted.has(deliveryId))
      this.faults.push(`${deliveryId} was accepted, and sent again by the same process`);
    if (!rig.online) return { cause: 'connect', unreached: true, afterMs: 3 };
    if (pick < 2) return broken;
    if (pick === 2) return silent;
    this.accepted.add(deliveryId);
    return { ...accepted, afterMs: 5 + pick * 10 };
  }
}

test('whenever it is killed, every delivery ends as delivered once, and its subscriber has seen it with the same bytes', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), fc.nat(1_000), async (steps, chance) => {
      let rig = await dispatcherRig(t);
      const seen = new Seen();
      let repair = (): void => {};
      for (const id of [1, 2, 3]) await subscribe(rig, id);
      seen.answers(rig, chance);
      rig.dispatcher.start();
      for (const [n, one] of steps.entries()) {
        if (one.kind === 'plan') {
          repair();
          await plan(rig, one.id, one.count);
        }
        if (one.kind === 'pass') await rig.clock.pass(one.ms);
        if (one.kind === 'fail') {
          repair();
          repair = failCommits(rig.store);
        }
        if (one.kind === 'repair') repair();
        if (one.kind === 'offline' || one.kind === 'online') rig.online = one.kind === 'online';
        if (one.kind === 'toggle') {
          repair();
          // A cancelled attempt may have been accepted: it is repeated.
          seen.accepted = new Set();
          rig.cache.put(1, { active: rig.cache.byId(1)?.active === false });
        }
        if (one.kind === 'stop') await rig.dispatcher.stop();
        if (one.kind !== 'kill' && one.kind !== 'stop') continue;
        await rig.store.close();
        rig = restarted(t, rig);
        repair = () => {};
        seen.answers(rig, chance + n);
        rig.dispatcher.start();
      }
      repair();
      rig.online = true;
      rig.cache.put(1, { active: true });
      seen.accepted = new Set();
      rig.sender.answer = ({ deliveryId, body }) => {
        seen.note(deliveryId, body);
        return accepted;
      };
      await rig.clock.passUntil('all are delivered', () => rig.dispatcher.status().waiting === 0);
      assert.deepEqual(seen.faults, []);
      const rows = rowsIn(rig);
      const attempts = attemptsIn(rig);
      for (const { id, nonce, state, attempts: made } of rows) {
        assert.equal(state, 'delivered');
        assert.ok(seen.bytes.has(`${id}-${nonce}`));
        const mine = attempts.filter(({ delivery_id }) => delivery_id === id);
        assert.deepEqual(
          mine.map(({ attempt }) => attempt),
          Array.from({ length: made }, (_, n) => n + 1),
        );
        assert.deepEqual(
          mine.map(({ cause }) => cause === ''),
          Array.from({ length: made }, (_, n) => n === made - 1),
        );
      }
      await rig.dispatcher.stop();
      await rig.store.close();
    }),
    { numRuns: 60 },
  );
});
