import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { JsonObject } from '../outbox/event.ts';
import { at, startTestServer } from './server.fixture.ts';

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async (t) => {
    const { call } = await startTestServer(t);
    const { json } = await call('GET', '/openapi.json');
    const { valid, errors } = await new Validator().validate({ ...json });
    assert.ok(valid, JSON.stringify(errors));
    assert.equal(json.openapi, '3.1.0');
  });

  it('has every route that is served, with its role, its problems and the token it wants, and no other', async (t) => {
    const { call } = await startTestServer(t);
    const document = (await call('GET', '/openapi.json')).json as JsonObject;
    const found: string[] = [];
    const ids = new Set<unknown>();
    for (const [path, methods] of Object.entries(at(document, 'paths'))) {
      for (const [method, operation] of Object.entries(at({ methods }, 'methods'))) {
        const route = `${method.toUpperCase()} ${path.replaceAll(/\{([a-z]+)\}/g, ':$1')}`;
        found.push(route);
        const described = at({ operation }, 'operation');
        ids.add(described.operationId);
        const isOpen = described['x-role'] === undefined;
        assert.deepEqual(described.security, isOpen ? [] : undefined, route);
        const statuses = Object.keys(at(described, 'responses'));
        for (const status of isOpen ? ['500', '503'] : ['401', '403', '500', '503'])
          assert.ok(statuses.includes(status), `${route} ${status}`);
        assert.ok(typeof described.summary === 'string' && described.summary !== '', route);
      }
    }
    assert.equal(ids.size, found.length);
    assert.deepEqual(document.security, [{ bearer: [] }]);
    assert.equal(at(document, 'components', 'securitySchemes', 'bearer').scheme, 'bearer');
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

  it('describes each header by one schema, and answers without a body as such', async (t) => {
    const { call } = await startTestServer(t);
    const paths = at((await call('GET', '/openapi.json')).json as JsonObject, 'paths');
    const bodiless: string[] = [];
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods as object)) {
        for (const [status, response] of Object.entries(at(operation as JsonObject, 'responses'))) {
          const { headers = {}, ...rest } = response as { readonly headers?: JsonObject };
          for (const [name, header] of Object.entries(headers)) {
            const schema = at(header as JsonObject, 'schema');
            const { description } = header as JsonObject;
            const where = `${method} ${path} ${name}`;
            assert.deepEqual([schema.type, 'schema' in schema, typeof description], ['string', false, 'string'], where);
          }
          if (!('content' in rest)) bodiless.push(`${status} ${method} ${path}`);
        }
      }
    }
    const subscription = '/api/v1/admin/webhooks/subscriptions/{id}';
    assert.deepEqual(bodiless.sort(), [
      `204 delete ${subscription}`,
      '204 post /api/v1/admin/outbox/dead-letters/{id}/discard',
      '204 post /api/v1/admin/outbox/dead-letters/{id}/requeue',
      '302 get /',
      '302 get /console',
      '304 get /api/v1/admin/webhooks/subscriptions/{id}',
      '304 get /api/v1/dictionaries/{name}',
      '304 get /api/v1/dictionaries/{name}/records/{key}',
      '304 get /console/',
      '304 get /console/{file}',
    ]);
    for (const path of ['/', '/console'])
      assert.ok('Location' in at(paths, path, 'get', 'responses', '302', 'headers'));
  });

  it('says where it is served, and what each of its tags is about', async (t) => {
    const { call } = await startTestServer(t);
    const document = (await call('GET', '/openapi.json')).json as JsonObject;
    const [server, ...others] = document.servers as readonly JsonObject[];
    assert.deepEqual([server?.url, others], ['/', []]);
    const operations = Object.values(at(document, 'paths')).flatMap((methods) => Object.values(methods as object));
    const used = new Set((operations as readonly { readonly tags: readonly string[] }[]).flatMap(({ tags }) => tags));
    const tags = document.tags as readonly { readonly name: string; readonly description: string }[];
    assert.deepEqual(
      tags.map(({ name }) => name),
      [...used],
    );
    assert.ok(tags.every(({ description }) => description !== ''));
  });

  it('tells names, keys, versions and cursors apart from what is none', async (t) => {
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

  it('names what is answered once, and refers to it', async (t) => {
    const { call } = await startTestServer(t);
    const { text, json } = await call('GET', '/openapi.json');
    const schemas = Object.keys(at(json as JsonObject, 'components', 'schemas'));
    for (const name of ['Problem', 'Record', 'Dictionary', 'Draft', 'OutboxStatus'])
      assert.ok(schemas.includes(name), name);
    for (const [, name = ''] of text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g))
      assert.ok(schemas.includes(name), name);
    assert.match(text, /"examples?":/);
    assert.equal((await call('GET', '/openapi.json')).text, text);
  });
});
