import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { rejectLog } from './result-writer.ts';

function journal() {
  const clock = new FakeClock();
  const { logger, lines } = recordingLogger();
  return { clock, lines, log: rejectLog(clock, logger) };
}

test('a refusal is logged once for each reason, whatever the rows and attempts, and again after an hour without it', () => {
  const { clock, lines, log } = journal();
  for (let id = 1; id <= 500; id += 1) {
    log({ kind: 'attempt', id, refusal: { attempts: 1, reason: `TOPIC_AUTHORIZATION_FAILED (broker ${id})` } });
    log({ kind: 'published', id });
    clock.advance(30_000);
  }
  assert.deepEqual(lines.splice(0), [
    'warn the broker refuses a change: it and later ones of its key wait ' +
      'outboxId=1 attempts=1 reason="TOPIC_AUTHORIZATION_FAILED (broker 1)"',
  ]);
  clock.advance(3_600_000);
  log({ kind: 'attempt', id: 501, refusal: { attempts: 2, reason: 'TOPIC_AUTHORIZATION_FAILED (broker 9)' } });
  assert.equal(lines.length, 1);
});

test('a dead letter is logged separately', () => {
  const { lines, log } = journal();
  log({ kind: 'attempt', id: 7, refusal: { attempts: 1_000, reason: 'refused' } });
  log({ kind: 'dead', id: 7, refusal: { attempts: 1_001, reason: 'refused' } });
  assert.match(lines[1] ?? '', /^error a change cannot be published: it is a dead letter outboxId=7/);
});

test('ever new reasons make twenty lines an hour', () => {
  const { clock, lines, log } = journal();
  for (let n = 0; n < 1_000; n += 1) {
    const word = String.fromCodePoint(0x4e00 + n);
    log({ kind: 'attempt', id: n, refusal: { attempts: 1, reason: word } });
  }
  assert.equal(lines.length, 20);
  clock.advance(3_600_000);
  log({ kind: 'attempt', id: 1, refusal: { attempts: 1, reason: 'another' } });
  assert.equal(lines.length, 21);
});
