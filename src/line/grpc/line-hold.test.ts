import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { EventKind } from '../log/log-api.ts';
import { LineHold } from './line-hold.ts';

const { Kind } = lineside.v1.RecordedEvent;

function setUp() {
  const clock = new FakeClock();
  const ends: number[] = [];
  const events: string[] = [];
  const log = {
    event: (kind: EventKind, detail: string, by = '') => void events.push(`${Kind[kind]} ${by}: ${detail}`),
  };
  const hold = new LineHold(clock, silentLogger, log, () => ends.push(clock.monoMs()));
  return { clock, hold, ends, events };
}

const held = { code: 'CONFLICT', message: /^the line is held by alice since \d\d:\d\d UTC$/ };

test('one stream has the line; all others, and calls without one, are refused by its name', () => {
  const { hold } = setUp();
  hold.check('a');
  const ticket = hold.take('a', 'alice', '');
  assert.equal(hold.take('a', 'alice', ''), ticket, 'it has it already');
  hold.check('a');
  for (const other of ['b', undefined]) assert.throws(() => hold.check(other), held);
  assert.throws(() => hold.take('b', 'alice', ''), held);
  hold.release('b');
  assert.equal(hold.holder()?.name, 'alice');
  hold.release('a');
  assert.equal(hold.holder(), undefined);
  hold.take('b', 'bob', '');
});

test('after a lost connection its ticket takes it up again for 30 s, with the same name alone', () => {
  const { clock, hold, ends } = setUp();
  const ticket = hold.take('a', 'alice', '');
  hold.left('b');
  hold.left('a');
  clock.advance(29_999);
  for (const [name, wrong] of [
    ['bob', ticket],
    ['alice', ticket.replace(/./g, '0')],
    ['alice', 'short'],
  ] as const)
    assert.throws(() => hold.take('b', name, wrong), { code: 'CONFLICT', message: /has ended/ });
  assert.throws(() => hold.check('a'), held, 'the old stream is nobody');
  assert.equal(hold.take('b', 'alice', ticket), ticket);
  clock.advance(60_000);
  hold.check('b');
  hold.left('b');
  clock.advance(30_000);
  assert.equal(ends.length, 1);
  hold.check();
  assert.throws(() => hold.take('c', 'alice', ticket), { message: /has ended/ });
});

test('it ends after 8 hours, or by an admin, and once', () => {
  const { clock, hold, ends, events } = setUp();
  hold.take('a', 'alice', '');
  clock.advance(8 * 3_600_000 - 1);
  assert.equal(hold.holder()?.ageMs, 8 * 3_600_000 - 1);
  clock.advance(1);
  assert.equal(hold.holder(), undefined);
  hold.take('b', 'bob', '');
  hold.releaseBy('root');
  hold.releaseBy('root');
  hold.stop();
  clock.advance(9 * 3_600_000);
  assert.equal(ends.length, 2);
  assert.deepEqual(events, [
    'HOLD_BEGUN alice: ',
    'HOLD_ENDED : of alice: after 8 hours',
    'HOLD_BEGUN bob: ',
    'HOLD_ENDED root: of bob: released by root',
  ]);
});
