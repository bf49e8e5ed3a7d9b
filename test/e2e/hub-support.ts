/** Shared by the hub's tests: requests that must succeed, the outbox as an operator sees it, the topics as a consumer does. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { OutboxStatus } from '../../src/shared/gen/http.ts';
import { type TestBroker, TOPIC_PREFIX, users } from '../kafka/broker.ts';
import type { Toml } from './daemon.ts';
import type { Hub } from './hub.ts';
import { type Answer, type Body, HubApi, recordPath } from './hub-api.ts';
import { type ReaderSettings, readTopics, type TopicMessage } from './outbox-reader.ts';

export const SCOPES = ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const;
/** A broker that is back, or a password that is corrected, is found within librdkafka's reconnection interval. */
export const DELIVERED_MS = 60_000;

const apis = new WeakMap<Hub, HubApi>();

/** As the local user, who may do everything; the same for each call, as the hub bounds its connections. */
export function apiOf(hub: Hub): HubApi {
  const api = apis.get(hub) ?? new HubApi(`unix:${hub.socket}`);
  apis.set(hub, api);
  return api;
}

/** Topics of their own for a test on a shared broker; the device may make them all. */
export function prefixOf(name: string): string {
  return `${TOPIC_PREFIX}.${name}`;
}

export function topicsOf(prefix: string): Record<string, string> {
  return Object.fromEntries(SCOPES.map((scope) => [`${prefix}.${scope.toLowerCase()}`, scope]));
}

/** The device's own facts are other tests' matter. */
export function plainKafka(broker: TestBroker, prefix: string, more: Toml = {}): Toml {
  const kafka = { bootstrap: broker.plain, security_protocol: 'plaintext', topic_prefix: prefix };
  return { device: { inventory: false }, kafka: { ...kafka, ...more } };
}

/** SCRAM-SHA-512 over TLS, as a device does it. */
export function saslKafka(broker: TestBroker, dir: string, prefix: string, more: Toml = {}): Toml {
  const kafka = {
    bootstrap: broker.sasl,
    security_protocol: 'sasl_ssl',
    username: users.device.name,
    password_file: passwordFile(dir, users.device.password),
    ca_file: broker.caFile,
    topic_prefix: prefix,
  };
  return { device: { inventory: false }, kafka: { ...kafka, ...more } };
}

export function passwordFile(dir: string, password: string): string {
  const file = join(dir, 'kafka.password');
  writeFileSync(file, `${password}\n`, { mode: 0o600 });
  return file;
}

/** The answer, which must be of this status. */
export async function expect(status: number, answer: Promise<Answer>): Promise<Body> {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.body ?? {};
}

/** The problem, which must be one as RFC 9457 has it. */
export async function refused(status: number, code: string, answer: Promise<Answer>): Promise<Body> {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  assert.match(String(got.headers['content-type']), /^application\/problem\+json/);
  assert.equal(got.body?.status, status);
  assert.equal(got.body?.code, code, got.text);
  return got.body ?? {};
}

export function dictionary(api: HubApi, name: string, scope = 'PUBLIC', more: object = {}): Promise<Body> {
  return expect(201, api.post('/api/v1/dictionaries', { name, title: `Wörter: ${name}`, scope, ...more }));
}

export function create(api: HubApi, of: string, businessKey: string, data: object, more: object = {}): Promise<Body> {
  return expect(201, api.post(`/api/v1/dictionaries/${of}/records`, { businessKey, data, ...more }));
}

export function update(api: HubApi, of: string, key: string, ifMatch: number, data: object): Promise<Body> {
  return expect(200, api.send('PUT', recordPath(of, key), { body: { data }, ifMatch }));
}

export function close(api: HubApi, of: string, key: string, ifMatch: number): Promise<Body> {
  return expect(200, api.post(`${recordPath(of, key)}/close`, {}, { ifMatch }));
}

/** A bundle of NDJSON. */
export function sendBundle(api: HubApi, items: readonly object[], changeReason = ''): Promise<Answer> {
  const body = items.map((item) => `${JSON.stringify(item)}\n`).join('');
  return api.send('POST', '/api/v1/imports', { body, contentType: 'application/x-ndjson', changeReason });
}

/** `count` records of one dictionary, as items of a bundle. */
export function items(of: string, count: number, round: number): object[] {
  return Array.from({ length: count }, (_, i) => ({ dictionary: of, businessKey: `key ${i}`, data: { round, i } }));
}

export async function outbox(api: HubApi): Promise<OutboxStatus> {
  return (await expect(200, api.get('/api/v1/admin/outbox'))) as unknown as OutboxStatus;
}

/** Everything that waits is acknowledged. */
export async function drained(api: HubApi, limitMs = DELIVERED_MS): Promise<OutboxStatus> {
  let last: OutboxStatus | undefined;
  try {
    return await until(
      'everything is published',
      async () => {
        last = await outbox(api);
        return last.waiting === 0 && last;
      },
      limitMs,
    );
  } catch (error) {
    throw new Error(JSON.stringify(last), { cause: error });
  }
}

export async function alerts(api: HubApi): Promise<string[]> {
  const { items: found = [] } = await expect(200, api.get('/api/v1/alerts'));
  return found.map(({ name }) => String(name));
}

export async function auditOf(api: HubApi, action: string): Promise<readonly Body[]> {
  return (await expect(200, api.get(`/api/v1/admin/audit?action=${action}&limit=1000`))).items ?? [];
}

/** All there is on the topics of a prefix; whatever is not as the specification wants it fails the test. */
export async function consumed(
  broker: TestBroker,
  prefix: string,
  more: Partial<ReaderSettings> = {},
): Promise<readonly TopicMessage[]> {
  const security = { 'security.protocol': 'plaintext' };
  const settings = { bootstrap: broker.plain, security, topics: topicsOf(prefix), ...more };
  const { messages, faults } = await readTopics(settings);
  assert.deepEqual(faults, []);
  return messages;
}

/** First occurrences, as "key version". */
export function firsts(messages: readonly TopicMessage[]): string[] {
  return [...new Set(messages.map(({ key, event }) => `${key} ${event.version}`))];
}
