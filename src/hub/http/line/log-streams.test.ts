import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { LogStreams } from './log-streams.ts';

test('a request that was let in before the stop opens no stream after it', () => {
  const clock = new FakeClock();
  const streams = new LogStreams(clock, () => {});
  const request = { kind: 'follow', reader: 'anna 10.0.0.1', authenticate: async () => {} } as const;
  const open = streams.open(request);
  streams.endAll(new LinesideError('SHUTTING_DOWN', 'the service is stopping'));
  assert.equal((open.signal.reason as LinesideError).code, 'SHUTTING_DOWN');
  assert.throws(() => streams.open(request), { code: 'SHUTTING_DOWN' });
  open.close();
  assert.equal(streams.count('follow'), 0);
  assert.equal(clock.pendingTimers, 0);
});
