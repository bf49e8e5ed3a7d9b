/**
 * What subscribers are sent, as an independent one finds it (webhook_receiver.py judges signature, headers and body of every
 * request): each change once, to whom it is for, in the deliveries of its transaction; and what is not accepted by its
 * schedule, until an operator sends it again.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Outcome, run } from '../../src/cli/drive.fixture.ts';
import { type Hub, startHub } from './hub.ts';
import { type HubApi, recordPath } from './hub-api.ts';
import { alerts, apiOf, auditOf, close, create, dictionary, expect, items, sendBundle, update } from './hub-support.ts';
import { type ReceivedRequest, type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  assertSameBytes,
  deliveryWhen,
  eventsBy,
  HOOKS,
  hasEnded,
  SECRET,
  settled,
  subscribe,
  webhookStatus,
  webhooksConfig,
} from './webhooks-support.ts';

const SCHEDULE_S = [0, 0, 1, 2, 1];
/** The hub reckons in whole milliseconds. */
const ROUNDING_S = 0.001;
let receiver: Receiver;
let hub: Hub;
let api: HubApi;

before(async () => {
  receiver = await startReceiver(undefined, { secrets: [SECRET] });
  hub = await startHub({ config: webhooksConfig([receiver], { schedule_s: SCHEDULE_S }) });
  api = apiOf(hub);
});

const cli = (...args: string[]): Promise<Outcome> => run(args, { httpSocket: hub.socket });

/** A change with what its delivery must hold, in order. */
interface Change {
  readonly asked: Promise<unknown>;
  readonly events: readonly string[];
}

describe('webhooks', { concurrency: true }, () => {
  test('a subscriber receives every change, transaction by transaction, with the data as stored', async () => {
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

  test('a subscriber gets an import of 50,000 records whole, each event once, in deliveries within their bounds', async () => {
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

  test('the schedule counts from the end of each attempt; then operators are notified, and can resend the same bytes', async () => {
    const answerAfterS = 0.3;
    await dictionary(api, 'schedule');
    await receiver.script([{ status: 503, body: 'busy', delayS: answerAfterS, times: 5 }], '/scheduled');
    const { id } = await subscribe(api, receiver, 'scheduled', { dictionaries: ['schedule'] });
    await create(api, 'schedule', 'one', { text: 'größer' });
    const failed = await deliveryWhen(api, id, hasEnded);
    const { deliveryId } = failed;
    assert.deepEqual([failed.state, failed.attempts], ['failed', SCHEDULE_S.length]);
    assertSameBytes(receiver, '/scheduled', failed);
    assertTimes('/scheduled', answerAfterS, SCHEDULE_S);

    const listed = await expect(200, api.get(`${HOOKS}/deliveries?state=failed&limit=200`));
    assert.ok(listed.items?.some((one) => one['deliveryId'] === deliveryId));
    assert.ok((await alerts(api)).includes('RefdataWebhookDeliveriesForReview'));
    assert.ok((await webhookStatus(api)).failed >= 1);
    const { text } = await api.get('/metrics');
    assert.match(text, /^lineside_webhook_deliveries_for_review\{state="failed"\} [1-9]/m);
    assert.match(text, /^lineside_webhook_attempts_total\{cause="http"\} ([5-9]|\d\d)/m);
    assert.match((await cli('webhook', 'deliveries', '--state', 'failed')).stdout, new RegExp(`${deliveryId} +FAILED`));
    const shown = (await cli('webhook', 'delivery', deliveryId)).stdout;
    assert.equal(shown.match(/answered 503$/gm)?.length ?? 0, SCHEDULE_S.length, shown);
    const body = await cli('webhook', 'delivery', deliveryId, '--body');
    assert.deepEqual(body.bytes, receiver.requests('/scheduled')[0]?.raw);

    const retried = await cli('webhook', 'retry', deliveryId, '--reason', 'is fixed');
    assert.equal(retried.status, 0, retried.stderr);
    const delivered = await deliveryWhen(api, id, ({ state }) => state === 'delivered');
    assert.equal(delivered.attempts, SCHEDULE_S.length + 1);
    assert.equal((await expect(200, api.post(`${HOOKS}/deliveries/${deliveryId}/resend`, {})))['state'], 'pending');
    const again = await deliveryWhen(api, id, ({ attempts }) => attempts === SCHEDULE_S.length + 2);
    assertSameBytes(receiver, '/scheduled', again);
    const reasons = (await auditOf(api, 'webhook.resent')).map((one) => JSON.stringify(one));
    assert.ok(reasons.some((one) => one.includes(deliveryId) && one.includes('is fixed')));
  });
});

/** No attempt came before its time; `answerS`: how long the subscriber took to answer each. */
function assertTimes(path: string, answerS: number, scheduleS: readonly number[]): void {
  const requests = receiver.requests(path);
  for (const [at, { at: began }] of requests.entries()) {
    const before = requests[at - 1];
    const leastS = answerS + (scheduleS[at] ?? Number.NaN) - ROUNDING_S;
    assert.ok(before === undefined || began - before.at >= leastS, `${path}: attempt ${at + 1} came too early`);
  }
}

test('the subscriber, which has no code of the hub, found nothing wrong with any request', async () => {
  assert.ok(receiver.requests().length > 100);
  assertFaultless(receiver);
  assert.equal(await hub.stop(), 0);
});
