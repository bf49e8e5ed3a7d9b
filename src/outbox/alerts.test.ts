import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../base/alerts.ts';
import { outboxRules, type Vitals } from './alerts.ts';

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
    const firing = new Alerts(outboxRules).look({ ...well, ...vitals }, 0);
    assert.deepEqual(
      firing.map(({ name, severity, value }) => [name, severity, value]),
      expected,
    );
    for (const { summary } of firing) assert.notEqual(summary, '');
  }
});
