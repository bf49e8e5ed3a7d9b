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
