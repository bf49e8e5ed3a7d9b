import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openStoreIn, temporaryStore } from '../outbox/change-store.fixture.ts';
import { type Boot, Progress, type RunningRow, RunningTime } from './progress.ts';

const fresh: RunningRow = { runMs: 0, bootId: '', bootMs: 0 };

interface Machine extends Boot {
  id: string;
  atMs: number;
}

function machine(id: string, atMs: number): Machine {
  return {
    id,
    atMs,
    monoMs() {
      return this.atMs;
    },
  };
}

for (const [what, row, boot, begins] of [
  ['begins at 0 in a new file, however long the machine is up', fresh, machine('a', 5_000_000.75), 0],
  [
    'is continued in another process of the same boot, with the time between them',
    { runMs: 1_000, bootId: 'a', bootMs: 1_300 },
    machine('a', 86_401_300),
    86_401_000,
  ],
  [
    'is continued after a boot from what was stored: time switched off does not count',
    { runMs: 123_456, bootId: 'a', bootMs: 50 },
    machine('b', 90_000),
    123_456,
  ],
  [
    'takes a clock of the same boot that is before the stored one for another',
    { runMs: 500, bootId: 'a', bootMs: 900 },
    machine('a', 10),
    500,
  ],
] as const) {
  test(what, () => {
    const running = new RunningTime(row, boot);
    assert.equal(running.now(), begins);
    boot.atMs += 1_500;
    const bootMs = Math.floor(boot.atMs);
    assert.deepEqual(running.row(), { runMs: begins + 1_500, bootId: boot.id, bootMs });
  });
}

test('a row that was never stored is refused', () => {
  const boot = machine('a', 10);
  for (const nonsense of [-1, Number.NaN, 0.5, Number.POSITIVE_INFINITY, 2 ** 60]) {
    const isDamage = { code: 'STORAGE_DAMAGED' };
    assert.throws(() => new RunningTime({ ...fresh, runMs: nonsense }, boot), isDamage);
    assert.throws(() => new RunningTime({ ...fresh, bootMs: nonsense }, boot), isDamage);
  }
});

test('whatever process starts, boots and stores when: it never steps back, and never runs ahead of the machines', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('pass' as const), ms: fc.double({ min: -50, max: 1e7, noNaN: true }) }),
    fc.record({ kind: fc.constantFrom('store' as const, 'restart' as const) }),
    fc.record({ kind: fc.constant('boot' as const), ms: fc.double({ min: 0, max: 1e6, noNaN: true }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let boot = machine('0', 1_000);
      let row: RunningRow = fresh;
      let running = new RunningTime(row, boot);
      let passed = 0;
      let last = 0;
      for (const [n, what] of steps.entries()) {
        if (what.kind === 'pass') {
          boot.atMs = Math.max(0, boot.atMs + what.ms);
          passed += Math.abs(what.ms);
        }
        if (what.kind === 'store') row = running.row();
        if (what.kind === 'boot') {
          boot = machine(String(n), what.ms);
          last = row.runMs;
        }
        if (what.kind !== 'pass' && what.kind !== 'store') {
          last = Math.min(last, row.runMs);
          running = new RunningTime(row, boot);
        }
        const now = running.now();
        assert.ok(now >= last && now >= row.runMs, `${now} after ${last}, ${row.runMs} stored`);
        assert.ok(now <= passed + 1, `${now} of ${passed}`);
        last = now;
      }
    }),
  );
});

test('is stored in the transaction of its caller, and never decreases', async (t) => {
  const { store, dir, clock } = temporaryStore(t);
  const progress = new Progress(store.connection);
  assert.deepEqual(progress.running(), fresh);
  const boot = machine('a', 40);
  const running = new RunningTime(progress.running(), boot);
  const late = new RunningTime(progress.running(), machine('b', 0));
  boot.atMs += 2_000;
  await assert.rejects(
    store.maintain(() => {
      progress.saveRunning(running);
      throw new Error('no');
    }),
  );
  assert.deepEqual(progress.running(), fresh);
  await store.maintain(() => progress.saveRunning(running));
  await store.maintain(() => progress.saveRunning(late));
  await store.close();
  const again = openStoreIn(t, dir, { clock });
  assert.deepEqual(new Progress(again.connection).running(), { runMs: 2_000, bootId: 'a', bootMs: 2_040 });
});
