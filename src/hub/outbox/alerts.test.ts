import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../../shared/base/alerts.ts';
import { type HealthReport, outboxRules } from './alerts.ts';

const well: HealthReport = {
  waiting: 0,
  deadLetters: 0,
  damage: '',
  full: '',
  topicsLacking: [],
  brokerUnreachable: '',
};

test('each rule fires at its own condition and not before', () => {
  const table: readonly [Partial<HealthReport>, readonly (readonly [string, string, number])[]][] = [
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
  for (const [healthReport, expected] of table) {
    const firing = new Alerts(outboxRules).look({ ...well, ...healthReport }, 0);
    assert.deepEqual(
      firing.map(({ name, severity, value }) => [name, severity, value]),
      expected,
    );
    for (const { summary } of firing) assert.notEqual(summary, '');
  }
});

test('a broker that is away is told of after an hour', () => {
  const alerts = new Alerts(outboxRules);
  const names = (brokerUnreachable: string, seconds: number): string[] =>
    alerts.look({ ...well, brokerUnreachable }, seconds * 1_000).map(({ name, summary }) => `${name}: ${summary}`);
  assert.deepEqual(names('no route', 0), []);
  assert.deepEqual(names('refused', 3_599), []);
  assert.match(String(names('refused', 3_600)), /^KafkaNotConnected: .*refused/);
  assert.deepEqual(names('', 3_610), []);
  assert.deepEqual(names('refused', 3_620), []);
});
