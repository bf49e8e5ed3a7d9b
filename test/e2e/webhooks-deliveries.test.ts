/**
 * What subscribers are sent, as an independent one finds it (webhook_receiver.py judges signature, headers and body of every
 * request): each change once, to whom it is for, in the deliveries of its transaction; and what subscriptions do meanwhile.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Hub, startHub } from './hub.ts';
import { HubApi, recordPath } from './hub-api.ts';
import {
  apiOf,
  auditOf,
  close,
  create,
  dictionary,
  expect,
  items,
  refused,
  sendBundle,
  update,
} from './hub-support.ts';
import { addToken } from './run-cli.ts';
import { type ReceivedRequest, type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  deliveriesOf,
  deliveriesWhen,
  eventsBy,
  HOOKS,
  hasEnded,
  planned,
  revokeToken,
  SECRET,
  settled,
  subscribe,
  subscription,
  webhookStatus,
  webhooksConfig,
} from './webhooks-support.ts';

const NEXT_SECRET = 'another secret of the subscriber';
const SCOPES = ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const;
let receiver: Receiver;
let hub: Hub;
let api: HubApi;

before(async () => {
  receiver = await startReceiver(undefined, { secrets: [SECRET, NEXT_SECRET] });
  hub = await startHub({ config: webhooksConfig([receiver], { schedule_s: [0, 0, 1] }) });
  api = apiOf(hub);
});
/** A change with what its delivery must hold, in order. */
interface Change {
  readonly asked: Promise<unknown>;
  readonly events: readonly string[];
}

function requestOf(path: string, key: string): ReceivedRequest | undefined {
  return receiver.requests(path).find(({ body }) => body?.events.some(({ businessKey }) => businessKey === key));
}

/** Waits for the delivery with an event of a record. */
function arrived(path: string, key: string): Promise<ReceivedRequest> {
  return until(`${key} at ${path}`, () => requestOf(path, key), 60_000);
}

describe('webhooks', { concurrency: true }, () => {
  describe('a subscriber', { concurrency: true }, () => {
    test('receives every change, transaction by transaction, with the data as stored', async () => {
      const { id } = await subscribe(api, receiver, 'all', { dictionaries: ['pumps', 'valves'] });
      const drafts = '/api/v1/dictionaries/pumps/drafts';
      let draftId = '';
      const propose = async () => {
        draftId = String((await expect(201, api.post(drafts, { schema: { type: 'object' } })))['id']);
      };
      const step = (name: string, body: object = {}) => expect(200, api.post(`${drafts}/${draftId}/${name}`, body));
      const data = { kw: 7.5, text: 'größer "\\ \u2028 💡', deep: [{ a: [null, 1e21, -0.25] }], __proto__x: {} };
      const bundle = [
        { dictionary: 'pumps', businessKey: 'P:4', data: { n: 4 }, validFrom: '2999-01-01T01:00:00+01:00' },
        { dictionary: 'valves', businessKey: 'Ключ ü/ß %2F', data },
        { dictionary: 'pumps', businessKey: 'P-1', data: {} },
        { dictionary: 'pumps', businessKey: 'P-2', action: 'close' },
      ];
      const changes: readonly (() => Change)[] = [
        () => ({ asked: dictionary(api, 'pumps'), events: ['pumps DefinitionCreated'] }),
        () => ({ asked: dictionary(api, 'valves'), events: ['valves DefinitionCreated'] }),
        () => ({
          asked: expect(200, api.send('PATCH', '/api/v1/dictionaries/pumps', { body: { title: 'Pumpen' } })),
          events: ['pumps DefinitionUpdated'],
        }),
        () => ({ asked: create(api, 'pumps', 'P-1', data), events: ['pumps:P-1 1 created'] }),
        () => ({ asked: update(api, 'pumps', 'P-1', 1, { kw: 8 }), events: ['pumps:P-1 2 updated'] }),
        () => ({ asked: close(api, 'pumps', 'P-1', 2), events: ['pumps:P-1 3 closed'] }),
        () => ({ asked: create(api, 'pumps', 'P-1', { again: true }), events: ['pumps:P-1 4 created'] }),
        ...['P-2', 'P-3', 'x:y'].map((key) => () => ({
          asked: create(api, 'pumps', key, {}),
          events: [`pumps:${key} 1 created`],
        })),
        () => ({
          asked: expect(
            200,
            api.post('/api/v1/dictionaries/pumps/bulk-close', {
              businessKeys: ['P-3', 'x:y'],
              changeReason: 'Inventur',
            }),
          ),
          events: ['pumps:P-3 2 closed', 'pumps:x:y 2 closed'],
        }),
        () => ({
          asked: expect(200, sendBundle(api, bundle)),
          events: ['pumps:P:4 1 created', 'valves:Ключ ü/ß %2F 1 created', 'pumps:P-1 5 updated', 'pumps:P-2 2 closed'],
        }),
        () => ({ asked: propose(), events: ['pumps SchemaDraftCreated'] }),
        () => ({ asked: step('request-review'), events: ['pumps SchemaDraftReviewRequested'] }),
        () => ({ asked: step('decide', { decision: 'approved' }), events: ['pumps SchemaDraftDecided'] }),
        () => ({ asked: step('publish'), events: ['pumps SchemaDraftPublished'] }),
        () => ({ asked: propose(), events: ['pumps SchemaDraftCreated'] }),
        () => ({ asked: step('withdraw'), events: ['pumps SchemaDraftWithdrawn'] }),
      ];
      const wanted: (readonly string[])[] = [];
      for (const change of changes) {
        const { asked, events } = change();
        await asked;
        wanted.push(events);
      }
      const deliveries = await settled(api, id);
      assert.deepEqual(eventsBy(receiver, '/all', deliveries), wanted);
      assert.ok(deliveries.every(({ state, attempts }) => state === 'delivered' && attempts === 1));
      assert.equal(receiver.requests('/all').length, deliveries.length);
      await asTheHistoryHasThem(receiver.requests('/all'));
    });

    /** Each record event holds what a reader of the interface finds of that version. */
    async function asTheHistoryHasThem(requests: readonly ReceivedRequest[]): Promise<void> {
      const events = requests.flatMap(({ body }) => body?.events ?? []).filter((one) => one.businessKey !== undefined);
      assert.equal(events.length, 13);
      for (const event of events) {
        const path = `${recordPath(event.dictionary, event.businessKey ?? '')}/history`;
        const { items: versions = [] } = await expect(200, api.get(path));
        const stored = versions.find(({ version }) => version === event.version);
        const { schemaVersion, eventType, dictionary: of, businessKey, version, ...rest } = event;
        const { data, validFrom, action } = stored ?? {};
        assert.deepEqual(rest, { action, validFrom, data }, `${of}:${businessKey} ${version}`);
        assert.deepEqual([schemaVersion, eventType], ['1.0.0', 'dictionary.changed']);
      }
    }

    test('gets an import of 50,000 records whole, each event once, in deliveries within their bounds', async () => {
      await dictionary(api, 'bulk');
      await dictionary(api, 'large');
      const { id } = await subscribe(api, receiver, 'bulk', {
        dictionaries: ['bulk', 'large'],
        categories: ['dict.record.*'],
      });
      // What goes wrong in between is made good by the same bytes.
      await receiver.script([{}, { status: 503 }, {}, { fault: 'cut' }, { fault: 'reset' }], '/bulk');
      const text = 'x'.repeat(100_000);
      const heavy = Array.from({ length: 25 }, (_, i) => {
        return { dictionary: 'large', businessKey: `L-${i}`, data: { text } };
      });
      const all = [...items('bulk', 25_000, 0), ...heavy, ...items('bulk', 50_000, 0).slice(25_000)];
      await expect(200, sendBundle(api, all));
      const deliveries = await settled(api, id);
      assert.deepEqual(new Set(deliveries.map(({ state }) => state)), new Set(['delivered']));
      const bodies = new Map(receiver.requests('/bulk').map(({ body, raw }) => [body?.deliveryId, { body, raw }]));
      const came = deliveries.flatMap(({ deliveryId }) => bodies.get(deliveryId)?.body?.events ?? []);
      assert.deepEqual(
        came.map(({ dictionary: of, businessKey }) => `${of}:${businessKey}`),
        all.map((one) => Object.values(one).slice(0, 2).join(':')),
      );
      assert.ok(came.every(({ version, action }) => version === 1 && action === 'created'));
      assert.ok(
        came.every(({ data, businessKey }) => data['text'] === text || `key ${String(data['i'])}` === businessKey),
      );
      for (const { raw, body } of bodies.values()) {
        assert.ok((body?.events.length ?? 0) <= 500 && raw.length <= 1024 * 1024, `${raw.length} bytes`);
      }
      // 50,000 in full deliveries are 100; 25 of 100 kB need three or four more, and cut one.
      assert.ok(deliveries.length <= 106, `${deliveries.length} deliveries`);
      assert.equal(
        deliveries.reduce((sum, { events }) => sum + events, 0),
        all.length,
      );
      assert.equal(receiver.requests('/bulk').length, deliveries.length + 3);
    });
  });

  describe('what is under way', { concurrency: true }, () => {
    test('ends at once where the subscription is deleted, and what waits for it is never sent', async () => {
      await dictionary(api, 'ended');
      await receiver.script([{ fault: 'hang', times: 10 }], '/deleted');
      const { id } = await subscribe(api, receiver, 'deleted', { dictionaries: ['ended'] });
      const other = await subscribe(api, receiver, 'stays', { dictionaries: ['ended'] });
      for (const key of ['a', 'b', 'c']) await create(api, 'ended', key, {});
      await receiver.received(1, '/deleted');
      await planned(api);
      const [waiting] = await deliveriesOf(api, id);
      await expect(204, api.send('DELETE', `${HOOKS}/subscriptions/${id}`));
      for (const { n } of receiver.requests('/deleted')) {
        const end = await until('the attempt is cancelled', () => receiver.requests().find((one) => one.n === n)?.end);
        assert.equal(end.how, 'gone');
      }
      const before = receiver.requests('/deleted').length;
      await create(api, 'ended', 'd', {});
      await settled(api, other.id);
      await arrived('/stays', 'd');
      assert.equal(receiver.requests('/deleted').length, before);
      await refused(404, 'NOT_FOUND', api.get(`${HOOKS}/subscriptions/${id}`));
      await refused(404, 'NOT_FOUND', api.get(`${HOOKS}/deliveries/${waiting?.deliveryId ?? ''}`));
    });

    test('is signed by the new secret on its next attempt, and by the old one as well within the grace', async () => {
      await dictionary(api, 'rotated');
      const rotate = (id: string, more: object) =>
        expect(200, api.post(`${HOOKS}/subscriptions/${id}/rotate-secret`, { secret: NEXT_SECRET, ...more }));
      const day = await subscribe(api, receiver, 'grace-day', { dictionaries: ['rotated'] });
      const none = await subscribe(api, receiver, 'grace-0', { dictionaries: ['rotated'] });
      await receiver.script([{ fault: 'hang', status: 503 }], '/grace-day');
      await create(api, 'rotated', 'first', {});
      for (const path of ['/grace-day', '/grace-0']) {
        const { signedBy, header } = await arrived(path, 'first');
        assert.deepEqual([signedBy, header['x-service-signature-previous']], [SECRET, undefined]);
      }
      await settled(api, none.id);
      await rotate(day.id, {});
      await rotate(none.id, { graceSeconds: 0 });
      await receiver.release('/grace-day');
      const [first, again] = await receiver.received(2, '/grace-day');
      assert.deepEqual([again?.signedBy, again?.previousSignedBy, again?.raw], [NEXT_SECRET, SECRET, first?.raw]);
      await create(api, 'rotated', 'second', {});
      const byNone = await arrived('/grace-0', 'second');
      assert.deepEqual([byNone.signedBy, byNone.header['x-service-signature-previous']], [NEXT_SECRET, undefined]);
      const audited = JSON.stringify(await auditOf(api, 'webhook.secret_rotated'));
      assert.ok(!audited.includes(SECRET) && !audited.includes(NEXT_SECRET) && audited.includes('graceSeconds'));
      assert.ok(!hub.logLines.some((line) => line.includes(SECRET) || line.includes(NEXT_SECRET)));
    });
  });

  describe('the scopes of a subscription', { concurrency: 1 }, () => {
    const dictionaries = SCOPES.map((scope) => `s-${scope.toLowerCase()}`);
    let office: HubApi;
    let plant: HubApi;

    before(async () => {
      for (const scope of SCOPES) await dictionary(api, `s-${scope.toLowerCase()}`, scope);
      office = new HubApi(hub.address, await addToken(hub.configFile, 'office', 'admin'));
      plant = new HubApi(hub.address, await addToken(hub.configFile, 'plant', 'admin', 'refdata-internal'));
      await until('the hub knows the tokens', async () => (await plant.get(`${HOOKS}/status`)).status === 200);
      await until('the hub knows its consumers', async () => {
        const asked = { name: 'probe', url: 'http://x', secret: SECRET, consumer: 'plant' };
        const { body } = await api.post(`${HOOKS}/subscriptions`, asked);
        return !(body?.reasons ?? []).some((reason) => reason.startsWith('/consumer'));
      });
    });
    after(() => {
      office.close();
      plant.close();
    });

    async function changeAll(key: string): Promise<void> {
      for (const name of dictionaries) await create(api, name, key, {});
    }

    /** The dictionaries of the events that came of a record. */
    async function dictionariesTold(id: string, path: string, key: string): Promise<readonly string[]> {
      await settled(api, id);
      const events = receiver.requests(path).flatMap(({ body }) => body?.events ?? []);
      return events.filter(({ businessKey }) => businessKey === key).map((event) => event.dictionary);
    }

    test('are those of its consumer', async () => {
      const all = { dictionaries };
      const [a, b, c] = [
        await subscribe(office, receiver, 'office', all),
        await subscribe(plant, receiver, 'plant', all),
        await subscribe(api, receiver, 'local', all),
      ];
      assert.deepEqual([a.consumer, a.scopes], ['office', ['PUBLIC']]);
      assert.deepEqual([b.consumer, b.scopes], ['plant', ['PUBLIC', 'INTERNAL']]);
      assert.deepEqual([c.consumer, c.scopes], ['local', SCOPES]);
      await changeAll('one');
      assert.deepEqual(await dictionariesTold(a.id, '/office', 'one'), dictionaries.slice(0, 1));
      assert.deepEqual(await dictionariesTold(b.id, '/plant', 'one'), dictionaries.slice(0, 2));
      assert.deepEqual(await dictionariesTold(c.id, '/local', 'one'), dictionaries);
      const [internal] = (await deliveriesOf(api, b.id)).filter(({ deliveryId }) =>
        requestOf('/plant', 'one') === undefined ? false : deliveryId !== requestOf('/plant', 'one')?.body?.deliveryId,
      );
      const shown = await expect(200, office.get(`${HOOKS}/deliveries/${internal?.deliveryId ?? ''}`));
      assert.equal(shown['body'], null, 'who may not read a scope does not read it in a delivery');
    });

    test('are none when the token is revoked: blocked, an alert, no attempts; waiting deliveries resume when it is back', async () => {
      const { id } = await subscribe(plant, receiver, 'revoked', { dictionaries });
      await receiver.script([{ fault: 'hang' }], '/revoked');
      await create(api, 's-public', 'three', {});
      await arrived('/revoked', 'three');
      await revokeToken(hub.configFile, 'plant');
      await until('it is blocked', async () => (await subscription(api, id)).blocked !== '');
      assert.match((await subscription(api, id)).blocked, /its consumer, the token plant, is gone/);
      const [cut] = receiver.requests('/revoked');
      const end = await until(
        'the attempt is cancelled',
        () => cut && receiver.requests().find((one) => one.n === cut.n)?.end,
      );
      assert.equal(end.how, 'gone');
      assert.ok((await webhookStatus(api)).blockedSubscriptions >= 1);
      const { items: alerts = [] } = await expect(200, api.get('/api/v1/alerts'));
      assert.ok(alerts.some(({ name }) => name === 'RefdataWebhookSubscriptionBlocked'));
      await changeAll('four');
      await planned(api);
      const [waiting, ...none] = await deliveriesOf(api, id);
      assert.deepEqual([waiting?.state, waiting?.attempts, none], ['pending', 0, []]);
      await addToken(hub.configFile, 'plant', 'admin');
      const delivered = await deliveriesWhen(api, id, 'it resumes', (all) => all.every(hasEnded));
      assert.deepEqual(
        delivered.map(({ state, attempts }) => [state, attempts]),
        [['delivered', 1]],
      );
      const { blocked } = await subscription(api, id);
      assert.equal(
        blocked,
        'nothing of INTERNAL is sent: not open to its consumer, the token plant',
        'it has lost a role',
      );
      assert.deepEqual(receiver.requests('/revoked')[1]?.raw, cut?.raw);
    });
  });
});

test('the subscriber, which has no code of the hub, found nothing wrong with any request', async () => {
  assert.ok(receiver.requests().length > 100);
  assertFaultless(receiver);
  assert.equal(await hub.stop(), 0);
});
