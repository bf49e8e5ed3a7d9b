import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { describe, it } from 'node:test';
import { type ErrorCode, errorCatalogue, LinesideError } from '../../shared/base/errors.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { problemOf, titles } from './problem.ts';
import { at, startTestServer } from './server.fixture.ts';

const codes = Object.keys(errorCatalogue) as ErrorCode[];

describe('problems', () => {
  it('are answered for every code that a route may end with, under the catalogue’s status', async (t) => {
    // The fixture's client checks status, type, Retry-After and WWW-Authenticate of every problem.
    const { ask, outbox } = await startTestServer(t);
    const documented = at(
      JSON.parse((await ask('GET', '/openapi.json')).text),
      'paths',
      '/api/v1/admin/outbox',
      'get',
      'responses',
    );
    for (const code of codes.filter((code) => String(errorCatalogue[code].http) in documented)) {
      outbox.failure = new LinesideError(code, 'words', { reasons: ['one', 'two'], hint: 'do this' });
      const { status, json } = await ask('GET', '/api/v1/admin/outbox');
      assert.equal(status, errorCatalogue[code].http);
      assert.equal(json.code, code);
      assert.deepEqual(json.reasons, ['one', 'two']);
      assert.equal(json.hint, 'do this');
    }
  });

  it('have a title for each code of the catalogue, and no other', () => {
    assert.deepEqual(Object.keys(titles).sort(), [...codes].sort());
    for (const code of codes) {
      const problem = problemOf(new LinesideError(code, 'words'), 'r1');
      assert.equal(problem.status, errorCatalogue[code].http);
      assert.ok(problem.status >= 400 && problem.status < 600);
      assert.equal('hint' in problem || 'reasons' in problem, false);
    }
  });

  it('disclose nothing of unforeseen failures, neither to the caller nor in the log', async (t) => {
    const { logger, lines } = recordingLogger();
    const { ask, outbox } = await startTestServer(t, { logger });
    for (const failure of [
      new Error('key-of-a-customer'),
      new LinesideError('INTERNAL', 'key-of-a-customer'),
      'key-of-a-customer',
    ]) {
      outbox.failure = failure;
      const { status, text } = await ask('GET', '/api/v1/alerts', undefined, { 'x-request-id': 'mine-1' });
      assert.equal(status, 500);
      assert.doesNotMatch(text, /customer|stack/);
      assert.match(text, /urn:lineside:request:mine-1/);
    }
    assert.equal(lines.length, 3);
    assert.match(lines[0] ?? '', /request=mine-1 /);
    assert.match(lines[0] ?? '', /problem\.test/);
    for (const line of lines) assert.doesNotMatch(line, /customer/);
  });

  it('name the existing paths and methods if one is unknown, and OPTIONS does no harm', async (t) => {
    const { call, ask } = await startTestServer(t);
    for (const path of [
      '/nowhere',
      '/api',
      '/api/v1',
      '/api/v1/dictionaries/',
      '/api/v2/dictionaries',
      '/healthz/',
      '/openapi_json',
      '//healthz',
      '/api/v1/dictionaries/a/b',
    ]) {
      assert.equal((await ask('GET', path)).status, 404, path);
    }
    const wrong = await call('DELETE', '/api/v1/dictionaries/a?x=1');
    assert.equal(wrong.status, 405);
    assert.equal(wrong.headers.allow, 'GET, HEAD, PATCH, OPTIONS');
    for (const [path, allow] of [
      ['/api/v1/dictionaries/a', 'GET, HEAD, PATCH, OPTIONS'],
      ['/api/v1/dictionaries/a/records/b%2Fc', 'GET, HEAD, PUT, OPTIONS'],
      ['/api/v1/imports', 'POST, OPTIONS'],
    ] as const) {
      const { status, headers, text } = await call('OPTIONS', path);
      assert.deepEqual([status, headers.allow, text], [204, allow, ''], path);
    }
    const options = await call('OPTIONS', '/api/v1/dictionaries/a');
    assert.equal(
      Object.keys(options.headers).some((name) => name.startsWith('access-control')),
      false,
    );
    assert.equal((await call('OPTIONS', '/nothing')).status, 404);
    for (const method of ['TRACE', 'PROPFIND', 'SEARCH'])
      assert.ok([404, 405].includes((await call(method, '/healthz')).status), method);
  });

  it('have no body where HEAD was asked, which else goes as GET', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const one = await call('HEAD', '/api/v1/dictionaries/x', { token: tokens.reader });
    assert.deepEqual([one.status, one.text, one.headers['content-type']], [404, '', 'application/problem+json']);
    assert.equal((await call('HEAD', '/api/v1/dictionaries')).status, 401);
    assert.equal((await call('HEAD', '/api/v1/admin/outbox', { token: tokens.reader })).status, 403);
    assert.deepEqual([(await call('HEAD', '/healthz')).status, (await call('HEAD', '/healthz')).text], [200, '']);
  });

  it('carry the id of the request, the caller’s own where it is fit to be logged', async (t) => {
    const { call } = await startTestServer(t);
    const own = await call('GET', '/nothing', { headers: { 'x-request-id': 'a.b-1' } });
    assert.equal(own.headers['x-request-id'], 'a.b-1');
    assert.equal(own.json.instance, 'urn:lineside:request:a.b-1');
    for (const unfit of ['', 'a b', 'a"b', 'x'.repeat(129), 'ä']) {
      const made = await call('GET', '/healthz', { headers: { 'x-request-id': unfit } });
      assert.match(String(made.headers['x-request-id']), /^[0-9a-f-]{36}$/, unfit);
    }
  });
});

describe('the service', () => {
  it('says that it lives, and whether it works', async (t) => {
    let trouble: LinesideError | undefined;
    const { call } = await startTestServer(t, { parts: { trouble: () => trouble } });
    const ok = { status: 'ok', version: '0.1.0', name: hostname(), deviceId: 'lineside-0123456789ab' };
    assert.deepEqual((await call('GET', '/healthz')).json, ok);
    assert.equal((await call('GET', '/readyz')).status, 200);
    trouble = new LinesideError('STORAGE_DAMAGED', 'refdata.db is damaged', { hint: 'restore it' });
    const not = await call('GET', '/readyz');
    assert.deepEqual([not.status, not.json.code, not.json.detail], [503, 'NOT_READY', 'refdata.db is damaged']);
    assert.deepEqual(not.json.reasons, ['STORAGE_DAMAGED: refdata.db is damaged']);
    assert.equal((await call('GET', '/healthz')).status, 200);
  });
});
