import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthFailureLog, BURST_LOG_MS } from './burst-log.ts';
import { FakeClock } from './fake-clock.fixture.ts';
import { recordingLogger } from './logger.fixture.ts';

const refused = (peer: string, reason: string, count: number): string =>
  `warn refused a caller peer=${peer} method="GET /a" reason="${reason}" refusals=${count}`;

function refusalLog() {
  const clock = new FakeClock();
  const { logger, lines } = recordingLogger();
  return { clock, lines, log: new AuthFailureLog(clock, logger) };
}

test('the first refused caller is logged at once, the rest of a burst within a minute', () => {
  const { clock, lines, log } = refusalLog();
  log.note('GET /a', 'one', 'no token');
  assert.deepEqual(lines.splice(0), [refused('one', 'no token', 1)]);
  for (let i = 0; i < 500; i += 1) {
    log.note('GET /a', 'two', 'wrong token');
    clock.advance(100);
  }
  assert.deepEqual(lines, []);
  clock.advance(BURST_LOG_MS - 500 * 100);
  assert.deepEqual(lines.splice(0), [refused('two', 'wrong token', 500)]);
  clock.advance(10 * BURST_LOG_MS);
  assert.deepEqual(lines, []);
  assert.equal(clock.pendingTimers, 0);
  log.note('GET /a', 'three', 'no token');
  assert.deepEqual(lines, [refused('three', 'no token', 1)]);
  assert.equal(log.total, 502);
});

test('a scan of an hour makes one line a minute', () => {
  const { clock, lines, log } = refusalLog();
  for (let second = 0; second < 3_600; second += 1) {
    log.note('GET /a', 'scanner', 'no token');
    clock.advance(1_000);
  }
  assert.ok(lines.length >= 60 && lines.length <= 61, String(lines.length));
});

test('failures that were not logged yet are logged at the stop, and no timer is left', () => {
  const { clock, lines, log } = refusalLog();
  log.note('GET /a', 'one', 'no token');
  log.note('GET /a', 'two', 'no token');
  log.stop();
  assert.deepEqual(lines.at(-1), refused('two', 'no token', 1));
  assert.equal(clock.pendingTimers, 0);
  log.stop();
  assert.equal(lines.length, 2);
});
