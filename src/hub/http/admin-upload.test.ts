// Runs alone: measures the memory of its process.
/** Uploads for the helper over HTTP, with a helper that is as slow, or as unwilling, as the test says. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_UPLOAD_BYTES, READY_LINE } from '../../admin/verbs.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { WORK_DIR } from '../../shared/base/work-state.ts';
import { startTestServer, type TestServer } from './server.fixture.ts';

const BUNDLE = '/api/v1/admin/update/bundle';
const MIB = 1_024 * 1_024;
const found = {
  version: '1.3.0',
  board: 'raspberry-pi-arm64',
  builtAt: '2026-03-01T09:30:00+00:00',
  slot: 'b',
  sha256: '0'.repeat(64),
};
const done = (answer: unknown): string => `${JSON.stringify({ done: answer })}\n`;

/** `take`: with the helper's end of each connection, once the request has come. */
async function startAt(t: TestContext, take: (socket: Socket, asked: object) => unknown, http: object = {}) {
  const path = join(temporaryDirectory(t), 'admin.sock');
  const helper = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (line) => {
      socket.pause();
      take(socket, JSON.parse(line.toString()) as object);
    });
  }).listen(path);
  t.after(() => helper.close());
  return { ...(await startTestServer(t, { http: { admin_socket: path, ...http } })), path };
}

/** An upload that the test writes itself. */
function uploading({ port, tokens }: Pick<TestServer, 'port' | 'tokens'>, bytes: number) {
  const headers = {
    authorization: `Bearer ${tokens['admin']}`,
    'content-type': 'application/octet-stream',
    'content-length': bytes,
  };
  const sent = request({ host: '127.0.0.1', port, method: 'PUT', path: BUNDLE, headers });
  sent.on('error', () => undefined);
  sent.flushHeaders();
  const answer = once(sent, 'response').then(async ([response]) => {
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    return {
      status: response.statusCode as number,
      json: JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>,
    };
  });
  answer.catch(() => undefined);
  return { sent, answer };
}

test('an upload goes to a slow helper at its pace, whole, and hardly any of it is in memory', async (t) => {
  const hash = createHash('sha256');
  let helper: Socket | undefined;
  const server = await startAt(t, (socket) => {
    socket.write(READY_LINE);
    helper = socket;
  });
  const bytes = 64 * MIB;
  const piece = Buffer.alloc(MIB, 'a piece of the bundle ');
  const before = process.memoryUsage();
  const { sent, answer } = uploading(server, bytes);
  let written = 0;
  const writing = (async () => {
    while (written < bytes) {
      written += piece.length;
      if (!sent.write(piece)) await once(sent, 'drain');
    }
    sent.end();
  })();
  await until('the helper', () => helper !== undefined);
  // Nothing is read by the helper: the sender stalls as soon as the buffers of the kernel are full.
  let stalledAt = -1;
  while (stalledAt !== written) {
    stalledAt = written;
    await delay(500);
  }
  const after = process.memoryUsage();
  assert.ok(stalledAt < 16 * MIB, `${stalledAt} bytes were taken from the sender`);
  assert.ok(
    after.arrayBuffers - before.arrayBuffers < 8 * MIB,
    `${after.arrayBuffers - before.arrayBuffers} bytes are held`,
  );
  let came = 0;
  helper?.on('data', (one) => {
    hash.update(one);
    came += one.length;
    if (came === bytes) helper?.end(done(found));
  });
  helper?.resume();
  await writing;
  const { status, json } = await answer;
  assert.deepEqual([status, json, came], [200, found, bytes]);
  const whole = createHash('sha256');
  for (let at = 0; at < bytes; at += piece.length) whole.update(piece);
  assert.equal(hash.digest('hex'), whole.digest('hex'));
});

test('an upload that the helper refuses on the way is answered with its reason; one that it does not take is not asked for', async (t) => {
  const refusal = { code: 'STORAGE_FULL', message: 'the box has no room for the file', hint: '', reasons: [] };
  let isReady = true;
  const server = await startAt(t, (socket) => {
    if (isReady) socket.write(READY_LINE);
    else socket.end(`${JSON.stringify({ error: refusal })}\n`);
    socket.once('data', () => socket.end(`${JSON.stringify({ error: refusal })}\n`)).resume();
  });
  for (const ready of [true, false]) {
    isReady = ready;
    const headers = { 'content-type': 'application/octet-stream' };
    const answer = await server.call('PUT', BUNDLE, {
      token: server.tokens['admin'],
      body: Buffer.alloc(20_000_000),
      headers,
    });
    assert.deepEqual([answer.status, answer.json['detail']], [507, refusal.message]);
  }
});

test('an upload may take longer than any other request, and the connection is usable afterwards', async (t) => {
  const server = await startAt(
    t,
    (socket) => {
      socket.write(READY_LINE);
      let came = 0;
      socket.on('data', (piece) => (came += piece.length) === 40 && socket.end(done(found)));
      socket.resume();
    },
    { request_timeout_ms: 1_000 },
  );
  const { sent, answer } = uploading(server, 40);
  for (let at = 0; at < 40; at += 10) {
    sent.write(Buffer.alloc(10));
    await delay(900);
  }
  sent.end();
  assert.equal((await answer).status, 200);
});

test('if the client disconnects, the helper is left alone, and removes what it has', async (t) => {
  let isGone = false;
  let came = 0;
  const server = await startAt(t, (socket) => {
    socket.write(READY_LINE);
    socket.on('data', (piece) => (came += piece.length)).once('close', () => (isGone = true));
    socket.resume();
  });
  const { sent } = uploading(server, 1_000);
  sent.write(Buffer.alloc(100));
  await until('some of it', () => came === 100);
  sent.destroy();
  await until('the helper to be left', () => isGone);
});

test('an upload of no announced length, too large, or of another type does not reach the helper', async (t) => {
  let asked = 0;
  const server = await startAt(t, () => (asked += 1));
  const octets = { 'content-type': 'application/octet-stream' };
  const put = async (headers: Record<string, string>, token = 'admin') => {
    const body = headers['content-length'] === undefined ? Buffer.from('x') : Buffer.alloc(0);
    return (await server.call('PUT', BUNDLE, { token: server.tokens[token], body, headers })).status;
  };
  assert.equal(await put({ ...octets, 'transfer-encoding': 'chunked' }), 422);
  assert.equal(await put({ 'content-type': 'application/json' }), 415);
  assert.equal(await put(octets, 'operator'), 403);
  const { answer } = uploading(server, MAX_UPLOAD_BYTES + 1);
  assert.equal((await answer).status, 413);
  assert.equal(asked, 0);
});

test('how far a unit is can be read while it works, and its outcome afterwards', async (t) => {
  const { path, call, tokens } = await startAt(t, () => undefined);
  const work = async () => (await call('GET', '/api/v1/admin/work', { token: tokens['admin'] })).json;
  assert.deepEqual(await work(), { update: null, restore: null });
  const update = {
    state: 'running',
    step: 'writing the root',
    percent: 40,
    begunAt: '2026-03-01T09:30:00+00:00',
    result: '',
    error: '',
    hint: '',
  };
  mkdirSync(join(dirname(path), WORK_DIR));
  writeFileSync(join(dirname(path), WORK_DIR, 'update.json'), JSON.stringify(update));
  assert.deepEqual(await work(), { update, restore: null });
});
