/** The webhooks of the small hub for the CLI's tests: what was written, and answers of the interface's shapes. */
import type { JsonObject } from '../output/json.ts';

interface Written {
  /** "POST subscriptions/3/resend" */
  readonly call: string;
  readonly body: JsonObject;
  /** Of the header. */
  readonly reason: string;
  readonly ifMatch: string | undefined;
}

const at = '2026-03-01T09:30:00+00:00';

export class FakeWebhooks {
  subscriptions: JsonObject[] = [];
  /** With attemptList and body, as a single one is answered. */
  deliveries: JsonObject[] = [];
  written: Written[] = [];
  pingResult: JsonObject = { success: true, statusCode: 202, responseBody: '', elapsedMs: 31 };
  resent = 0;
  offline = false;

  list(of: string | undefined, query: URLSearchParams): readonly JsonObject[] {
    if (of === 'subscriptions') return this.subscriptions;
    const wanted = (field: string): string | null => query.get(field);
    const matching = this.deliveries.filter((item) =>
      ['state', 'subscription'].every((field) => wanted(field) === null || wanted(field) === item[field]),
    );
    return matching.map((item) => without(item, ['attemptList', 'body']));
  }

  /** undefined: there is no such thing. */
  answer(
    method: string,
    [list, id, step]: readonly string[],
    { body, reason, ifMatch }: Omit<Written, 'call'>,
  ): { status?: number; body: JsonObject | undefined } | undefined {
    const path = [list, id, step].filter((part) => part !== undefined).join('/');
    if (method !== 'GET') this.written.push({ call: `${method} ${path}`, body, reason, ifMatch });
    if (list === 'status') return { body: { offline: this.offline } };
    if (list === 'test-ping') return { body: this.pingResult };
    if (list === 'deliveries') {
      const found = this.deliveries.find((item) => item['deliveryId'] === id);
      return found === undefined ? undefined : { body: step === 'resend' ? { ...found, state: 'pending' } : found };
    }
    return this.#subscription(method, id, step, body);
  }

  #subscription(method: string, id: string | undefined, step: string | undefined, body: JsonObject) {
    if (id === undefined) {
      const made = subscription(String(this.subscriptions.length + 1), withoutSecret(body));
      this.subscriptions.push(made);
      return { status: 201, body: made };
    }
    const place = this.subscriptions.findIndex((item) => item['id'] === id);
    const found = this.subscriptions[place];
    if (found === undefined) return undefined;
    if (step === 'resend') return { body: { deliveries: this.resent } };
    if (method === 'DELETE') {
      this.subscriptions.splice(place, 1);
      return { status: 204, body: undefined };
    }
    if (method === 'GET') return { body: found };
    const next = { ...found, ...withoutSecret(body), version: Number(found['version']) + 1 };
    this.subscriptions[place] = next;
    return { body: next };
  }
}

function withoutSecret(body: JsonObject): JsonObject {
  return without(body, ['secret', 'changeReason', 'graceSeconds']);
}

function without(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

export function subscription(id: string, more: JsonObject = {}): JsonObject {
  return {
    id,
    name: `site-${id}`,
    url: 'https://mes.example/hook',
    consumer: 'local',
    scopes: ['PUBLIC'],
    dictionaries: null,
    actions: null,
    categories: null,
    active: true,
    createdAt: at,
    updatedAt: at,
    version: 1,
    blocked: '',
    ...more,
  };
}

export function attempt(number: number, more: JsonObject = {}): JsonObject {
  return {
    attempt: number,
    at,
    elapsedMs: 12,
    statusCode: 503,
    cause: 'http',
    message: 'mes.example answered 503',
    responseBody: 'busy',
    ...more,
  };
}

export function delivery(deliveryId: string, more: JsonObject = {}): JsonObject {
  return {
    deliveryId,
    subscription: '1',
    subscriptionName: 'site-1',
    state: 'pending',
    occurredAt: at,
    events: 1,
    attempts: 0,
    nextAttemptInSeconds: 0,
    endedAt: null,
    lastAttempt: null,
    body: '{"deliveryId":"x","events":[]}',
    attemptList: [],
    ...more,
  };
}
