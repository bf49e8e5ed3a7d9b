import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { JsonObject } from '../../outbox/event.ts';
import { at, startTestServer } from '../server.fixture.ts';

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async (t) => {
    const { call } = await startTestServer(t);
    const { json } = await call('GET', '/openapi.json');
    const { valid, errors } = await new Validator().validate({ ...json });
    assert.ok(valid, JSON.stringify(errors));
    assert.equal(json.openapi, '3.1.0');
    assert.deepEqual(
      (json.servers as readonly JsonObject[]).map(({ url }) => url),
      ['/'],
    );
  });

  it('has every route that is served, with its role, its problems and the token it wants, and no other', async (t) => {
    const { call } = await startTestServer(t);
    const document = (await call('GET', '/openapi.json')).json as JsonObject;
    const found: string[] = [];
    const ids = new Set<unknown>();
    const tags = new Set<unknown>();
    for (const [path, methods] of Object.entries(at(document, 'paths'))) {
      for (const [method, operation] of Object.entries(at({ methods }, 'methods'))) {
        const route = `${method.toUpperCase()} ${path.replaceAll(/\{([a-z]+)\}/g, ':$1')}`;
        found.push(route);
        const described = at({ operation }, 'operation');
        ids.add(described.operationId);
        for (const tag of described.tags as readonly string[]) tags.add(tag);
        const isOpen = described['x-role'] === undefined;
        assert.deepEqual(described.security, isOpen ? [] : undefined, route);
        const statuses = Object.keys(at(described, 'responses'));
        for (const status of isOpen ? ['500', '503'] : ['401', '403', '500', '503'])
          assert.ok(statuses.includes(status), `${route} ${status}`);
        assert.ok(typeof described.summary === 'string' && described.summary !== '', route);
      }
    }
    assert.equal(ids.size, found.length);
    assert.deepEqual(
      (document.tags as readonly JsonObject[]).map(({ name }) => name),
      [...tags],
    );
    assert.deepEqual(document.security, [{ bearer: [] }]);
    assert.equal(at(document, 'components', 'securitySchemes', 'bearer').scheme, 'bearer');
  });

  it('has the redirections to the console, with their address', async (t) => {
    const { call } = await startTestServer(t);
    const paths = at((await call('GET', '/openapi.json')).json as JsonObject, 'paths');
    for (const path of ['/', '/console']) {
      const { status, headers } = await call('GET', path);
      const responses = at(paths, path, 'get', 'responses');
      assert.deepEqual(
        Object.keys(responses).filter((one) => !/^[45]/.test(one)),
        [String(status)],
      );
      assert.deepEqual([status, headers['location']], [302, '/console/']);
      assert.equal(at(responses, '302', 'headers', 'Location', 'schema').type, 'string');
    }
  });

  it('says which bodies and headers may be left out', async (t) => {
    const { call } = await startTestServer(t);
    const paths = at((await call('GET', '/openapi.json')).json as JsonObject, 'paths');
    const one = '/api/v1/dictionaries/{name}';
    const bodies = [
      [`${one}/drafts/{id}/withdraw`, 'post', false],
      [`${one}/records/{key}/close`, 'post', false],
      [`${one}/records`, 'post', true],
      ['/api/v1/imports', 'post', true],
      [one, 'patch', true],
    ] as const;
    for (const [path, method, needed] of bodies)
      assert.equal(at(paths, path, method, 'requestBody').required, needed, path);
    const versions = [
      [`${one}/records/{key}`, 'put', true],
      [`${one}/records/{key}/close`, 'post', true],
      [one, 'patch', undefined],
    ] as const;
    for (const [path, method, needed] of versions) {
      const parameters = at(paths, path, method).parameters as readonly JsonObject[];
      const header = parameters.find(({ name }) => name === 'If-Match');
      assert.equal(header?.required === true, needed === true, path);
    }
  });

  it('has patterns that only names, keys, versions and cursors match', async (t) => {
    const { call } = await startTestServer(t);
    const paths = at((await call('GET', '/openapi.json')).json as JsonObject, 'paths');
    const records = '/api/v1/dictionaries/{name}/records';
    const parameter = (path: string, method: string, name: string): JsonObject => {
      const all = at(paths, path, method).parameters as readonly JsonObject[];
      return at(all.find((one) => one.name === name) ?? {}, 'schema');
    };
    const body = (path: string, field: string): JsonObject =>
      at(paths, path, 'post', 'requestBody', 'content', 'application/json', 'schema', 'properties', field);
    const rows: readonly (readonly [JsonObject, readonly string[], readonly string[]])[] = [
      [parameter(records, 'get', 'name'), ['site.rooms', '0_-'], ['', 'A', '.a', 'x'.repeat(129)]],
      [body('/api/v1/dictionaries', 'name'), ['site.rooms'], ['Site', 'a b']],
      [body(records, 'businessKey'), ['room 12', 'ключ'], ['a\n', '\u0085']],
      [parameter(records, 'get', 'cursor'), ['', 'WyJyIiwieCJd_-'], ['a b', 'ж']],
      [
        parameter(`${records}/{key}`, 'put', 'If-Match'),
        ['*', '"3"', 'W/"3"', '"1", "2",W/"x"'],
        ['3', '', '"3', '"1" "2"', '*, "1"'],
      ],
      [parameter(`${records}/{key}`, 'get', 'If-None-Match'), ['*', 'W/"3"'], ['3']],
    ];
    for (const [schema, good, bad] of rows) {
      assert.ok(typeof schema.pattern === 'string');
      const pattern = new RegExp(schema.pattern, 'u');
      for (const text of good) assert.match(text, pattern);
      for (const text of bad) assert.doesNotMatch(text, pattern);
    }
    const scopes = body('/api/v1/admin/webhooks/subscriptions', 'scopes');
    assert.equal(scopes.minItems, 1);
  });
});
