import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { startTestServer, type TestServer } from '../server.fixture.ts';

const rooms = { name: 'site.rooms', title: 'Rooms', scope: 'PUBLIC' };
const path = '/api/v1/dictionaries/site.rooms';

async function withRooms(t: TestContext): Promise<TestServer> {
  const server = await startTestServer(t);
  await server.ask('POST', '/api/v1/dictionaries', rooms);
  return server;
}

describe('dictionaries over HTTP', () => {
  it('are made, read, listed and changed, with their version as ETag', async (t) => {
    const { ask } = await startTestServer(t);
    const made = await ask('POST', '/api/v1/dictionaries', { ...rooms, changeReason: 'new building' });
    assert.equal(made.status, 201);
    assert.equal(made.headers.location, path);
    assert.equal(made.headers.etag, '"1"');
    assert.equal(made.json.changedBy, 'all');
    const read = await ask('GET', path);
    assert.deepEqual(read.json, made.json);
    assert.equal(read.headers.etag, '"1"');
    const changed = await ask('PATCH', path, { title: 'All rooms' }, { 'if-match': '"1"' });
    assert.equal(changed.status, 200);
    assert.equal(changed.headers.etag, '"2"');
    assert.equal((await ask('PATCH', path, { title: 'X' }, { 'if-match': '"1"' })).status, 412);
    assert.equal((await ask('POST', '/api/v1/dictionaries', rooms)).status, 409);
    const list = await ask('GET', '/api/v1/dictionaries');
    assert.deepEqual(list.json, { items: [changed.json], nextCursor: null });
    assert.equal((await ask('GET', '/api/v1/dictionaries/nothing')).status, 404);
  });

  it('outside the scopes of the caller’s token are not there', async (t) => {
    const { ask, call, tokens } = await startTestServer(t);
    await ask('POST', '/api/v1/dictionaries', { ...rooms, scope: 'INTERNAL' });
    assert.equal((await call('GET', path, { token: tokens.internal })).status, 200);
    assert.equal((await call('GET', path, { token: tokens.admin })).status, 404);
  });

  it('are widened only when that is confirmed, and the audit keeps the number of records', async (t) => {
    const { ask, store } = await startTestServer(t);
    await ask('POST', '/api/v1/dictionaries', { ...rooms, scope: 'RESTRICTED' });
    for (const businessKey of ['a', 'b', 'c', 'd']) await ask('POST', `${path}/records`, { businessKey, data: {} });
    for (const refused of [{ scope: 'PUBLIC' }, { scope: 'INTERNAL', confirmWidening: false, title: 'X' }]) {
      const { status, json } = await ask('PATCH', path, refused);
      assert.equal(status, 409);
      assert.match(String(json.detail), new RegExp(`from RESTRICTED to ${refused.scope}: 4 records become readable`));
    }
    const widened = await ask('PATCH', path, { scope: 'PUBLIC', confirmWidening: true, changeReason: 'open data' });
    assert.deepEqual([widened.status, widened.json.version], [200, 2]);
    const audited = JSON.stringify({ from: 'RESTRICTED', to: 'PUBLIC', records: 4, changeReason: 'open data' });
    const details = store.connection.prepare("SELECT details FROM audit WHERE action = 'dictionary.widened'").pluck();
    assert.deepEqual(details.all(), [audited]);
  });
});

describe('drafts over HTTP', () => {
  it('go their way to being published', async (t) => {
    const { ask } = await withRooms(t);
    const schema = { type: 'object', required: ['floor'] };
    const draft = await ask('POST', `${path}/drafts`, { schema, changeReason: 'floors' });
    assert.equal(draft.status, 201);
    assert.equal(draft.headers.location, `${path}/drafts/${String(draft.json.id)}`);
    const one = draft.headers.location ?? '';
    assert.equal((await ask('POST', `${one}/publish`)).status, 409);
    assert.equal((await ask('POST', `${one}/request-review`, {})).json.state, 'inReview');
    const undecided = await ask('POST', `${one}/decide`, { decision: 'maybe' });
    assert.deepEqual(undecided.json.reasons, ['decision must be one of approved, rejected, not "maybe"']);
    assert.equal((await ask('POST', `${one}/decide`, { decision: 'approved' })).json.state, 'approved');
    assert.equal((await ask('POST', `${one}/publish`)).json.state, 'published');
    assert.deepEqual((await ask('GET', path)).json.schema, schema);
    assert.equal((await ask('POST', `${one}/withdraw`)).status, 409);
    assert.deepEqual((await ask('GET', `${path}/drafts`)).json.items, [(await ask('GET', one)).json]);
    for (const id of ['99', 'x', '-1', '1e3']) assert.equal((await ask('GET', `${path}/drafts/${id}`)).status, 404);
  });
});

describe('records over HTTP', () => {
  it('are made, changed under their version, read as of a time, and closed', async (t) => {
    const { ask } = await withRooms(t);
    const made = await ask('POST', `${path}/records`, {
      businessKey: 'r/1',
      data: { floor: 1 },
      validFrom: '2020-01-01T00:00:00+02:00',
    });
    assert.equal(made.status, 201);
    assert.equal(made.headers.location, `${path}/records/r%2F1`);
    assert.equal(made.json.validFrom, '2019-12-31T22:00:00+00:00');
    const one = `${path}/records/r%2F1`;
    assert.deepEqual((await ask('GET', one)).json, made.json);

    const change = { data: { floor: 2 }, validFrom: '2021-01-01T00:00:00Z', changeReason: 'measured' };
    assert.equal((await ask('PUT', one, change)).status, 428);
    assert.equal((await ask('PUT', one, change, { 'if-match': '"2"' })).status, 412);
    for (const malformed of ['1', '"1', '"1" "2"', '*, "1"', 'w/"1"', '']) {
      assert.equal((await ask('PUT', one, change, { 'if-match': malformed })).status, 400, malformed);
    }
    // Versions are compared strongly: a weak tag is never the version of a record.
    for (const other of ['W/"1"', '"x"', '"01"', '""', '"2", "3"', 'W/"1", "7"', '","']) {
      const stale = await ask('PUT', one, change, { 'if-match': other });
      assert.deepEqual([stale.status, stale.json.code], [412, 'STALE_VERSION'], other);
    }
    const changed = await ask('PUT', one, change, { 'if-match': '"1"' });
    assert.equal(changed.status, 200);
    assert.equal(changed.headers.etag, '"2"');
    assert.equal(changed.json.changeReason, 'measured');

    // The "+" of the offset needs no encoding.
    const before = await ask('GET', `${one}?at=2020-06-01T00:00:00+00:00`);
    assert.deepEqual([before.json.data, before.headers.etag], [{ floor: 1 }, '"1"']);
    assert.deepEqual((await ask('GET', `${one}?at=2020-06-01T00%3A00%3A00%2B00%3A00`)).json, before.json);
    assert.equal((await ask('GET', `${one}?at=2018-06-01T00:00:00Z`)).status, 404);
    assert.equal((await ask('GET', `${one}?at=yesterday`)).status, 422);
    const first = await ask('GET', `${one}/history?limit=1`);
    assert.deepEqual(first.json.items, [changed.json]);
    const second = await ask(
      'GET',
      `${one}/history?limit=1&cursor=${encodeURIComponent(String(first.json.nextCursor))}`,
    );
    assert.deepEqual(second.json, { items: [made.json], nextCursor: null });
    assert.deepEqual((await ask('GET', `${path}/records`)).json.items, [changed.json]);

    assert.equal((await ask('POST', `${one}/close`)).status, 428);
    const closed = await ask('POST', `${one}/close`, undefined, { 'if-match': '"2"', 'x-change-reason': 'torn down' });
    assert.deepEqual(
      [closed.json.action, closed.json.changeReason, closed.headers.etag],
      ['closed', 'torn down', '"3"'],
    );
    assert.equal((await ask('GET', one)).status, 404);
    assert.equal((await ask('PUT', one, change, { 'if-match': '"3"' })).status, 409);
  });

  it('are changed whatever their version is by "*", or under one of several versions', async (t) => {
    const { ask } = await withRooms(t);
    await ask('POST', `${path}/records`, { businessKey: 'a', data: {} });
    const one = `${path}/records/a`;
    const put = (match: string) => ask('PUT', one, { data: { match } }, { 'if-match': match });
    assert.equal((await put('*')).headers.etag, '"2"');
    assert.equal((await put('"1", W/"x,", "2"')).headers.etag, '"3"');
    assert.equal((await ask('POST', `${one}/close`, {}, { 'if-match': '*' })).headers.etag, '"4"');
    assert.equal((await ask('PUT', `${path}/records/none`, { data: {} }, { 'if-match': '*' })).status, 404);
    assert.equal((await ask('PATCH', path, { title: 'A' }, { 'if-match': '"9", "1"' })).headers.etag, '"2"');
    assert.equal((await ask('PATCH', path, { title: 'B' }, { 'if-match': 'W/"2"' })).status, 412);
    assert.equal((await ask('PATCH', path, { title: 'B' }, { 'if-match': '*' })).headers.etag, '"3"');
  });

  it('and dictionaries that the caller has already are not sent again', async (t) => {
    const { ask, call, tokens } = await withRooms(t);
    await ask('POST', `${path}/records`, { businessKey: 'a', data: { floor: 1 } });
    for (const at of [path, `${path}/records/a`]) {
      for (const same of ['"1"', 'W/"1"', '"7", "1"', '*']) {
        const answer = await ask('GET', at, undefined, { 'if-none-match': same });
        assert.deepEqual([answer.status, answer.text, answer.headers.etag], [304, '', '"1"'], `${at} ${same}`);
        assert.equal(answer.headers['content-type'], undefined);
      }
      const other = await ask('GET', at, undefined, { 'if-none-match': '"2", "01"' });
      assert.deepEqual([other.status, other.json.version], [200, 1]);
      assert.equal((await ask('GET', at, undefined, { 'if-none-match': 'nonsense' })).status, 200);
      const head = await call('HEAD', at, { token: tokens.all, headers: { 'if-none-match': '"1"' } });
      assert.equal(head.status, 304);
    }
    // It does not say that there is what is not there, or not for this caller.
    assert.equal((await ask('GET', `${path}/records/none`, undefined, { 'if-none-match': '*' })).status, 404);
    assert.equal((await call('GET', path, { headers: { 'if-none-match': '*' } })).status, 401);
  });

  it('keep a change reason in any script, from the header and from the body, the body first', async (t) => {
    const { ask } = await withRooms(t);
    const text = 'замена 🔧 100 %';
    const header = { 'x-change-reason': Buffer.from(text).toString('latin1') };
    const made = await ask('POST', `${path}/records`, { businessKey: 'a', data: {} }, header);
    assert.equal(made.json.changeReason, text);
    const other = await ask('POST', `${path}/records`, { businessKey: 'b', data: {}, changeReason: 'body' }, header);
    assert.equal(other.json.changeReason, 'body');
    const long = await ask(
      'POST',
      `${path}/records`,
      { businessKey: 'c', data: {} },
      { 'x-change-reason': 'x'.repeat(1_001) },
    );
    assert.equal(long.status, 422);
    const broken = await ask('POST', `${path}/records`, { businessKey: 'c', data: {} }, { 'x-change-reason': '\xff' });
    assert.equal(broken.status, 400);
  });

  it('are closed in bulk', async (t) => {
    const { ask } = await withRooms(t);
    for (const businessKey of ['a', 'b']) await ask('POST', `${path}/records`, { businessKey, data: {} });
    assert.equal((await ask('POST', `${path}/bulk-close`, { businessKeys: ['a', 'b'] })).json.closed, 2);
  });
});

describe('imports over HTTP', () => {
  const line = (businessKey: string, data: unknown = { n: 1 }): string =>
    JSON.stringify({ dictionary: 'site.rooms', businessKey, data });

  it('take NDJSON and JSON, and count', async (t) => {
    const { ask, call, tokens } = await withRooms(t);
    const ndjson = {
      token: tokens.all,
      headers: { 'content-type': 'application/x-ndjson', 'x-change-reason': 'start' },
    };
    const body = `${line('a')}\n${line('b')}\n`;
    const first = await call('POST', '/api/v1/imports', { ...ndjson, body });
    assert.equal(first.status, 200);
    assert.deepEqual({ ...first.json, txTime: '' }, { txTime: '', created: 2, updated: 0, closed: 0, unchanged: 0 });
    const items = [JSON.parse(line('a')), JSON.parse(line('b', { n: 2 })), JSON.parse(line('c'))];
    const second = await ask('POST', '/api/v1/imports', { items });
    assert.deepEqual({ ...second.json, txTime: '' }, { txTime: '', created: 1, updated: 1, closed: 0, unchanged: 1 });
    assert.equal((await ask('GET', `${path}/records/a`)).json.changeReason, 'start');
  });

  it('refuse a bundle that is too large by its announced length, and one that grows beyond it', async (t) => {
    const { ask, call, tokens } = await startTestServer(t, { http: { max_import_bytes: 65_536 } });
    await ask('POST', '/api/v1/dictionaries', rooms);
    const body = `${line('a', { text: 'x'.repeat(70_000) })}\n`;
    const headers = { 'content-type': 'application/x-ndjson' };
    assert.equal((await call('POST', '/api/v1/imports', { token: tokens.all, body, headers })).status, 413);
    const chunked = { ...headers, 'transfer-encoding': 'chunked' };
    assert.equal((await call('POST', '/api/v1/imports', { token: tokens.all, body, headers: chunked })).status, 413);
    assert.equal((await ask('GET', `${path}/records`)).status, 200);
  });

  it('know only their two media types', async (t) => {
    const { call, tokens } = await startTestServer(t);
    for (const type of [
      'text/plain',
      'application/xml',
      'application/octet-stream',
      'application/json; charset=iso-8859-1',
    ]) {
      const answer = await call('POST', '/api/v1/imports', {
        token: tokens.all,
        body: line('a'),
        headers: { 'content-type': type },
      });
      assert.equal(answer.status, 415, type);
    }
    assert.equal((await call('POST', '/api/v1/imports', { token: tokens.all })).status, 415);
  });
});

describe('operations over HTTP', () => {
  it('show the outbox, its dead letters by pages, audit and alerts', async (t) => {
    const { ask, outbox } = await startTestServer(t);
    const status = await ask('GET', '/api/v1/admin/outbox');
    assert.deepEqual(status.json, outbox.now);
    outbox.now = { ...outbox.now, oldest: undefined };
    assert.equal('oldest' in (await ask('GET', '/api/v1/admin/outbox')).json, false);
    const first = await ask('GET', '/api/v1/admin/outbox/dead-letters?limit=2');
    assert.equal(first.json.nextCursor, '2');
    assert.equal((await ask('GET', '/api/v1/admin/outbox/dead-letters?limit=2&cursor=2')).json.nextCursor, null);
    const audit = await ask('GET', '/api/v1/admin/audit?action=outbox.dlq&limit=5');
    assert.equal(audit.status, 200);
  });

  it('show what is in a dead letter only to those who may read its dictionary', async (t) => {
    const { call, outbox, tokens } = await startTestServer(t);
    outbox.letters = outbox.letters.map((letter, i) => (i === 0 ? { ...letter, scope: 'RESTRICTED' } : letter));
    const envelopes = async (token: string | undefined) =>
      ((await call('GET', '/api/v1/admin/outbox/dead-letters', { token })).json.items as { envelope: unknown }[]).map(
        ({ envelope }) => envelope !== null,
      );
    assert.deepEqual(
      await envelopes(tokens.admin),
      outbox.letters.map((_, i) => i > 0),
    );
    assert.deepEqual(
      await envelopes(tokens.all),
      outbox.letters.map(() => true),
    );
  });
});
