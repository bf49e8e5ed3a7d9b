import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { codePoint } from '../../shared/base/text.fixture.ts';
import { parseQuery, queryFault } from './app.ts';
import { startTestServer, type TestServer } from './server.fixture.ts';

const dictionary = { name: 'd', title: 'D', scope: 'PUBLIC' };
const records = '/api/v1/dictionaries/d/records';

describe('bad input', () => {
  it('of a body is reported with every reason at once, each naming its field', async (t) => {
    const { ask } = await startTestServer(t);
    const { status, json } = await ask('POST', '/api/v1/dictionaries?dry=1', {
      name: 7,
      title: '',
      scope: 'SECRET',
      schema: [],
      colour: 'red',
      changeReason: 'x'.repeat(1_001),
    });
    assert.equal(status, 422);
    assert.deepEqual(
      [...(json.reasons as string[])].sort(),
      [
        'changeReason must have at most 1000 characters, not a string of 1001 characters',
        'name must be a string, not 7',
        'schema must be an object or null, not a list of 0',
        'scope must be one of PUBLIC, INTERNAL, RESTRICTED, not "SECRET"',
        'the body has no field "colour"; it may have: name, title, scope, schema, changeReason',
        'the query has no parameter "dry"; it may have: ',
        'title must not be empty, not ""',
      ].sort(),
    );
    const empty = await ask('POST', '/api/v1/dictionaries');
    assert.deepEqual(empty.json.reasons, ['name is missing', 'title is missing', 'scope is missing']);
    for (const whole of [[], 'x', 7, true]) {
      const answer = await ask('POST', '/api/v1/dictionaries', whole);
      assert.match(String(answer.json.detail), /^the body must be an object, not/);
    }
    const list = await ask('POST', '/api/v1/dictionaries/d/bulk-close', { businessKeys: ['a', 3, ''] });
    assert.deepEqual(list.json.reasons, [
      'businessKeys[1] must be a string, not 3',
      'businessKeys[2] must not be empty, not ""',
    ]);
    const many = await ask('POST', '/api/v1/dictionaries/d/bulk-close', {
      businessKeys: Array.from({ length: 5_000 }, () => 1),
    });
    assert.equal((many.json.reasons as string[]).length, 1_001);
  });

  it('of limits is reported together with the faults that the reference data find', async (t) => {
    const { ask } = await startTestServer(t);
    const schema = { properties: { n: { type: 'integer' } } };
    assert.equal((await ask('POST', '/api/v1/dictionaries', { ...dictionary, schema })).status, 201);
    const long = 'x'.repeat(1_001);
    const nonsense = { type: 'nonsense' };
    const bulk = '/api/v1/dictionaries/d/bulk-close';
    const rows: readonly (readonly [method: string, path: string, body: object, faults: readonly string[]])[] = [
      [
        'POST',
        records,
        { businessKey: '', data: { n: 'a' }, validFrom: 'soon', changeReason: long },
        ['/businessKey', '/validFrom', '/changeReason', '/data/n'],
      ],
      [
        'POST',
        '/api/v1/dictionaries',
        { name: 'D!', title: '', scope: 'SECRET', schema: nonsense, changeReason: long },
        ['/name', '/title', '/scope', '/schema/type', '/changeReason'],
      ],
      [
        'PATCH',
        '/api/v1/dictionaries/d',
        { title: '', scope: 'SECRET', changeReason: long },
        ['/title', '/scope', '/changeReason'],
      ],
      [
        'POST',
        '/api/v1/dictionaries/d/drafts',
        { schema: nonsense, changeReason: long },
        ['/schema/type', '/changeReason'],
      ],
      [
        'POST',
        bulk,
        { businessKeys: ['a', 'a', '', 'x'.repeat(257)] },
        ['/businessKeys/0', '/businessKeys/1', '/businessKeys/2', '/businessKeys/3'],
      ],
    ];
    for (const [method, path, body, faults] of rows) {
      const { status, json } = await ask(method, path, body);
      const fields = (json.reasons as string[]).map((reason) => reason.split(' ', 1).join());
      assert.deepEqual([status, fields.sort()], [422, faults.toSorted()], `${method} ${path}`);
    }
    for (const businessKeys of [[], Array.from({ length: 10_001 }, (_, i) => `k${i}`)])
      assert.equal((await ask('POST', bulk, { businessKeys, changeReason: long })).status, 422);
  });

  it('of thousands of fields or items is counted, not listed', async (t) => {
    const { ask } = await startTestServer(t);
    const items = Array.from({ length: 250_000 }, () => 'a');
    const list = 'the body has a list of 250000 items; no request has so many';
    for (const [path, body, reason] of [
      [
        '/api/v1/dictionaries',
        Object.fromEntries(items.slice(0, 10_000).map((_, i) => [`k${i}`, 1])),
        'the body has 10000 fields; no request has more than a handful',
      ],
      ['/api/v1/dictionaries/d/bulk-close', { businessKeys: items }, list],
      ['/api/v1/admin/webhooks/subscriptions', { scopes: items }, list],
    ] as const) {
      const { status, json } = await ask('POST', path, body);
      assert.deepEqual([status, json.reasons], [422, [reason]]);
    }
  });

  it('of a query is reported, too', async (t) => {
    const { ask } = await startTestServer(t);
    for (const [query, reason] of [
      ['limit=0', 'limit must be a whole number from 1 to 1000, not 0'],
      ['limit=1001', 'limit must be a whole number from 1 to 1000, not 1001'],
      ['limit=1.5', 'limit must be a whole number, not "1.5"'],
      ['limit=', 'limit must be a whole number, not ""'],
      ['limit=0x10', 'limit must be a whole number, not "0x10"'],
      ['Limit=10', 'the query has no parameter "Limit"; it may have: limit, cursor'],
      ['__proto__=1', 'the query has no parameter "__proto__"; it may have: limit, cursor'],
    ]) {
      const { status, json } = await ask('GET', `/api/v1/dictionaries?${query}`);
      assert.deepEqual([status, json.reasons], [422, [reason]], query);
    }
    for (const query of [
      'limit=1&limit=2',
      'cursor=%zz',
      'cursor=%ff',
      'limit=%',
      Array.from({ length: 40 }, (_, i) => `p${i}=1`).join('&'),
    ]) {
      assert.equal((await ask('GET', `/api/v1/dictionaries?${query}`)).status, 400, query);
    }
    assert.ok([400, 431].includes((await ask('GET', `/api/v1/dictionaries?${'&a='.repeat(10_000)}`)).status));
    assert.equal((await ask('GET', '/api/v1/dictionaries?cursor=nonsense')).status >= 400, true);
    assert.equal((await ask('GET', '/api/v1/dictionaries?')).status, 200);
  });

  it('of null is no object, also where the body may be left out', async (t) => {
    const { ask, call, tokens } = await startTestServer(t);
    await ask('POST', '/api/v1/dictionaries', { name: 'd', title: 'D', scope: 'PUBLIC' });
    await ask('POST', '/api/v1/dictionaries/d/records', { businessKey: 'k', data: {} });
    const close = '/api/v1/dictionaries/d/records/k/close';
    const refused = await ask('POST', close, null, { 'if-match': '*' });
    assert.deepEqual([refused.status, refused.json.reasons], [422, ['the body must be an object, not null']]);
    const closed = await call('POST', close, { token: tokens.all, headers: { 'if-match': '*' } });
    assert.equal(closed.status, 200);
  });

  it('that a probe or a reader brings along without need does no harm', async (t) => {
    const { call, ask } = await startTestServer(t, { http: { max_body_bytes: 1_024 } });
    for (const path of ['/healthz?now=1', '/readyz?x=%zz', '/metrics?name[]=a&name[]=b', '/openapi.json?']) {
      assert.equal((await call('GET', path)).status, 200, path);
    }
    const body = { text: 'x'.repeat(5_000) };
    assert.equal((await ask('GET', '/api/v1/dictionaries', body, { 'content-encoding': 'gzip' })).status, 200);
    assert.equal((await ask('GET', '/api/v1/dictionaries')).status, 200);
  });

  it('that is no JSON, or none that can be kept exactly, is malformed and says where', async (t) => {
    const { call, tokens, ask } = await startTestServer(t);
    await ask('POST', '/api/v1/dictionaries', dictionary);
    const send = (body: string | Buffer) => call('POST', records, { token: tokens.all, body });
    for (const [body, detail] of [
      ['{', /not JSON/],
      ['{"businessKey":"a","data":{"n":9007199254740993}}', /^\/data\/n in the body the number 9007199254740993/],
      ['{"businessKey":"a","businessKey":"b","data":{}}', /twice/],
      ['{"businessKey":"a","data":{"__proto__":{}}}', /not allowed/],
      [`{"businessKey":"a","data":{"x":${'['.repeat(100)}${']'.repeat(100)}}}`, /nested/],
      ['['.repeat(500_000), /not JSON/],
      [Buffer.from('{"businessKey":"\xff","data":{}}', 'latin1'), /not UTF-8/],
      ['{"businessKey":"\\ud800","data":{}}', /surrogate/],
    ] as const) {
      const { status, json } = await send(body);
      assert.equal(status, 400, String(body).slice(0, 80));
      assert.match(String(json.detail), detail);
    }
    assert.equal((await send('\ufeff{"businessKey":"a","data":{"n":9007199254740992,"x":1e22}}')).status, 201);
  });

  it('of another type, packed, or too large is refused, and the connection stays open', async (t) => {
    const { call, tokens, ask } = await startTestServer(t, { http: { max_body_bytes: 4_096 } });
    await ask('POST', '/api/v1/dictionaries', dictionary);
    const json = { businessKey: 'a', data: {} };
    for (const type of [
      'text/plain',
      'application/xml',
      'multipart/form-data; boundary=x',
      'application/json; charset=utf-16',
      'nonsense',
      '',
      'application/x-ndjson',
    ]) {
      const { status } = await call('POST', records, { token: tokens.all, json, headers: { 'content-type': type } });
      assert.equal(status, 415, type);
    }
    const packed = { token: tokens.all, body: gzipSync(JSON.stringify(json)), headers: { 'content-encoding': 'gzip' } };
    assert.equal((await call('POST', records, packed)).status, 415);
    assert.equal((await call('POST', '/api/v1/imports', packed)).status, 415);
    const large = { businessKey: 'a', data: { text: 'x'.repeat(100_000) } };
    const refused = await ask('POST', records, large);
    assert.equal(refused.status, 413);
    assert.equal((await ask('POST', records, large, { 'transfer-encoding': 'chunked' })).status, 413);
    for (const type of ['application/json; charset=UTF-8', 'Application/JSON']) {
      assert.equal(
        (await ask('POST', records, { ...json, businessKey: type }, { 'content-type': type })).status,
        201,
        type,
      );
    }
  });

  it('meets a limit of all bodies at one time', async (t) => {
    const { call, tokens } = await startTestServer(t, {
      http: { max_body_bytes: 16_777_216 },
      refdata: (real) => ({ ...real, createDictionary: () => new Promise(() => {}) }),
    });
    const title = 'x'.repeat(200);
    const body = JSON.stringify({ ...dictionary, title }).padEnd(15_000_000);
    const first = call('POST', '/api/v1/dictionaries', { token: tokens.all, body }).catch(() => 'cut');
    for (;;) {
      const second = await Promise.race([
        call('POST', '/api/v1/dictionaries/d/drafts', { token: tokens.all, body }),
        first,
      ]);
      if (typeof second !== 'string' && second.status === 429) break;
    }
  });
});

describe('business keys in paths', () => {
  const made = async ({ ask }: TestServer, businessKey: string): Promise<void> => {
    const created = await ask('POST', records, { businessKey, data: { key: businessKey } });
    assert.equal(created.status, 201, JSON.stringify(businessKey));
    const path = created.headers.location ?? '';
    for (const read of [path, `${path}/history`]) assert.equal((await ask('GET', read)).status, 200, read);
    assert.deepEqual((await ask('GET', path)).json.data, { key: businessKey });
    assert.equal((await ask('PUT', path, { data: {} }, { 'if-match': '"1"' })).json.businessKey, businessKey);
    assert.equal((await ask('POST', `${path}/close`, {}, { 'if-match': '"2"' })).json.businessKey, businessKey);
  };

  it('are whatever is percent-encoded there', async (t) => {
    const server = await startTestServer(t);
    await server.ask('POST', '/api/v1/dictionaries', dictionary);
    const keys = [
      'a/b',
      '..',
      '.',
      '../../admin',
      '%',
      '%2F',
      '%252F',
      '100%',
      '%zz',
      'a?b#c',
      'a b+c',
      '😀',
      'ä/ö',
      ';&=:@$,',
      '\\',
      '\'"<>',
      'history',
      'close',
      '__proto__',
      'constructor',
      '*',
      ':key',
      '\u2028',
      'e\u0301',
    ];
    for (const key of [...keys, '😀'.repeat(256), '/'.repeat(256)]) await made(server, key);
  });

  it('that are none are refused in words', async (t) => {
    const { ask } = await startTestServer(t);
    await ask('POST', '/api/v1/dictionaries', dictionary);
    for (const path of ['%', '%zz', '%ff', '%c0%80', '%ed%a0%80', '%2'])
      assert.equal((await ask('GET', `${records}/${path}`)).status, 400, path);
    for (const path of ['%00', 'a%0Ab', '%7F'])
      assert.ok([404, 422].includes((await ask('GET', `${records}/${path}`)).status), path);
    for (const businessKey of ['a\u0000', '\n', 'x'.repeat(257), '']) {
      assert.equal((await ask('POST', records, { businessKey, data: {} })).status, 422, JSON.stringify(businessKey));
    }
    assert.ok([404, 422].includes((await ask('GET', `${records}/${encodeURIComponent('😀'.repeat(300))}`)).status));
    assert.equal((await ask('GET', `${records}/`)).status >= 400, true);
  });
});

describe('query strings', () => {
  it('give back what was encoded', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ unit: codePoint, minLength: 1 }).filter((s) => s.isWellFormed()),
          fc.string({ unit: codePoint }).filter((s) => s.isWellFormed()),
          { maxKeys: 10 },
        ),
        (parameters) => {
          const text = Object.entries(parameters)
            .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
            .join('&');
          assert.deepEqual(Object.entries(parseQuery(text)), Object.entries(parameters));
        },
      ),
    );
    assert.equal(parseQuery('at=2026-03-01T09:30:00+00:00').at, '2026-03-01T09:30:00+00:00');
    assert.equal(parseQuery('a').a, '');
    assert.match(parseQuery('a=1&a=2')[queryFault] ?? '', /twice/);
  });
});
