import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts, type Condition } from './alerts.ts';

interface HealthReport {
  readonly heat: number;
  readonly leaks: number;
}

const rules: readonly Condition<HealthReport>[] = [
  {
    name: 'Hot',
    severity: 'warning',
    value: ({ heat }) => (heat > 50 ? heat : 0),
    summary: ({ heat }) => `${heat} degrees`,
  },
  { name: 'Leaking', severity: 'critical', value: ({ leaks }) => leaks, summary: ({ leaks }) => `${leaks} leaks` },
];

test('every rule whose figure is above 0 fires, in the order of the table', () => {
  const look = (heat: number, leaks: number): unknown => new Alerts(rules).look({ heat, leaks }, 0);
  assert.deepEqual(look(50, 0), []);
  assert.deepEqual(look(51, 2), [
    { name: 'Hot', severity: 'warning', forSeconds: 0, summary: '51 degrees', value: 51 },
    { name: 'Leaking', severity: 'critical', forSeconds: 0, summary: '2 leaks', value: 2 },
  ]);
});

test('an alert has its age since it fired, and begins again when it fires again', () => {
  const alerts = new Alerts(rules);
  const ageAt = (heat: number, seconds: number): number | undefined =>
    alerts.look({ heat, leaks: 0 }, seconds * 1_000)[0]?.forSeconds;
  assert.deepEqual(
    [ageAt(60, 10), ageAt(70, 15.9), ageAt(20, 20), ageAt(60, 30), ageAt(60, 31)],
    [0, 5, undefined, 0, 1],
  );
});

test('each rule has an age of its own', () => {
  const alerts = new Alerts(rules);
  alerts.look({ heat: 60, leaks: 0 }, 0);
  assert.deepEqual(
    alerts.look({ heat: 60, leaks: 1 }, 7_000).map(({ name, forSeconds }) => [name, forSeconds]),
    [
      ['Hot', 7],
      ['Leaking', 0],
    ],
  );
});

test('a rule that has to last fires when it has, ages from then, and begins again after a look without it', () => {
  const alerts = new Alerts<HealthReport>(rules.map((rule) => ({ ...rule, forS: 60 })));
  const ageAt = (leaks: number, seconds: number): number | undefined =>
    alerts.look({ heat: 0, leaks }, seconds * 1_000)[0]?.forSeconds;
  assert.deepEqual([ageAt(1, 10), ageAt(1, 69.9), ageAt(1, 70), ageAt(2, 75)], [undefined, undefined, 0, 5]);
  assert.deepEqual([ageAt(0, 80), ageAt(1, 90), ageAt(1, 140), ageAt(1, 150)], [undefined, undefined, undefined, 0]);
});
