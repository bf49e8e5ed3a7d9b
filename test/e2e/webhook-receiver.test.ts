/** The subscriber of the end-to-end tests judges rightly, and fails as it is told: else those tests would show nothing. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { before, beforeEach, describe, it } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';

const SECRET = 'the secret of the receiver';
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
  receiver = await startReceiver(undefined, { secrets: [SECRET, 'another secret of it'] });
  ca = readFileSync(receiver.caFile);
});
beforeEach(() => receiver.script([]));

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
  readonly signal?: AbortSignal;
}

function post(body: string, { headers = {}, agent = new Agent(), method = 'POST', signal }: Sent = {}) {
  const answered = new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request(receiver.url, { method, ca, agent, headers, ...(signal === undefined ? {} : { signal }) });
    sent.on('error', reject).on('response', (response) => {
      text(response).then((all) => resolve({ status: response.statusCode ?? 0, body: all }), reject);
    });
    sent.end(body);
  });
  answered.catch(() => {});
  return answered;
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
    await deliver({ subscriptionName: 'site', events: [event, { ...event, version: 2, action: 'closed' }] }, { agent });
    agent.destroy();
    const [first, second] = (await receiver.received(before + 2)).slice(before);
    assert.deepEqual([first?.faults, second?.faults], [[], []]);
    assert.deepEqual([first?.signedBy, first?.previousSignedBy, first?.complete], [SECRET, undefined, true]);
    assert.equal(first?.body?.events[0]?.businessKey, 'P-1');
    assert.equal(first?.raw.toString(), JSON.stringify(first?.body));
    assert.equal(first?.connection, second?.connection);
    assert.ok(first !== undefined && first.at >= began && first.at <= Number(process.hrtime.bigint()) / 1e9);
    const end = await until('the end', () => receiver.requests()[before]?.end);
    assert.deepEqual([end.how, end.sent > 0], ['answered', true]);
  });

  it('finds what is wrong', async () => {
    const cases: readonly (readonly [RegExp, () => Promise<unknown>])[] = [
      [/signature .* is by none/, () => deliver({}, {}, 'a secret nobody knows')],
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

  it('tells which secret signed, of the previous signature too', async () => {
    const made = delivery();
    const body = JSON.stringify(made);
    const old = headersOf(body, made.deliveryId, 'another secret of it')['X-Service-Signature'] ?? '';
    await post(body, { headers: { ...headersOf(body, made.deliveryId), 'X-Service-Signature-Previous': old } });
    const last = receiver.requests().at(-1);
    assert.deepEqual([last?.signedBy, last?.previousSignedBy], [SECRET, 'another secret of it']);
  });

  it('answers by its script, then as usual', async () => {
    await receiver.script([
      { status: 503, body: 'busy', times: 2 },
      { status: 307, headers: { location: '/x' } },
    ]);
    await receiver.append([{ status: 204 }]);
    const answers = [];
    for (let n = 0; n < 5; n += 1) answers.push(await deliver());
    assert.deepEqual(
      answers.map((one) => one.status),
      [503, 503, 307, 204, 202],
    );
    assert.equal(answers[0]?.body, 'busy');
  });

  it('fails in every way there is', async () => {
    for (const [fault, error] of [
      ['close', /socket hang up|ECONNRESET/],
      ['reset', /ECONNRESET/],
      ['cut', /aborted/],
      ['garbage', /Parse Error/],
    ] as const) {
      await receiver.script([{ fault }]);
      await assert.rejects(deliver(), error, fault);
    }
    await receiver.script([{ fault: 'huge', bytes: 3_000_000 }]);
    assert.ok((await deliver()).body.length >= 3_000_000);
    for (const fault of ['hang', 'head', 'drip'] as const) {
      await receiver.script([{ fault, everyS: 0.01 }]);
      const before = receiver.requests().length;
      const stop = new AbortController();
      const answered = deliver({}, { signal: stop.signal });
      await receiver.received(before + 1);
      stop.abort();
      await assert.rejects(answered, /abort/);
      const end = await until(`the end of ${fault}`, () => receiver.requests()[before]?.end);
      assert.equal(end.how, 'gone', fault);
    }
  });

  it('answers what hangs when it is released', async () => {
    await receiver.script([{ fault: 'hang', status: 200 }]);
    const before = receiver.requests().length;
    const answered = deliver();
    await receiver.received(before + 1);
    await receiver.release();
    assert.equal((await within('the answer', answered)).status, 200);
  });

  it('goes away and comes back on its port, and cuts what stands', async () => {
    const agent = new Agent({ keepAlive: true });
    await deliver({}, { agent });
    await receiver.listen(false);
    await assert.rejects(deliver({}, { agent }), /ECONNREFUSED|ECONNRESET|hang up/);
    await assert.rejects(deliver(), /ECONNREFUSED/);
    await receiver.listen(true);
    assert.equal((await deliver({}, { agent })).status, 202);
    agent.destroy();
  });

  it('leaves a handshake unanswered, ends it, and shows another certificate', async () => {
    const before = receiver.connections();
    await receiver.handshake('close');
    await assert.rejects(deliver(), /disconnected|ECONNRESET/);
    await receiver.handshake('hang');
    const stop = new AbortController();
    const answered = deliver({}, { signal: stop.signal });
    await until('the connection', () => receiver.connections() === before + 2);
    stop.abort();
    await assert.rejects(answered, /abort/);
    await receiver.handshake('normal');
    await receiver.certificate('DNS:other.test');
    await assert.rejects(deliver(), /does not match certificate's altnames/);
    await receiver.certificate('DNS:localhost,IP:127.0.0.1', 'other');
    await assert.rejects(deliver(), /certificate/);
    await receiver.certificate('DNS:localhost,IP:127.0.0.1');
    assert.equal((await deliver()).status, 202);
  });
});
