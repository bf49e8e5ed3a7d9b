import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { drivesTerminal, run, testFiles } from '../drive.fixture.ts';
import type { JsonObject } from '../output/json.ts';
import { cli, deadLetter, httpSocket, hub, hubForEach, quietOutbox } from './fake-hub.fixture.ts';

hubForEach(testFiles());

const offline: JsonObject = {
  ...quietOutbox,
  waiting: 1204,
  oldest: { id: 7, txTime: '2026-03-01T09:30:00.250000+00:00', ageSeconds: 10_800 },
  broker: {
    configured: true,
    connected: false,
    reason: 'cannot reach 10.0.0.5:9093 (connection refused)',
    forSeconds: 10_800.4,
    topics: [],
  },
};

describe('outbox', () => {
  it('says in words what waits, since when, why, and that nothing is lost', async () => {
    hub.answers['GET admin/outbox'] = offline;
    const { status, stdout } = await cli('outbox');
    assert.equal(status, 0);
    assert.match(stdout, /^Broker +OFFLINE for 3 h 0 min: cannot reach 10\.0\.0\.5:9093 \(connection refused\)\n/);
    assert.match(
      stdout,
      /\nWaiting +1,204 changes wait, the oldest since 2026-03-01 \d\d:\d\d:00 \(3 h 0 min\)\n +nothing is lost: /,
    );
  });

  it('cuts nothing on a narrow terminal', async () => {
    hub.answers['GET admin/outbox'] = offline;
    const { stdout } = await run(['outbox'], { httpSocket, tty: { columns: 50 } });
    for (const line of stdout.split('\n')) assert.ok(line.length <= 50, line);
    assert.ok(!stdout.includes('…'));
    assert.match(stdout.replaceAll(/\s+/g, ' '), /cannot reach 10\.0\.0\.5:9093 \(connection refused\)/);
  });

  it('names blocked keys and why, what topics lack, and dead letters', async () => {
    const key = {
      topic: 't.public',
      key: 'pumps:P\x9b1',
      outboxId: 9,
      attempts: 4,
      reason: 'Topic authorization failed',
    };
    hub.answers['GET admin/outbox'] = {
      ...quietOutbox,
      waiting: 1,
      inFlight: 2,
      deadLetters: 3,
      blockedKeyCount: 120,
      blockedKeys: [{ ...key, nextAttemptInSeconds: 12.3 }],
      broker: {
        configured: true,
        connected: true,
        reason: '',
        forSeconds: 5,
        topics: [
          { name: 't.public', partitions: 3, lacks: [] },
          { name: 't.internal', partitions: 1, lacks: ['at least 3 partitions', 'retention.ms 604800000'] },
        ],
      },
    };
    const { stdout } = await cli('outbox');
    assert.match(stdout, /Waiting +1 change waits\n/);
    assert.match(
      stdout,
      /Blocked +120 keys: .*\n +pumps:P\S+1 \(t\.public\): Topic authorization failed; 4 attempts, next in 12 s\n +\.\.\. and 119 more\n/,
    );
    assert.match(stdout, /Dead letters +3 changes could not be sent and are set aside: lineside outbox dead-letters\n/);
    assert.match(
      stdout,
      /Topics +t\.public, 3 partitions\n +t\.internal, 1 partition; LACKS: at least 3 partitions; retention/,
    );
    assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')));
  });

  it('says that no broker is configured', async () => {
    const broker = { configured: false, connected: false, reason: '', forSeconds: 0, topics: [] };
    hub.answers['GET admin/outbox'] = { ...offline, broker };
    const { stdout } = await cli('outbox');
    assert.match(stdout, /^Broker +Kafka is not configured \(kafka\.bootstrap is empty\): events are kept on this box/);
    assert.match(stdout, /Waiting +1,204 changes wait, the oldest since 2026-03-01/);
    assert.ok(!stdout.includes('Pruned'));
    hub.answers['GET admin/outbox'] = { ...offline, broker, prunedTotal: 3_000 };
    assert.match(
      (await cli('outbox')).stdout,
      /Pruned +the 3,000 oldest events since the start: outbox\.max_bytes was/,
    );
  });
});

describe('a dead letter', () => {
  it('is shown with its event, found on any page', async () => {
    hub.pageSize = 2;
    hub.answers['GET admin/outbox/dead-letters'] = [1, 2, 3].map((id) => deadLetter(id));
    const shown = await cli('outbox', 'dead-letters', 'show', '3');
    assert.match(shown.stdout, /^Dead letter +3, since .*\nReason .*\(after 1 attempt\)\n(.*\n)*\{\n {2}"n": 3\n\}\n$/);
    hub.answers['GET admin/outbox/dead-letters'] = [deadLetter(4, { scope: 'RESTRICTED', envelope: null })];
    const withheld = await cli('outbox', 'dead-letters', 'show', '4');
    assert.match(withheld.stdout, /\nEvent +not shown: your token does not open the scope RESTRICTED\n$/);
    const none = await cli('outbox', 'dead-letters', 'show', '9');
    assert.deepEqual([none.status, none.stdout], [5, '']);
    assert.match(
      none.stderr,
      /cannot show dead letter 9: there is no such dead letter\. lineside outbox dead-letters lists/,
    );
  });
});

describe('alerts', () => {
  it('answers by its exit status whether there is an alert', async () => {
    assert.deepEqual(await statusAndText('alerts'), [0, 'no alerts\n']);
    const alert = {
      name: 'RefdataOutboxLagHigh',
      severity: 'warning',
      forSeconds: 61,
      summary: '1,204 wait',
      value: 1204,
    };
    hub.answers['GET alerts'] = { items: [alert] };
    assert.deepEqual(await statusAndText('alerts'), [1, 'RefdataOutboxLagHigh  warning, for 1 min 1 s: 1,204 wait\n']);
    assert.deepEqual(await statusAndText('alerts', '--json'), [1, `${JSON.stringify({ alerts: [alert] })}\n`]);
  });

  async function statusAndText(...argv: string[]): Promise<[number, string]> {
    const { status, stdout } = await cli(...argv);
    return [status, stdout];
  }
});
