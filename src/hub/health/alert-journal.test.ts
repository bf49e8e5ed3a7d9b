import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Alert } from '../../shared/base/alerts.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { createLogger } from '../../shared/base/logger.ts';
import { AlertJournal } from './watch.ts';

function journal() {
  const clock = new FakeClock();
  const lines: string[] = [];
  const logger = createLogger({
    write: (line) => lines.push(line.trim()),
    journal: true,
    debug: false,
    wallMs: () => 0,
  });
  const written = new AlertJournal(clock, logger);
  return {
    clock,
    look: (...alerts: readonly Alert[]) => written.look(alerts),
    /** What was written since it was asked last. */
    lines: () => lines.splice(0),
  };
}

const alert = (name: string, severity: Alert['severity'] = 'warning'): Alert => ({
  name,
  severity,
  forSeconds: 5,
  summary: `${name} is wrong`,
  value: 1,
});

test('an alert is told once when it fires and once when it has ended, by its name and severity', () => {
  const { clock, look, lines } = journal();
  look(alert('A'), alert('B', 'critical'), alert('C', 'info'));
  assert.deepEqual(lines(), [
    '<4>warn alert fired alert=A severity=warning summary="A is wrong"',
    '<3>error alert fired alert=B severity=critical summary="B is wrong"',
    '<6>info alert fired alert=C severity=info summary="C is wrong"',
  ]);
  for (let look10 = 0; look10 < 100; look10 += 1) {
    clock.advance(10_000);
    look(alert('A'), alert('B', 'critical'), alert('C', 'info'));
  }
  assert.deepEqual(lines(), []);
  clock.advance(59_999);
  look(alert('B', 'critical'), alert('C', 'info'));
  assert.deepEqual(lines(), []);
  clock.advance(1);
  look(alert('B', 'critical'), alert('C', 'info'));
  assert.deepEqual(lines(), ['<6>info alert ended alert=A lasted_s=1005']);
  look(alert('A'));
  assert.equal(lines().length, 1);
});

test('one that wavers about its limit for an hour makes two lines', () => {
  const { clock, look, lines } = journal();
  for (let look10 = 0; look10 < 360; look10 += 1) {
    if (look10 % 2 === 0) look(alert('A'));
    else look();
    clock.advance(10_000);
  }
  clock.advance(60_000);
  look();
  assert.deepEqual(
    lines().map((line) => line.replace(/ lasted_s.*| severity.*/, '')),
    ['<4>warn alert fired alert=A', '<6>info alert ended alert=A'],
  );
});
