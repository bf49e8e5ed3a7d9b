import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { revokeToken } from '../../shared/auth/token-file.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import type { JsonObject } from '../outbox/event.ts';
import { routesOf, startTestServer } from './server.fixture.ts';

/** The accesses that each token of the fixture opens. */
const owners = {
  reader: ['any role', 'reader', 'reader or viewer'],
  writer: ['any role', 'reader', 'reader or viewer', 'writer'],
  admin: ['any role', 'reader', 'reader or viewer', 'writer', 'admin', 'viewer'],
  viewer: ['any role', 'reader or viewer', 'viewer'],
  operator: ['any role', 'reader or viewer', 'viewer', 'operator'],
  internal: ['any role', 'reader', 'reader or viewer', 'writer'],
} as const;

describe('access', () => {
  it('to every route is for tokens with its role only', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const routes = routesOf((await call('GET', '/openapi.json')).json as JsonObject);
    assert.ok(routes.length > 50);
    for (const { method, path, access } of routes) {
      for (const [owner, has] of Object.entries(owners)) {
        const { status } = await call(method, path, { token: tokens[owner] });
        const may = access === 'open' || (has as readonly string[]).includes(access);
        assert.equal(status === 401 || status === 403, !may, `${owner} ${method} ${path}: ${status}`);
      }
      const wrong = ['', 'lsd_nobody', tokens.reader?.slice(0, -1)];
      for (const token of [undefined, ...wrong]) {
        const { status } = await call(method, path, { token });
        assert.equal(status === 401, access !== 'open', `${token} ${method} ${path}: ${status}`);
      }
    }
  });

  it('is judged by a well-formed Authorization header only', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const ask = async (authorization: string): Promise<number> =>
      (await call('GET', '/api/v1/dictionaries', { headers: { authorization } })).status;
    assert.equal(await ask(`bearer ${tokens.reader}`), 200);
    for (const header of [
      `Basic ${tokens.reader}`,
      `Bearer ${tokens.reader} x`,
      tokens.reader ?? '',
      `Bearer${tokens.reader}`,
      `Bearer ${tokens.reader}, Bearer x`,
    ]) {
      assert.equal(await ask(header), 401, header);
    }
  });

  it('ends when the token is revoked', async (t) => {
    const clock = new FakeClock();
    const { call, tokens, dir } = await startTestServer(t, { parts: { clock } });
    assert.equal((await call('GET', '/api/v1/dictionaries', { token: tokens.reader })).status, 200);
    revokeToken(join(dir, 'tokens.json'), 'reader');
    clock.advance(1_000);
    assert.equal((await call('GET', '/api/v1/dictionaries', { token: tokens.reader })).status, 401);
  });

  it('through the Unix socket is for every process that can open it, as "local", in every scope', async (t) => {
    const { call, socketPath } = await startTestServer(t);
    const json = { name: 'secret', title: 'S', scope: 'RESTRICTED' };
    const made = await call('POST', '/api/v1/dictionaries', { socketPath, json });
    assert.equal(made.status, 201);
    assert.equal(made.json.changedBy, 'local');
    assert.equal((await call('GET', '/api/v1/admin/outbox', { socketPath, token: 'lsd_nobody' })).status, 200);
  });

  it('is refused before the body is read', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const nonsense = { body: '{', headers: { 'content-encoding': 'gzip' } };
    assert.equal((await call('POST', '/api/v1/dictionaries', nonsense)).status, 401);
    assert.equal((await call('POST', '/api/v1/dictionaries', { ...nonsense, token: tokens.reader })).status, 403);
  });

  it('that was refused is logged at a bounded pace, without tokens or keys', async (t) => {
    const { logger, lines } = recordingLogger();
    const clock = new FakeClock();
    const { call, tokens } = await startTestServer(t, { logger, parts: { clock } });
    const path = '/api/v1/dictionaries/d/records/very-secret-key';
    for (let i = 0; i < 20; i += 1) await call('GET', path, { token: 'lsd_wrong-token' });
    await call('PUT', path, { token: tokens.reader });
    assert.equal(lines.length, 1);
    clock.advance(60_000);
    assert.equal(lines.length, 2);
    assert.match(lines[1] ?? '', /refusals=20\b/);
    assert.match(lines[1] ?? '', /PUT \/api\/v1\/dictionaries\/:name\/records\/:key/);
    for (const line of lines) assert.doesNotMatch(line, /very-secret-key|wrong-token|lsd_/);
  });
});
