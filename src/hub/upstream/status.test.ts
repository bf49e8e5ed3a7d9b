/** When the other alerts fire: test/metrics/alerts-agree.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wellUpstream } from '../health/well.fixture.ts';
import { upstreamAlerts } from './status.ts';

test('lost entries are reported for a day', () => {
  const alertsOf = upstreamAlerts(0);
  const firing = (entriesLost: number, hours: number): number[] =>
    alertsOf({ ...wellUpstream, entriesLost }, hours * 3_600_000).map(({ value }) => value);
  assert.deepEqual(
    [firing(0, 1), firing(5, 2), firing(5, 25.9), firing(8, 26), firing(8, 49.9), firing(8, 50)],
    [[], [5], [5], [3], [3], []],
  );
});
