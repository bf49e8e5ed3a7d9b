import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts, type Vitals } from './alerts.ts';

const well: Vitals = { waiting: 0, deadLetters: 0, damage: '', full: '', topicsLacking: [] };

test('each rule fires at its own condition and not before', () => {
  const table: readonly [Partial<Vitals>, readonly (readonly [string, string, number])[]][] = [
    [{}, []],
    [{ waiting: 100 }, []],
    [{ waiting: 101 }, [['RefdataOutboxLagHigh', 'warning', 101]]],
    [{ deadLetters: 1 }, [['RefdataOutboxDLQNonEmpty', 'critical', 1]]],
    [{ damage: 'refdata.db is damaged: x' }, [['RefdataStoreDamaged', 'critical', 1]]],
    [{ full: 'the disk is full' }, [['RefdataStoreFull', 'critical', 1]]],
    [{ topicsLacking: ['a lacks b', 'c lacks d'] }, [['RefdataBrokerTopicsLacking', 'warning', 2]]],
    [
      { waiting: 5_000, deadLetters: 3 },
      [
        ['RefdataOutboxLagHigh', 'warning', 5_000],
        ['RefdataOutboxDLQNonEmpty', 'critical', 3],
      ],
    ],
  ];
  for (const [vitals, expected] of table) {
    const firing = new Alerts().look({ ...well, ...vitals }, 0);
    assert.deepEqual(
      firing.map(({ name, severity, value }) => [name, severity, value]),
      expected,
    );
    for (const { summary } of firing) assert.notEqual(summary, '');
  }
});

test('an alert has its age since it fired, and begins anew when it fires again', () => {
  const alerts = new Alerts();
  const ageAt = (waiting: number, seconds: number): number | undefined =>
    alerts.look({ ...well, waiting }, seconds * 1_000)[0]?.forSeconds;
  assert.deepEqual(
    [ageAt(200, 10), ageAt(300, 15.9), ageAt(50, 20), ageAt(200, 30), ageAt(200, 31)],
    [0, 5, undefined, 0, 1],
  );
});
