/** The subscriber of the end-to-end tests judges rightly: else those tests would show nothing. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { before, describe, it } from 'node:test';
import { exchange } from '../../src/shared/base/exchange.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';

const SECRET = 'the secret of the receiver';
const OTHER_SECRET = 'another secret of it';
const event = {
  schemaVersion: '1.0.0',
  eventType: 'dictionary.changed',
  dictionary: 'pumps',
  businessKey: 'P-1',
  action: 'created',
  version: 1,
  validFrom: '2026-03-01T09:30:00+00:00',
  data: { kw: 7.5 },
};
let count = 0;
let receiver: Receiver;
let ca: Buffer;

before(async () => {
  receiver = await startReceiver(undefined, { secrets: [SECRET, OTHER_SECRET] });
  ca = readFileSync(receiver.caFile);
});

function delivery(more: object = {}): { readonly deliveryId: string; readonly events: readonly object[] } {
  count += 1;
  const head = { deliveryId: `${count}-a`, subscriptionName: 'site', occurredAt: '2026-03-01T09:30:00.25+00:00' };
  return { ...head, events: [event], ...more };
}

function headersOf(body: string, id: string, secret = SECRET): Record<string, string> {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return {
    'content-type': 'application/json',
    'X-Service-Signature': `sha256=${signature}`,
    'X-Service-Delivery': id,
    'X-Service-Subscription': 'site',
  };
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly agent?: Agent;
  readonly method?: string;
}

async function post(body: string, { headers = {}, agent = new Agent(), method = 'POST' }: Sent = {}) {
  const { hostname: host, port, pathname: path } = new URL(receiver.url);
  const { status, text } = await exchange({ host, port, path, method, ca, agent, headers }, body);
  return { status, body: text };
}

/** Posts what is as it should be, and what of it differs. */
function deliver(more: object = {}, sent: Sent = {}, secret = SECRET) {
  const made = delivery(more);
  const body = JSON.stringify(made);
  return post(body, { ...sent, headers: { ...headersOf(body, made.deliveryId, secret), ...sent.headers } });
}

describe('the subscriber of the end-to-end tests', () => {
  it('writes down what came, to the byte, and finds nothing wrong with what is right', async () => {
    const before = receiver.requests().length;
    const began = Number(process.hrtime.bigint()) / 1e9;
    const agent = new Agent({ keepAlive: true });
    assert.deepEqual(await deliver({}, { agent }), { status: 202, body: '' });
    await deliver(
      { subscriptionName: 'site', events: [event, { ...event, version: 2, action: 'closed' }] },
      { agent },
      OTHER_SECRET,
    );
    agent.destroy();
    const [first, second] = (await receiver.received(before + 2)).slice(before);
    assert.deepEqual([first?.faults, second?.faults], [[], []]);
    assert.deepEqual([first?.signedBy, second?.signedBy, first?.complete], [SECRET, OTHER_SECRET, true]);
    assert.equal(first?.body?.events[0]?.businessKey, 'P-1');
    assert.equal(first?.raw.toString(), JSON.stringify(first?.body));
    assert.equal(first?.connection, second?.connection);
    assert.ok(first !== undefined && first.at >= began && first.at <= Number(process.hrtime.bigint()) / 1e9);
    const end = await until('the end', () => receiver.requests()[before]?.end);
    assert.deepEqual([end.how, end.sent > 0], ['answered', true]);
  });

  it('finds what is wrong', async () => {
    const cases: readonly (readonly [RegExp, () => Promise<unknown>])[] = [
      [/signature .* is by none/, () => deliver({}, {}, 'an unknown secret')],
      [/signature .* is by none/, () => deliver({}, { headers: { 'X-Service-Signature': 'sha256=00' } })],
      [/x-service-delivery 'other'/, () => deliver({}, { headers: { 'X-Service-Delivery': 'other' } })],
      [/x-service-subscription 'x', not 'site'/, () => deliver({}, { headers: { 'X-Service-Subscription': 'x' } })],
      [/content-type/, () => deliver({}, { headers: { 'content-type': 'text/plain' } })],
      [/method PUT/, () => deliver({}, { method: 'PUT' })],
      [/occurredAt/, () => deliver({ occurredAt: '2026-03-01T09:30:00Z' })],
      [/0 events/, () => deliver({ events: [] })],
      [/501 events/, () => deliver({ events: Array.from({ length: 501 }, () => event) })],
      [/unknown \['txTime'\]/, () => deliver({ events: [{ ...event, txTime: '' }] })],
      [/version is str/, () => deliver({ events: [{ ...event, version: '1' }] })],
      [/bulk_imported/, () => deliver({ events: [{ ...event, eventType: 'dictionary.bulk_imported' }] })],
      [/not JSON/, () => post('{', { headers: headersOf('{', 'x') })],
    ];
    for (const [text, send] of cases) {
      await send();
      assert.match(receiver.requests().at(-1)?.faults.join('; ') ?? '', text);
    }
    const deliveryId = 'twice';
    await deliver({ deliveryId });
    await deliver({ deliveryId, events: [{ ...event, version: 2 }] });
    assert.deepEqual(receiver.requests().at(-1)?.faults, ['a delivery that came before, with other bytes']);
  });
});
