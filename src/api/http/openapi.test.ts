import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { JsonObject } from '../../outbox/event.ts';
import { routeAccess } from './access.ts';
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
        const access = (routeAccess as Readonly<Record<string, string>>)[route];
        assert.equal(described['x-role'], access === 'open' ? undefined : access, route);
        assert.deepEqual(described.security, access === 'open' ? [] : undefined, route);
        const statuses = Object.keys(at(described, 'responses'));
        for (const status of access === 'open' ? ['500', '503'] : ['401', '403', '500', '503'])
          assert.ok(statuses.includes(status), `${route} ${status}`);
        assert.ok(typeof described.summary === 'string' && described.summary !== '', route);
      }
    }
    assert.deepEqual(found.sort(), Object.keys(routeAccess).sort());
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
