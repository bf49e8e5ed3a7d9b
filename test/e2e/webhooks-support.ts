/** Shared by the webhooks' end-to-end tests: a hub with its subscribers, subscriptions, and deliveries as an operator sees them. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Delivery, DeliveryDetail, Subscription, WebhookStatus } from '../../src/shared/gen/http.ts';
import { type Toml, temporaryDirectory } from './daemon.ts';
import type { Body, HubApi } from './hub-api.ts';
import { expect } from './hub-support.ts';
import type { DeliveredEvent, Receiver } from './webhook-receiver.ts';

export const HOOKS = '/api/v1/admin/webhooks';
export const SECRET = 'the secret of the subscriber: größer';

/** Subscribers on this machine, each with an authority of its own. The device's own facts are other tests' matter. */
export function webhooksConfig(receivers: readonly Receiver[], more: Toml = {}): Toml {
  const caFile = join(temporaryDirectory(), 'subscribers.pem');
  writeFileSync(caFile, receivers.map((one) => readFileSync(one.caFile, 'utf8')).join(''));
  return { device: { inventory: false }, webhooks: { allow_cidrs: ['127.0.0.0/8'], ca_file: caFile, ...more } };
}

/** Each path of a receiver is a subscriber of its own. */
export function urlOf(receiver: Receiver, path: string): string {
  return `https://127.0.0.1:${receiver.port}${path}`;
}

/** A subscription that must be taken; posted to /NAME of the receiver. */
export async function subscribe(
  api: HubApi,
  receiver: Receiver,
  name: string,
  more: object = {},
): Promise<Subscription> {
  const request = { name, url: urlOf(receiver, `/${name}`), secret: SECRET, ...more };
  return (await expect(201, api.post(`${HOOKS}/subscriptions`, request))) as unknown as Subscription;
}

export async function subscription(api: HubApi, id: string): Promise<Subscription> {
  return (await expect(200, api.get(`${HOOKS}/subscriptions/${id}`))) as unknown as Subscription;
}

export async function patch(api: HubApi, id: string, body: object): Promise<Subscription> {
  const changed = api.send('PATCH', `${HOOKS}/subscriptions/${id}`, { body });
  return (await expect(200, changed)) as unknown as Subscription;
}

export async function webhookStatus(api: HubApi): Promise<WebhookStatus> {
  return (await expect(200, api.get(`${HOOKS}/status`))) as unknown as WebhookStatus;
}

/** Of a subscription, in the order in which they were made. */
export async function deliveriesOf(api: HubApi, id: string, more = ''): Promise<readonly Delivery[]> {
  const found: Body[] = [];
  let cursor: string | null | undefined;
  do {
    const page = typeof cursor !== 'string' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await expect(200, api.get(`${HOOKS}/deliveries?subscription=${id}&limit=200${more}${page}`));
    found.push(...(answer.items ?? []));
    cursor = answer.nextCursor;
  } while (typeof cursor === 'string');
  return found.toReversed() as unknown as Delivery[];
}

export async function detail(api: HubApi, deliveryId: string): Promise<DeliveryDetail> {
  return (await expect(200, api.get(`${HOOKS}/deliveries/${deliveryId}`))) as unknown as DeliveryDetail;
}

/** An import of another test may be before what is waited for. */
const PATIENT_MS = 60_000;

/** What was committed before is planned: there will be no other deliveries of it. */
export async function planned(api: HubApi): Promise<void> {
  await until('everything is planned', async () => (await webhookStatus(api)).unplannedEvents === 0, PATIENT_MS);
}

export async function deliveriesWhen(
  api: HubApi,
  id: string,
  what: string,
  is: (found: readonly Delivery[]) => boolean,
  limitMs = PATIENT_MS,
): Promise<readonly Delivery[]> {
  let last: readonly Delivery[] = [];
  const look = async (): Promise<boolean> => {
    last = await deliveriesOf(api, id);
    return is(last);
  };
  try {
    await until(what, look, limitMs);
  } catch (error) {
    throw new Error(`${what}: ${JSON.stringify(last)}`, { cause: error });
  }
  return last;
}

/** All that there is for a subscription, ended in these states and no others. */
export async function settled(api: HubApi, id: string, limitMs?: number): Promise<readonly Delivery[]> {
  await planned(api);
  return deliveriesWhen(
    api,
    id,
    `subscription ${id} is settled`,
    (all) => all.every(({ endedAt }) => endedAt !== null),
    limitMs,
  );
}

/** The one delivery of a subscription, when it is as asked for. */
export async function deliveryWhen(
  api: HubApi,
  id: string,
  is: (one: Delivery) => boolean,
  limitMs?: number,
): Promise<DeliveryDetail> {
  const one = (found: readonly Delivery[]): boolean => found[0] !== undefined && is(found[0]);
  const [found] = await deliveriesWhen(api, id, `the delivery of subscription ${id}`, one, limitMs);
  return detail(api, found?.deliveryId ?? '');
}

export const hasEnded = ({ endedAt }: Delivery): boolean => endedAt !== null;

/** "dictionary:key version action" of each event that came to a path, delivery by delivery, in the order of `deliveries`. */
export function eventsBy(
  receiver: Receiver,
  path: string,
  deliveries: readonly Delivery[],
): readonly (readonly string[])[] {
  const bodies = new Map(receiver.requests(path).map(({ body }) => [body?.deliveryId, body]));
  return deliveries.map(({ deliveryId }) => (bodies.get(deliveryId)?.events ?? []).map(wordsOf));
}

function wordsOf({ dictionary, businessKey, version, action, eventType }: DeliveredEvent): string {
  return businessKey === undefined ? `${dictionary} ${eventType}` : `${dictionary}:${businessKey} ${version} ${action}`;
}

/** The independent subscriber found nothing wrong with anything that it was ever sent. */
export function assertFaultless(receiver: Receiver): void {
  const wrong = receiver.requests().filter(({ faults }) => faults.length > 0);
  assert.deepEqual(
    wrong.map(({ path, faults }) => `${path}: ${faults.join('; ')}`),
    [],
  );
}

/** Every attempt had the same bytes and the same id; there were as many requests as attempts. */
export function assertSameBytes(receiver: Receiver, path: string, { deliveryId, attempts }: Delivery): void {
  const requests = receiver.requests(path);
  assert.equal(requests.length, attempts, `requests to ${path}`);
  for (const { raw, header } of requests) {
    assert.equal(header['x-service-delivery'], deliveryId);
    assert.deepEqual(raw, requests[0]?.raw);
  }
}
