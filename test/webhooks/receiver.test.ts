/** The example receiver does what its documentation says. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { before, beforeEach, describe, it } from 'node:test';
import { connect as connectTls } from 'node:tls';
import Database from 'better-sqlite3';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { RECEIVER, ReceiverPlace, type RunningReceiver } from './receiver.ts';

const SECRET = 'the secret of the example: größer';
const place = new ReceiverPlace(SECRET);
const ca = readFileSync(place.caFile);
let running: RunningReceiver;
let count = 0;

before(async () => {
  running = await place.start();
});
/** Records of a test's own: the receiver and what it knows stay. */
let pumps = '';
beforeEach(() => {
  count += 1;
  pumps = `pumps-${count}`;
});

type Headers = Readonly<Record<string, string>>;

function sign(body: string | Buffer, secret = SECRET): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

function change(businessKey: string, version: number, more: object = {}): object {
  const at = '2026-03-01T09:30:00+00:00';
  const head = { schemaVersion: '1.0.0', eventType: 'dictionary.changed', dictionary: pumps, businessKey };
  return { ...head, action: version === 1 ? 'created' : 'updated', version, validFrom: at, data: { version }, ...more };
}

function delivery(...events: readonly object[]): { id: string; body: string } {
  count += 1;
  const id = `${count}-a`;
  const occurredAt = '2026-03-01T09:30:00+00:00';
  return { id, body: JSON.stringify({ deliveryId: id, subscriptionName: 'mes', occurredAt, events }) };
}

/** The status. */
async function post(body: string | Buffer, headers: Headers = {}, agent = new Agent()): Promise<number> {
  const given = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers };
  const sent = request({ host: '127.0.0.1', port: running.port, method: 'POST', path: '/', ca, agent, headers: given });
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
  sent.end(body);
  const [response] = await within('an answer', answered);
  await text(response);
  return response.statusCode ?? 0;
}

function postSigned(body: string): Promise<number> {
  return post(body, { 'x-service-signature': sign(body) });
}

function done(id: string): Promise<true> {
  return until(`${id} is processed`, () => place.deliveries().some((one) => one.id === id && one.done === 1));
}

/** Key: version. */
function versions(): Record<string, number> {
  const own = place.records().filter(({ dictionary }) => dictionary === pumps);
  return Object.fromEntries(own.map(({ key, version }) => [key, version]));
}

/** Whether it is stored. */
function isStored(id: string): boolean {
  return place.deliveries().some((one) => one.id === id);
}

/** What comes back to these bytes over TLS, until it closes. */
async function raw(bytes: string): Promise<string> {
  const socket = connectTls({ host: '127.0.0.1', port: running.port, ca, servername: 'localhost' });
  await once(socket, 'secureConnect');
  socket.end(bytes);
  return within('the end of the connection', text(socket));
}

function head(headers: Headers): string {
  const lines = Object.entries({ host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST / HTTP/1.1\r\n${lines.join('')}\r\n`;
}

describe('the example receiver', () => {
  it('takes what is signed, and processes every event of it', async () => {
    const made = delivery(change('P-1', 1), change('P-2', 7, { action: 'closed', data: { name: 'Straße' } }));
    assert.equal(await postSigned(made.body), 202);
    await done(made.id);
    assert.deepEqual(versions(), { 'P-1': 1, 'P-2': 7 });
    const closed = place.records().find(({ dictionary, key }) => dictionary === pumps && key === 'P-2');
    assert.deepEqual([closed?.action, JSON.parse(closed?.data ?? '')], ['closed', { name: 'Straße' }]);
  });

  it('takes what the old secret signed, within the grace', async () => {
    const made = delivery(change('P-1', 1));
    const headers = { 'x-service-signature': sign(made.body, 'the new one, not here yet') };
    assert.equal(await post(made.body, headers), 403);
    assert.equal(await post(made.body, { ...headers, 'x-service-signature-previous': sign(made.body) }), 202);
    await done(made.id);
  });

  it('answers 202 to a repeated delivery, and processes it once', async () => {
    const made = delivery(change('P-1', 1));
    for (let n = 0; n < 3; n += 1) assert.equal(await postSigned(made.body), 202);
    await done(made.id);
    // Processed again, it would be at version 1 again.
    const base = new Database(place.database);
    base.prepare('UPDATE record SET version = 0 WHERE dictionary = ?').run(pumps);
    base.close();
    assert.equal(await postSigned(made.body), 202);
    const next = delivery(change('P-2', 1));
    await postSigned(next.body);
    await done(next.id);
    assert.deepEqual(versions(), { 'P-1': 0, 'P-2': 1 });
    assert.equal(place.deliveries().filter(({ id }) => id === made.id).length, 1);
  });

  it('ends with the newest version, in whatever order they come', async () => {
    for (const version of [2, 5, 3, 1, 4]) {
      const made = delivery(change('P-1', version));
      await postSigned(made.body);
      await done(made.id);
    }
    const all = delivery(change('P-2', 1), change('P-2', 2), change('P-2', 3));
    await postSigned(all.body);
    await done(all.id);
    assert.deepEqual(versions(), { 'P-1': 5, 'P-2': 3 });
  });

  it('takes what is no change of a record', async () => {
    const definition = { schemaVersion: '1.0.0', eventType: 'DefinitionCreated', category: 'dict.definition.*' };
    const ping = { schemaVersion: '1.0.0', eventType: 'test.ping', data: {} };
    const made = delivery({ ...definition, dictionary: pumps, data: {} }, ping, change('P-1', 1));
    assert.equal(await postSigned(made.body), 202);
    await done(made.id);
    assert.deepEqual(versions(), { 'P-1': 1 });
  });

  it('answers 403 to what is badly signed, whatever it is, and stores nothing of it', async () => {
    const made = delivery(change('P-1', 1));
    const bad: readonly Headers[] = [
      {},
      { 'x-service-signature': '' },
      { 'x-service-signature': sign(made.body, 'another secret of it') },
      { 'x-service-signature': sign(made.body.replace('"version":1', '"version":2')) },
      { 'x-service-signature': sign(made.body).replace('sha256=', '') },
      { 'x-service-signature': sign(made.body).toUpperCase() },
      { 'x-service-signature': `${sign(made.body)}0` },
      { 'x-service-signature': 'sha256=\xe9' },
      { 'x-service-signature-previous': sign(made.body, 'another secret of it') },
    ];
    for (const headers of bad) assert.equal(await post(made.body, headers), 403, JSON.stringify(headers));
    // Nothing is parsed before the signature is verified.
    for (const body of ['', '{', 'null', Buffer.from([0xff, 0x00])]) assert.equal(await post(body), 403);
    assert.equal(isStored(made.id), false);
    assert.equal(await postSigned(made.body), 202);
  });

  it('answers 403 to a body that lacks its end, and nothing to one that was interrupted in transit', async () => {
    const { id, body } = delivery(change('P-1', 1));
    assert.equal(await post(body.slice(0, -1), { 'x-service-signature': sign(body) }), 403);
    const headers = { 'content-length': String(body.length), 'x-service-signature': sign(body) };
    assert.equal(await raw(head(headers) + body.slice(0, -1)), '');
    assert.equal(isStored(id), false);
    assert.match(await raw(head({ ...headers, connection: 'close' }) + body), /^HTTP\/1\.1 202 /);
  });

  it('reads no body that is too large, or of which it does not know how large it is', async () => {
    const large = { 'content-length': String(2 * 1024 * 1024 + 1), 'x-service-signature': sign('') };
    assert.match(await raw(head(large)), /^HTTP\/1\.1 413 /);
    assert.match(await raw(head({ 'transfer-encoding': 'chunked' })), /^HTTP\/1\.1 411 /);
    assert.match(await raw(head({ 'content-length': '\xb2' })), /^HTTP\/1\.1 411 /);
    const most = delivery(change('P-1', 1, { data: { text: 'x'.repeat(1024 * 1024) } }));
    assert.equal(await postSigned(most.body), 202);
    await done(most.id);
  });

  it('is not delayed by clients that connect and send nothing', async () => {
    const silent = connect(running.port, '127.0.0.1');
    await once(silent, 'connect');
    const half = connectTls({ host: '127.0.0.1', port: running.port, ca, servername: 'localhost' });
    await once(half, 'secureConnect');
    half.write('POST / HTTP/1.1\r\nContent-Length: 10\r\n');
    const made = delivery(change('P-1', 1));
    assert.equal(await postSigned(made.body), 202);
    await done(made.id);
    silent.destroy();
    half.destroy();
  });

  it('answers several deliveries on one connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    let sockets = 0;
    const create = agent.createConnection.bind(agent);
    agent.createConnection = (...args) => {
      sockets += 1;
      return create(...args);
    };
    for (let n = 0; n < 3; n += 1) {
      const { body } = delivery(change('P-1', n + 1));
      assert.equal(await post(body, { 'x-service-signature': sign(body) }, agent), 202);
    }
    agent.destroy();
    assert.equal(sockets, 1);
  });

  it('answers 503 while it cannot store, so that the delivery comes again', async () => {
    // The receiver ends if its own work cannot write for so long.
    await until('the earlier deliveries are processed', () => place.deliveries().every((one) => one.done === 1));
    const { id, body } = delivery(change('P-1', 1));
    const base = new Database(place.database);
    base.exec('BEGIN IMMEDIATE');
    const status = await postSigned(body);
    base.exec('ROLLBACK');
    base.close();
    assert.deepEqual([status, isStored(id)], [503, false]);
    assert.equal(await postSigned(body), 202);
    await done(id);
  });

  it('has stored what it answered 202, through a kill, and resumes it when it is started again', async () => {
    const base = new Database(place.database);
    // What it does with an event fails: it is killed before the work is done.
    base.exec("CREATE TRIGGER broken BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'broken'); END");
    const made = delivery(change('P-1', 1));
    assert.equal(await postSigned(made.body), 202);
    const complaint = await running.kill();
    assert.deepEqual(
      place.deliveries().filter(({ id }) => id === made.id),
      [{ id: made.id, done: 0 }],
    );
    base.exec('DROP TRIGGER broken');
    base.close();
    running = await place.start();
    await done(made.id);
    assert.deepEqual(versions(), { 'P-1': 1 });
    assert.ok(!complaint.includes(SECRET));
  });
});

describe('the text of the example', () => {
  it('needs nothing but the standard library', () => {
    const modules = [...readFileSync(RECEIVER, 'utf8').matchAll(/^(?:import (.+)|from ([\w.]+) import .+)$/gm)];
    const names = modules.flatMap(([, plain, from]) => (plain ?? from ?? '').split(', '));
    const standard = ['hashlib', 'hmac', 'json', 'sqlite3', 'ssl', 'sys', 'threading', 'contextlib', 'http.server'];
    assert.deepEqual(new Set(names), new Set(standard));
  });
});
