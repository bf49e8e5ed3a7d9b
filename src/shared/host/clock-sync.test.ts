import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { createClockSync } from './clock-sync.ts';

test('the state is unknown where there is no time sync; its directory says that it runs, its file that the clock is right', (t) => {
  const dir = temporaryDirectory(t);
  const file = join(dir, 'timesync', 'synchronized');
  const clock = new FakeClock();
  const sync = createClockSync({ file, clock });
  const seen: string[] = [];
  sync.onChange(() => seen.push(sync.state()));
  assert.equal(sync.state(), 'unknown');
  clock.advance(1_500);
  mkdirSync(join(dir, 'timesync'));
  clock.advance(1_000);
  writeFileSync(file, '');
  clock.advance(10_000);
  assert.deepEqual(seen, ['unsynced', 'synced']);
  assert.equal(clock.pendingTimers, 0);
});

test('a clock that was set stays so when time sync is removed', (t) => {
  const file = join(temporaryDirectory(t), 'synchronized');
  writeFileSync(file, '');
  const clock = new FakeClock();
  const sync = createClockSync({ file, clock });
  rmSync(file);
  clock.advance(5_000);
  assert.equal(sync.state(), 'synced');
});

test('with an empty name nothing is checked, and nothing after the stop', (t) => {
  const clock = new FakeClock();
  assert.equal(createClockSync({ file: '', clock }).state(), 'unknown');
  assert.equal(clock.pendingTimers, 0);
  const sync = createClockSync({ file: join(temporaryDirectory(t), 'synchronized'), clock });
  assert.equal(sync.state(), 'unsynced');
  sync.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('the offset moves when the wall clock is set, and with nothing else', () => {
  const clock = new FakeClock();
  const sync = createClockSync({ file: '', clock, bootMs: () => clock.monoMs() });
  const before = sync.offsetMs();
  clock.advance(86_400_000);
  assert.equal(sync.offsetMs(), before);
  clock.stepWall(5_000);
  assert.equal(sync.offsetMs(), before + 5_000);
});

test('the boot is known by its id, and its clock is the same for every process', () => {
  const one = createClockSync({ file: '', clock: systemClock });
  assert.match(one.bootId, /^[0-9a-f-]{36}$/);
  // A process that started later, by a clock of its own.
  const other = createClockSync({ file: '', clock: { ...systemClock, monoMs: () => 0 } });
  assert.ok(Math.abs(one.offsetMs() - other.offsetMs()) < 400);
  assert.equal(createClockSync({ file: '', clock: systemClock, bootIdFile: '/nowhere' }).bootId, '');
});
