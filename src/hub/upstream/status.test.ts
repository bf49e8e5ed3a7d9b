import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wellUpstream } from '../health/well.fixture.ts';
import { UpstreamAlerts, type UpstreamStatus } from './status.ts';

test('each alert fires at its own condition and not before', () => {
  const table: readonly (readonly [Partial<UpstreamStatus>, ...string[]])[] = [
    [{}],
    [{ oldestUnsentAgeS: 3_600 }],
    [{ oldestUnsentAgeS: 3_601 }, 'UpstreamLagHigh warning 3601'],
    [{ to: 'off', state: 'off', oldestUnsentAgeS: 9_999 }],
    [{ state: 'waiting for the broker', connected: false }],
    [{ state: 'refused', reason: 'TOPIC_AUTHORIZATION_FAILED' }, 'UpstreamStopped critical 1'],
    [{ state: 'waiting for the budget' }, 'UpstreamBudgetUsed warning 1'],
    [{ state: 'waiting for change events' }],
    [{ entriesLost: 7 }, 'UpstreamEntriesLost warning 7'],
  ];
  for (const [changes, ...expected] of table) {
    const firing = new UpstreamAlerts(0).look({ ...wellUpstream, ...changes }, 1_000);
    assert.deepEqual(
      firing.map(({ name, severity, value }) => `${name} ${severity} ${value}`),
      expected,
      JSON.stringify(changes),
    );
    for (const { summary } of firing) assert.doesNotMatch(summary, /undefined|NaN|\(\)/);
  }
});

test('lost entries are reported for a day', () => {
  const alerts = new UpstreamAlerts(0);
  const firing = (entriesLost: number, hours: number): number[] =>
    alerts.look({ ...wellUpstream, entriesLost }, hours * 3_600_000).map(({ value }) => value);
  assert.deepEqual(
    [firing(0, 1), firing(5, 2), firing(5, 25.9), firing(8, 26), firing(8, 49.9), firing(8, 50)],
    [[], [5], [5], [3], [3], []],
  );
});
