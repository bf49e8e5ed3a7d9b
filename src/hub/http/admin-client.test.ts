/** Administration over HTTP with a helper whose answers the test writes. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { type Answer, startTestServer } from './server.fixture.ts';

async function startAt(t: TestContext, says: (request: Readonly<Record<string, unknown>>) => string | Buffer) {
  const path = join(temporaryDirectory(t), 'admin.sock');
  const asked: Readonly<Record<string, unknown>>[] = [];
  const helper = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (line) => {
      const request = JSON.parse(line.toString()) as Readonly<Record<string, unknown>>;
      asked.push(request);
      socket.end(says(request));
    });
  }).listen(path);
  t.after(() => helper.close());
  return { ...(await startTestServer(t, { http: { admin_socket: path } })), asked };
}

const tokens = '/api/v1/admin/tokens';
const entry = { name: 'ops', roles: ['operator'] };

test('a verb goes to the helper with the token of the caller, and its answer comes back', async (t) => {
  const answers: Readonly<Record<string, unknown>> = {
    'tokens.list': [{ ...entry, createdAt: '2026-03-01T09:30:00.000Z' }],
    'tokens.add': { ...entry, token: 'lsd_x' },
    audit: { items: [], next: 17 },
  };
  const {
    call,
    tokens: given,
    asked,
    socketPath,
  } = await startAt(t, ({ verb }) => {
    return `${JSON.stringify({ done: answers[String(verb)] ?? null })}\n`;
  });
  const admin = { token: given.admin };
  const listed = await call('GET', tokens, admin);
  assert.deepEqual(listed.json, { items: answers['tokens.list'], nextCursor: null });
  const added = await call('POST', tokens, { ...admin, json: entry });
  assert.deepEqual([added.status, added.json], [201, answers['tokens.add']]);
  assert.equal((await call('DELETE', `${tokens}/ops`, admin)).status, 204);
  assert.equal((await call('POST', '/api/v1/admin/restart', admin)).status, 204);
  const { json: page } = await call('GET', '/api/v1/admin/actions?limit=5', admin);
  await call('GET', `/api/v1/admin/actions?limit=5&reads=true&cursor=${String(page.nextCursor)}`, admin);
  assert.deepEqual(
    asked,
    [
      ['tokens.list', {}],
      ['tokens.add', entry],
      ['tokens.revoke', { name: 'ops' }],
      ['restart', {}],
      ['audit', { limit: 5, reads: false }],
      ['audit', { limit: 5, reads: true, before: 17 }],
    ].map(([verb, args]) => ({ verb, token: given.admin, args })),
  );
  for (const json of [{ name: 'A' }, { ...entry, roles: [] }, { ...entry, roles: ['root'] }, { ...entry, path: '/' }])
    assert.equal((await call('POST', tokens, { ...admin, json })).status, 422, JSON.stringify(json));
  assert.equal((await call('GET', tokens, { token: given.operator })).status, 403);
  // A local user has no token that the helper could check.
  assert.equal((await call('GET', tokens, { socketPath })).status, 401);
  assert.equal(asked.length, 6);
});

test('a text of the configuration goes to the helper as it is, and no answer quotes it', async (t) => {
  const file = '/etc/lineside/lineside.toml';
  const hash = 'b'.repeat(64);
  const read = { file, text: '', hash, hidden: 0, hasPrevious: false };
  const lists = { faults: [], warnings: [], live: ['log.commit_ms'], hub: [], restart: [], unused: [] };
  const done = { file, hash, isChanged: true, ...lists, isReloaded: true };
  const {
    call,
    tokens: given,
    asked,
  } = await startAt(t, ({ verb }) => {
    return `${JSON.stringify({ done: verb === 'configuration.read' ? read : done })}\n`;
  });
  const path = '/api/v1/admin/configuration';
  const json = { hash: 'a'.repeat(64), text: '[log]\n# ü\n' };
  const admin = { token: given.admin };
  assert.deepEqual((await call('GET', path, admin)).json, read);
  assert.deepEqual((await call('POST', `${path}/check`, { ...admin, json })).json, done);
  assert.deepEqual((await call('PUT', path, { ...admin, json })).json, done);
  assert.deepEqual((await call('POST', `${path}/undo`, { ...admin, json: { hash: json.hash } })).json, done);
  assert.deepEqual(
    asked.map(({ verb, args }) => [verb, args]),
    [
      ['configuration.read', {}],
      ['configuration.check', json],
      ['configuration.change', json],
      ['configuration.undo', { hash: json.hash }],
    ],
  );
  for (const broken of [
    { ...json, hash: 'hunter2' },
    { ...json, file: 'hunter2' },
    { ...json, text: 'hunter2'.repeat(10_000) },
  ]) {
    const { status, text } = await call('PUT', path, { ...admin, json: broken });
    assert.deepEqual([status, text.includes('hunter2')], [422, false], text);
  }
  for (const method of ['GET', 'PUT'] as const)
    assert.equal((await call(method, path, { token: given.operator, ...(method === 'PUT' && { json }) })).status, 403);
  assert.equal(asked.length, 4);
});

test('what the helper refuses is answered by its code; no answer, and one that is cut short, are failures', async (t) => {
  let says: string | Buffer = '';
  const { call, tokens: given } = await startAt(t, () => says);
  const ask = (path: string): Promise<Answer> => call('GET', path, { token: given.admin });
  const refusal = { code: 'CONFLICT', message: 'another command is running', hint: 'wait', reasons: [] };
  says = `${JSON.stringify({ error: refusal })}\n`;
  const { status, json } = await ask(tokens);
  assert.deepEqual([status, json.detail, json.hint], [409, refusal.message, refusal.hint]);
  for (const broken of ['', 'x\n', '{"error":{"code":"toString","message":"x","hint":""}}\n']) {
    says = broken;
    assert.ok([500, 503].includes((await ask(tokens)).status), broken);
  }
  const bundle = '/api/v1/admin/support-bundle';
  says = '{"done":null,"bytes":5}\nabcde';
  assert.equal((await ask(bundle)).text, 'abcde');
  says = '{"done":null,"bytes":5}\nabcd';
  await assert.rejects(ask(bundle));
});

test('without a helper the answer says which commands do it', async (t) => {
  const { call, tokens: given } = await startTestServer(t, { http: { admin_socket: '/nonexistent/admin.sock' } });
  const { status, json } = await call('GET', tokens, { token: given.admin });
  assert.equal(status, 501);
  assert.match(String(json.hint), /sudo lineside token/);
});
