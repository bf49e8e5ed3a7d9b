import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { startTestServer, type TestServer } from '../server.fixture.ts';
import { attempt } from '../webhooks.fixture.ts';

const long = 'x'.repeat(1_001);

const hooks = '/api/v1/admin/webhooks';
const all = `${hooks}/subscriptions`;
const secret = 'correct horse battery';
const wanted = { name: 'ERP', url: 'https://erp.example.com/in', secret };

async function subscribed(t: Parameters<typeof startTestServer>[0]): Promise<TestServer> {
  const server = await startTestServer(t);
  assert.equal((await server.ask('POST', all, wanted)).status, 201);
  server.webhooks.steps = [];
  return server;
}

describe('subscriptions over HTTP', () => {
  it('are made with all their fields and answered whole, without the secret', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    const filters = { scopes: ['PUBLIC'], dictionaries: ['a'], actions: ['closed'], categories: ['dict.record.*'] };
    const json = { ...wanted, ...filters, consumer: 'erp', active: false, changeReason: 'new' };
    const made = await ask('POST', all, json);
    assert.equal(made.status, 201);
    assert.deepEqual([made.headers.location, made.headers.etag], [`${all}/1`, '"1"']);
    assert.deepEqual([made.json.consumer, made.json.active, 'secret' in made.json], ['erp', false, false]);
    const { changeReason: _, ...request } = json;
    assert.deepEqual(webhooks.steps, [['subscribe', 'all', { ...request, secret: secret.length }, 'new']]);
    assert.deepEqual((await ask('GET', `${all}/1`)).json, made.json);
    assert.equal((await ask('GET', `${all}/1`)).headers.etag, '"1"');
  });

  it('have the caller as consumer, null filters, and the reason of the header', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    const nulls = { scopes: null, dictionaries: null, actions: null, categories: null };
    const made = await ask('POST', all, { ...wanted, ...nulls }, { 'x-change-reason': 'by header' });
    assert.deepEqual([made.status, made.json.consumer], [201, 'all']);
    assert.deepEqual(webhooks.steps, [
      ['subscribe', 'all', { ...wanted, ...nulls, secret: secret.length }, 'by header'],
    ]);
  });

  it('are changed, under a version where one is named', async (t) => {
    const { ask, webhooks } = await subscribed(t);
    const changed = await ask('PATCH', `${all}/1`, { active: false, dictionaries: [], changeReason: 'pause' });
    assert.deepEqual([changed.status, changed.json.active, changed.headers.etag], [200, false, '"2"']);
    assert.equal((await ask('PATCH', `${all}/1`, { name: 'X' }, { 'if-match': '"1"' })).status, 412);
    assert.equal((await ask('PATCH', `${all}/1`, { name: 'X' }, { 'if-match': '"2"' })).status, 200);
    assert.equal((await ask('PATCH', `${all}/1`, { name: 'X' }, { 'if-match': '2' })).status, 400);
    assert.deepEqual(webhooks.steps, [
      ['update', 'all', '1', { active: false, dictionaries: [] }, undefined, 'pause'],
      ['update', 'all', '1', { name: 'X' }, [1], ''],
      ['update', 'all', '1', { name: 'X' }, [2], ''],
    ]);
    const refused = await ask('PATCH', `${all}/1`, { secret, consumer: 'me' });
    const may = 'it may have: name, url, scopes, dictionaries, actions, categories, active, changeReason';
    assert.deepEqual(
      [refused.status, refused.json.reasons],
      [422, [`the body has no field "secret"; ${may}`, `the body has no field "consumer"; ${may}`]],
    );
  });

  it('end, with the reason of the header', async (t) => {
    const { ask, webhooks } = await subscribed(t);
    assert.equal((await ask('DELETE', `${all}/1`, undefined, { 'if-match': '"7"' })).status, 412);
    assert.equal((await ask('DELETE', `${all}/1`, undefined, { 'if-match': '7' })).status, 400);
    webhooks.steps.length = 0;
    const ended = await ask('DELETE', `${all}/1`, undefined, { 'x-change-reason': 'moved' });
    assert.deepEqual([ended.status, ended.text], [204, '']);
    assert.deepEqual(webhooks.steps, [['unsubscribe', 'all', '1', 'moved', undefined]]);
    assert.equal((await ask('DELETE', `${all}/1`)).status, 404);
    assert.equal((await ask('DELETE', `${all}/1`, undefined, { 'x-change-reason': 'x'.repeat(1_001) })).status, 422);
  });

  it('get another secret, which no answer shows', async (t) => {
    const { ask, webhooks } = await subscribed(t);
    const one = `${all}/1/rotate-secret`;
    const rotated = await ask('POST', one, { secret, graceSeconds: 0, changeReason: 'leak' });
    assert.deepEqual([rotated.status, rotated.headers.etag], [200, '"2"']);
    assert.ok(!rotated.text.includes(secret));
    assert.deepEqual(webhooks.steps, [
      ['rotateSecret', 'all', '1', { secret: secret.length, graceSeconds: 0 }, 'leak', undefined],
    ]);
    assert.equal((await ask('POST', one, { secret }, { 'if-match': '"1"' })).status, 412);
    assert.equal((await ask('POST', one, { secret }, { 'if-match': '"2"' })).status, 200);
    assert.deepEqual((await ask('POST', one)).json.reasons, ['secret is missing']);
    const both = await ask('POST', one, { secret: 'short', graceSeconds: -1 });
    assert.deepEqual(both.json.reasons, [
      '/secret must have 16 to 1024 bytes in UTF-8',
      '/graceSeconds must be a whole number from 0 to 2592000',
    ]);
  });

  it('that are not there are 404, whatever is asked of them', async (t) => {
    const { ask } = await startTestServer(t);
    for (const id of ['1', 'x', '-1', '%2F', '__proto__', '9'.repeat(400)]) {
      const one = `${all}/${id}`;
      assert.equal((await ask('GET', one)).status, 404);
      assert.equal((await ask('PATCH', one, {})).status, 404);
      assert.equal((await ask('DELETE', one)).status, 404);
      assert.equal((await ask('POST', `${one}/rotate-secret`, { secret })).status, 404);
      assert.equal((await ask('POST', `${one}/resend`)).status, 404);
    }
  });
});

describe('faults of a subscription', () => {
  const reasonsOf = async ({ ask }: TestServer, json: unknown): Promise<unknown> => {
    const { status, json: problem } = await ask('POST', all, json);
    assert.equal(status, 422);
    return problem.reasons;
  };

  it('of missing fields are reported together with the faults of the others', async (t) => {
    const server = await startTestServer(t);
    assert.deepEqual(await reasonsOf(server, { url: 'https://10.0.0.1/' }), [
      'name is missing',
      'secret is missing',
      '/url: 10.0.0.0/8 is not public',
    ]);
    for (const nothing of [{}, undefined])
      assert.deepEqual(await reasonsOf(server, nothing), ['name is missing', 'url is missing', 'secret is missing']);
    assert.deepEqual((await server.ask('GET', all)).json.items, []);
    for (const said of [
      'url: it cannot be parsed',
      'the URL cannot be parsed',
      '/url cannot be parsed',
      'url is none',
    ]) {
      const reasons = [said, 'the consumer has no such scope'];
      server.webhooks.failure = new LinesideError('INVALID_ARGUMENT', '2 faults', { reasons });
      assert.deepEqual(await reasonsOf(server, { name: 'ERP', secret }), ['url is missing', reasons[1]], said);
    }
  });

  it('of shape are reported without asking the room, each by its field', async (t) => {
    const server = await startTestServer(t);
    const json = { name: 7, secret: [1], scopes: 'PUBLIC', dictionaries: ['a', 1], active: 'yes', colour: 'red' };
    assert.deepEqual(
      ((await reasonsOf(server, json)) as string[]).sort(),
      [
        'active must be true or false',
        'dictionaries[1] must be a string',
        'name must be a string',
        'scopes must be a list or null',
        'secret must be a string',
        'the body has no field "colour"; it may have: name, url, secret, consumer, scopes, dictionaries, actions, categories, active, changeReason',
        'url is missing',
      ].sort(),
    );
    assert.deepEqual(server.webhooks.steps, []);
  });

  it('other than of the request end it as they are, also where fields are missing', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    for (const [code, status, retryAfter] of [
      ['CONFLICT', 409, undefined],
      ['STORAGE_FULL', 507, '60'],
      ['TOO_MANY', 429, '1'],
    ] as const) {
      for (const json of [wanted, {}]) {
        webhooks.failure = new LinesideError(code, 'no room');
        const { status: got, json: problem, headers } = await ask('POST', all, json);
        assert.deepEqual([got, problem.code, problem.detail], [status, code, 'no room']);
        assert.equal(headers['retry-after'], retryAfter);
      }
    }
  });
});

describe('a secret', () => {
  it('is never shown of a body that cannot be read', async (t) => {
    const { call, tokens, ask, webhooks } = await subscribed(t);
    const token = tokens.all;
    const mark = 'hunter2';
    const routes = [
      ['POST', all],
      ['PATCH', `${all}/1`],
      ['POST', `${all}/1/rotate-secret`],
      ['POST', `${hooks}/test-ping`],
    ] as const;
    for (const [method, path] of routes) {
      const broken = [
        `{"secret":"${mark}"x}`,
        `{"secret":${mark}}`,
        `{"secret":"${mark}`,
        `{"secret":"${mark}\n"}`,
        `{"secret":"${mark}\\q"}`,
        mark,
        `{"secret":"${mark}","secret":"${mark}"}`,
        `{"secret":"${mark}\\ud800"}`,
      ];
      for (const body of broken) {
        const { status, json, text } = await call(method, path, { token, body });
        assert.equal(status, 400, body);
        assert.match(String(json.detail), /^the body is not JSON( at position \d+)?$|^\/secret in the body /);
        assert.doesNotMatch(text, /hunter/, body);
      }
      const number = await call(method, path, { token, body: '{"secret":90071992547409931234}' });
      assert.match(String(number.json.detail), /^\/secret in the body the number cannot be kept exactly/);
      assert.doesNotMatch(number.text, /90071/);
    }
    webhooks.failure = new Error(`room fell over ${mark}`);
    assert.doesNotMatch((await ask('POST', all, { ...wanted, secret: mark })).text, /hunter/);
  });

  it('is never logged', async (t) => {
    const { logger, lines } = recordingLogger();
    const { ask, call, webhooks } = await startTestServer(t, { logger });
    await ask('POST', all, { ...wanted, name: 7 });
    await call('POST', all, { token: 'lsd_nobody', json: wanted });
    webhooks.failure = new Error(`fell over ${secret}`);
    assert.equal((await ask('POST', all, wanted)).status, 500);
    assert.ok(lines.length >= 2, 'a refusal and a fault are logged');
    for (const text of lines) assert.ok(!text.includes(secret), text);
  });

  it('of other routes is no matter: their faults are quoted as ever', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const { json } = await call('POST', '/api/v1/dictionaries', { token: tokens.all, body: '{"name":oops}' });
    assert.match(String(json.detail), /oops/);
  });
});

describe('deliveries over HTTP', () => {
  it('are listed by pages, by state and subscription', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    const first = await ask('GET', `${hooks}/deliveries?limit=2&state=rejected&subscription=1&statusCode=503`);
    assert.deepEqual(first.json, { items: webhooks.sent.slice(0, 2), nextCursor: '2' });
    const rest = await ask('GET', `${hooks}/deliveries?limit=2&cursor=2`);
    assert.deepEqual(rest.json, { items: webhooks.sent.slice(2), nextCursor: null });
    assert.deepEqual(webhooks.steps, [
      ['deliveries', 'all', { limit: 2, cursor: undefined, state: 'rejected', subscription: '1', statusCode: 503 }],
      [
        'deliveries',
        'all',
        { limit: 2, cursor: '2', state: undefined, subscription: undefined, statusCode: undefined },
      ],
    ]);
    assert.deepEqual((await ask('GET', `${hooks}/deliveries?state=dead`)).json.reasons, [
      'state must be one of pending, retrying, delivered, rejected, failed, not "dead"',
    ]);
  });

  it('are counted by how they ended, for an admin alone', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const results = (token: string | undefined) => call('GET', `${hooks}/results`, { token });
    assert.deepEqual((await results(tokens.admin)).json, { since: null, deliveries: 0, subscriptions: [] });
    assert.equal((await results(tokens.writer)).status, 403);
  });

  it('are read with every attempt, and with their text by those whose scopes are open', async (t) => {
    const { ask, call, tokens, webhooks } = await startTestServer(t);
    const id = webhooks.sent[0]?.deliveryId ?? '';
    const read = await ask('GET', `${hooks}/deliveries/${id}`);
    assert.deepEqual(read.json, {
      ...webhooks.sent[0],
      body: `{"deliveryId":"${id}"}`,
      attemptList: [attempt, { ...attempt, statusCode: null }],
    });
    assert.equal((await call('GET', `${hooks}/deliveries/${id}`, { token: tokens.admin })).json.body, null);
    assert.equal((await ask('GET', `${hooks}/deliveries/1-0`)).status, 404);
  });

  it('are sent again one by one, and by a time and states', async (t) => {
    const { ask, webhooks } = await subscribed(t);
    const id = webhooks.sent[0]?.deliveryId ?? '';
    const again = await ask('POST', `${hooks}/deliveries/${id}/resend`, { changeReason: 'fixed' });
    assert.deepEqual([again.status, again.json.state, again.json.deliveryId], [200, 'pending', id]);
    assert.equal((await ask('POST', `${hooks}/deliveries/1-0/resend`)).status, 404);
    const range = { from: '2026-03-01T00:00:00+00:00', to: '2026-03-02T00:00:00+00:00', states: ['failed'] };
    const resent = await ask('POST', `${all}/1/resend`, { ...range, changeReason: 'outage' });
    assert.deepEqual([resent.status, resent.json], [200, { deliveries: 3 }]);
    assert.equal((await ask('POST', `${all}/1/resend`)).status, 200);
    assert.deepEqual(webhooks.steps.slice(2), [
      ['resendAll', 'all', '1', range, 'outage'],
      ['resendAll', 'all', '1', {}, ''],
    ]);
    assert.deepEqual((await ask('POST', `${all}/1/resend`, { from: 'soon' })).json.reasons, ['from is no time']);
    assert.equal((await ask('POST', `${all}/1/resend`, { changeReason: long })).status, 422);
    assert.equal((await ask('POST', `${hooks}/deliveries/${id}/resend`, { changeReason: long })).status, 422);
    for (const states of [[], ['pending'], 'failed'])
      assert.equal((await ask('POST', `${all}/1/resend`, { states })).status, 422);
  });
});

describe('the test-ping over HTTP', () => {
  const ping = `${hooks}/test-ping`;
  it('answers 200 whatever the URL did', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    const { url } = wanted;
    assert.deepEqual((await ask('POST', ping, { url, secret })).json, webhooks.pinged);
    assert.deepEqual(webhooks.steps, [['testPing', { url, secret: secret.length }]]);
    const error = { kind: 'ssrf', message: 'may not be called', reasons: ['10.0.0.0/8 is not public'] } as const;
    webhooks.pinged = { success: false, statusCode: null, responseBody: '', elapsedMs: 3, error };
    const failed = await ask('POST', ping, { url, secret });
    assert.deepEqual([failed.status, failed.json], [200, webhooks.pinged]);
  });

  it('is refused without URL or secret, and where too many are under way', async (t) => {
    const { ask, webhooks } = await startTestServer(t);
    assert.deepEqual((await ask('POST', ping)).json.reasons, ['url is missing', 'secret is missing']);
    const short = { url: wanted.url, secret: 'short' };
    assert.deepEqual((await ask('POST', ping, short)).json.reasons, ['/secret must have 16 to 1024 bytes in UTF-8']);
    assert.deepEqual((await ask('POST', ping, { ...short, name: 'ERP' })).json.reasons, [
      'the body has no field "name"; it may have: url, secret',
      'secret must have at least 16 characters',
    ]);
    webhooks.failure = new LinesideError('TOO_MANY', 'others are under way');
    const { status, headers } = await ask('POST', ping, { url: wanted.url, secret });
    assert.deepEqual([status, headers['retry-after']], [429, '1']);
  });
});

it('how webhooks stand is shown, each cause of an attempt by its name', async (t) => {
  const { ask, webhooks } = await startTestServer(t);
  const { json } = await ask('GET', `${hooks}/status`);
  assert.deepEqual(json, webhooks.now);
});
