/** The operations of the interface on the real outbox; only the broker is one in memory. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { systemClock } from '../../shared/base/clock.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { Admin } from '../outbox/admin.ts';
import { FakeBroker, publisherOn } from '../outbox/publisher/publisher.fixture.ts';
import { type Answer, startTestServer } from './server.fixture.ts';

it('rows that can never be published are dead letters, alert and audit records; one is requeued, one discarded', async (t) => {
  const broker = new FakeBroker();
  broker.answer = ({ key }) => (/:(bad|worse)$/.test(key) ? 'refuse for ever' : 'acknowledge');
  const { ask } = await startTestServer(t, {
    outbox: (store) => {
      const publisher = publisherOn(store, broker, systemClock);
      publisher.start();
      t.after(() => publisher.stop(1_000));
      return new Admin({ store, publisher, broker, topicOf: (scope) => `t.${scope}`, clock: systemClock });
    },
  });
  const items = ({ json }: Answer) => json.items as readonly Readonly<Record<string, unknown>>[];
  const letters = '/api/v1/admin/outbox/dead-letters';
  const records = '/api/v1/dictionaries/d/records';
  await ask('POST', '/api/v1/dictionaries', { name: 'd', title: 'D', scope: 'PUBLIC' });
  for (const businessKey of ['good', 'bad', 'worse']) await ask('POST', records, { businessKey, data: { a: 1 } });
  const published = async (): Promise<unknown> => (await ask('GET', '/api/v1/admin/outbox')).json.publishedTotal;
  const dead = await until('the dead letters', async () => {
    const found = items(await ask('GET', letters));
    return found.length === 2 && found;
  });
  const shown = dead.map(({ businessKey, dictionary, action }) => [businessKey, dictionary, action]);
  assert.deepEqual(
    shown,
    ['bad', 'worse'].map((key) => [key, 'd', 'created']),
  );
  await until('the good one to be published', async () => (await published()) === 1);

  const [audited] = items(await ask('GET', '/api/v1/admin/audit?action=outbox.dlq'));
  assert.equal(audited?.action, 'outbox.dlq');
  assert.ok(items(await ask('GET', '/api/v1/alerts')).some(({ name }) => name === 'RefdataOutboxDLQNonEmpty'));
  assert.match((await ask('GET', '/metrics')).text, /^lineside_outbox_dead_letters 2$/m);

  broker.answer = () => 'acknowledge';
  const [bad, worse] = dead.map(({ id }) => `${letters}/${String(id)}`);
  assert.equal((await ask('POST', `${bad}/requeue`)).status, 204);
  await until('it to be published', async () => (await published()) === 2);
  assert.equal((await ask('POST', `${worse}/discard`, { changeReason: 'too large' })).status, 204);
  assert.deepEqual(items(await ask('GET', letters)), []);
  for (const gone of [bad, worse, `${letters}/one`]) assert.equal((await ask('POST', `${gone}/discard`)).status, 404);
  for (const [step, reason] of [
    ['requeue', ''],
    ['discard', 'too large'],
  ]) {
    const [{ actor, details } = {}] = items(await ask('GET', `/api/v1/admin/audit?action=outbox.${step}`));
    assert.deepEqual([actor, (details as { reason?: string }).reason], ['all', reason], step);
  }
  assert.equal((await ask('GET', '/api/v1/admin/audit?limit=2')).json.nextCursor === null, false);
});

it('events that wait are listed with their reason, by dictionary and key, for an admin alone', async (t) => {
  const broker = new FakeBroker();
  broker.connected = false;
  const { ask, call, tokens } = await startTestServer(t, {
    outbox: (store) => {
      const publisher = publisherOn(store, broker, systemClock);
      return new Admin({ store, publisher, broker, topicOf: (scope) => `t.${scope}`, clock: systemClock });
    },
  });
  const waiting = '/api/v1/admin/outbox/waiting';
  await ask('POST', '/api/v1/dictionaries', { name: 'd', title: 'D', scope: 'PUBLIC' });
  for (const businessKey of ['a', 'b'])
    await ask('POST', '/api/v1/dictionaries/d/records', { businessKey, data: { a: 1 } });
  const { json } = await ask('GET', `${waiting}?dictionary=d&businessKey=b`);
  const [{ businessKey, topic, waitsFor, nextAttemptInSeconds } = {}, ...others] = json.items as readonly Readonly<
    Record<string, unknown>
  >[];
  assert.deepEqual([businessKey, topic, waitsFor, nextAttemptInSeconds], ['b', 't.PUBLIC', 'broker', null]);
  assert.deepEqual(others, []);
  assert.deepEqual((await ask('GET', `${waiting}?dictionary=other`)).json.items, []);
  assert.equal((await call('GET', waiting, { token: tokens.writer })).status, 403);
});
