import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLogger } from '../../shared/base/logger.ts';
import { admin, emit, refused, request, rowsOf, stateOf, subscriptionsRig, trusted } from './subscriptions.fixture.ts';

const all = { limit: 1_000, cursor: undefined };

describe('a new subscription', () => {
  it('is stored, shown and audited, for what is committed from then on', async (t) => {
    const rig = subscriptionsRig(t);
    await emit(rig.store, 'before');
    const wanted = request({ consumer: 'tess', scopes: ['RESTRICTED', 'PUBLIC'], dictionaries: ['tools', 'tools'] });
    const made = await rig.book.subscribe(trusted, wanted, 'for the ERP');
    const filter = { scopes: ['PUBLIC', 'RESTRICTED'], dictionaries: ['tools'], actions: null, categories: null };
    const { createdAt, ...shown } = made;
    assert.deepEqual(shown, {
      id: '1',
      name: 'ERP',
      url: 'https://erp.example/hook',
      consumer: 'tess',
      ...filter,
      active: true,
      updatedAt: createdAt,
      version: 1,
      blocked: '',
    });
    assert.deepEqual(rig.book.subscription('1'), made);
    const known = rig.book.byId(1);
    assert.ok(known !== undefined);
    assert.equal(known.afterEvent, 1);
    assert.deepEqual(rowsOf(rig, 'SELECT * FROM webhook_forms'), [
      {
        id: known.formId,
        subscription_id: 1,
        renderer: 1,
        name: 'ERP',
        scopes: '["PUBLIC","RESTRICTED"]',
        dictionaries: '["tools"]',
        actions: null,
        categories: null,
      },
    ]);
    const [audit] = rowsOf(rig, 'SELECT at, actor, action, subject, details FROM audit');
    const { details, ...rest } = audit as Record<string, string>;
    assert.deepEqual(rest, {
      at: createdAt,
      actor: 'anna',
      action: 'webhook.subscribed',
      subject: 'subscription 1 (ERP)',
    });
    assert.deepEqual(JSON.parse(details ?? ''), {
      subscription: 1,
      consumer: 'tess',
      name: 'ERP',
      url: 'https://erp.example/hook',
      active: true,
      ...filter,
      changeReason: 'for the ERP',
    });
    assert.deepEqual(rig.book.secrets(1, 0), { current: wanted.secret, previous: undefined });
  });

  it("is the caller's own by default, with every scope that is open to both", async (t) => {
    const { book } = subscriptionsRig(t);
    const own = await book.subscribe({ name: 'ivan', scopes: ['PUBLIC', 'INTERNAL'] }, request(), '');
    assert.deepEqual([own.consumer, own.scopes], ['ivan', ['PUBLIC', 'INTERNAL']]);
    const lesser = await book.subscribe(admin, request({ name: 'MES', consumer: 'ivan' }), '');
    assert.deepEqual([lesser.consumer, lesser.scopes], ['ivan', ['PUBLIC']]);
  });

  it("is bounded by its consumer's scopes and by the caller's", async (t) => {
    const { book } = subscriptionsRig(t);
    await assert.rejects(
      book.subscribe(admin, request({ consumer: 'tess', scopes: ['RESTRICTED'] }), ''),
      refused('INVALID_ARGUMENT', ['/scopes/0 is not open to you, the caller']),
    );
    const caller = { name: 'tess', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const };
    const wide = await book.subscribe(caller, request({ scopes: ['RESTRICTED'] }), '');
    assert.deepEqual(wide.scopes, ['RESTRICTED']);
    const stolen = { url: 'https://mine.example/' };
    await assert.rejects(book.update(admin, '1', stolen, undefined, ''), refused('INVALID_ARGUMENT'));
    assert.equal((await book.update(admin, '1', { active: false }, undefined, '')).active, false);
    assert.equal((await book.update(admin, '1', { ...stolen, scopes: ['PUBLIC'] }, undefined, '')).url, stolen.url);
    await assert.rejects(
      book.subscribe(caller, request({ consumer: 'anna', scopes: ['INTERNAL'] }), ''),
      refused('INVALID_ARGUMENT', ['/scopes/0 is not open to the consumer']),
    );
  });

  it('has a name of its own; names that are the same already stay, and are reported', async (t) => {
    const rig = subscriptionsRig(t);
    await rig.book.subscribe(admin, request(), '');
    await rig.book.subscribe(admin, request({ name: 'MES' }), '');
    await assert.rejects(rig.book.subscribe(admin, request(), ''), refused('CONFLICT'));
    await assert.rejects(rig.book.update(admin, '2', { name: 'ERP' }, undefined, ''), refused('CONFLICT'));
    await rig.book.update(admin, '1', { name: 'ERP', active: false }, undefined, '');
    rig.store.connection.exec("UPDATE webhook_subscriptions SET name = 'ERP' WHERE id = 2");
    const lines: unknown[] = [];
    const again = rig.reopen({ logger: { ...silentLogger, warn: (...line) => lines.push(line) } });
    const text = 'webhook subscriptions have the same name: rename all but one';
    assert.deepEqual(lines, [[text, { name: 'ERP', ids: '1 2' }]]);
    assert.equal((await again.update(admin, '2', { active: false }, undefined, '')).name, 'ERP');
    await again.unsubscribe(admin, '1', '');
    await again.unsubscribe(admin, '2', '');
    assert.equal((await again.subscribe(admin, request(), '')).name, 'ERP', 'a deleted one has no name');
  });

  it("that is refused is told every reason, the guard's among them, and has written nothing, not even the key", async (t) => {
    const rig = subscriptionsRig(t);
    const before = stateOf(rig);
    const bad = request({ name: '', url: 'https://forbidden/', secret: 'x', consumer: 'nobody', actions: ['y'] });
    await assert.rejects(
      rig.book.subscribe(admin, bad, '\0'),
      refused('INVALID_ARGUMENT', [
        '/name must be 1 to 128 printable ASCII characters with no space at either end',
        '/actions/0 must be one of created, updated, closed',
        '/secret must have 16 to 1024 bytes in UTF-8',
        '/consumer names no token that exists',
        '/url: the address is not public',
        '/url: port 22 is not open',
        '/changeReason must have no NUL character',
      ]),
    );
    assert.deepEqual(stateOf(rig), before);
    assert.equal(rig.planner.calls, 0);
  });

  it('is refused beside 200 others, deleted ones not counted', async (t) => {
    const rig = subscriptionsRig(t);
    for (let n = 0; n < 200; n++) await rig.book.subscribe(admin, request({ name: `n${n}` }), '');
    const before = stateOf(rig);
    await assert.rejects(rig.book.subscribe(admin, request(), ''), refused('CONFLICT'));
    assert.deepEqual(stateOf(rig), before);
    await rig.book.unsubscribe(admin, '7', '');
    const race = await Promise.allSettled(
      [1, 2, 3].map((n) => rig.book.subscribe(admin, request({ name: `r${n}` }), '')),
    );
    assert.deepEqual(race.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected', 'rejected']);
    assert.equal(rig.book.all().length, 200);
    assert.equal(rig.book.all().at(-1)?.id, 201);
  });
});

describe('a list of subscriptions', () => {
  it('is read in pages, in the order of ids, whatever is deleted or added meanwhile', async (t) => {
    const { book } = subscriptionsRig(t);
    for (let n = 1; n <= 5; n++) await book.subscribe(admin, request({ name: `n${n}` }), '');
    const first = book.subscriptions({ limit: 2, cursor: undefined });
    assert.deepEqual(
      first.items.map(({ id }) => id),
      ['1', '2'],
    );
    await book.unsubscribe(admin, '2', '');
    await book.unsubscribe(admin, '3', '');
    const second = book.subscriptions({ limit: 2, cursor: first.nextCursor });
    assert.deepEqual(second, { items: [book.subscription('4'), book.subscription('5')], nextCursor: undefined });
    await book.subscribe(admin, request(), '');
    assert.equal(book.subscriptions({ limit: 2, cursor: first.nextCursor }).nextCursor, '5');
    assert.deepEqual(book.subscriptions({ limit: 2, cursor: '6' }), { items: [], nextCursor: undefined });
  });

  it('goes on from no cursor that was never given out', (t) => {
    const { book } = subscriptionsRig(t);
    for (const cursor of ['', '0', '-1', '1.5', 'x', '01', '1e3', '9'.repeat(30)]) {
      assert.throws(() => book.subscriptions({ limit: 1, cursor }), refused('INVALID_ARGUMENT'), cursor);
    }
  });
});

describe('a deleted subscription', () => {
  it('is nowhere any more, and its sealed secret is gone at once', async (t) => {
    const rig = subscriptionsRig(t);
    const { book } = rig;
    await book.subscribe(admin, request(), '');
    await book.rotateSecret(admin, '1', { secret: 'another secret of 16' }, '');
    const stale = refused('STALE_VERSION');
    await assert.rejects(book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, '', 1), stale);
    await assert.rejects(book.unsubscribe(admin, '1', '', 1), stale);
    assert.equal(book.subscription('1').version, 2);
    await book.unsubscribe(admin, '1', 'not used', 2);
    const gone = refused('NOT_FOUND');
    assert.throws(() => book.subscription('1'), gone);
    await assert.rejects(book.update(admin, '1', { name: 'x' }, undefined, ''), gone);
    await assert.rejects(book.unsubscribe(admin, '1', ''), gone);
    await assert.rejects(book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''), gone);
    assert.deepEqual([book.all(), book.byId(1), book.subscriptions(all).items], [[], undefined, []]);
    assert.ok('unreadable' in book.secrets(1, 0));
    const secrets =
      'SELECT deleted, length(secret) AS sealed, previous_secret, previous_until_run_ms FROM webhook_subscriptions';
    assert.deepEqual(rowsOf(rig, secrets), [
      { deleted: 1, sealed: 0, previous_secret: null, previous_until_run_ms: null },
    ]);
    const [audit] = rowsOf(rig, "SELECT details FROM audit WHERE action = 'webhook.unsubscribed'");
    const { changeReason, url } = JSON.parse((audit as { details: string }).details);
    assert.deepEqual([changeReason, url], ['not used', request().url]);
    assert.deepEqual(rig.reopen().all(), []);
    assert.equal((await book.subscribe(admin, request(), '')).id, '2', 'an id is not used again');
  });

  it('stays deleted for a change whose URL was still being judged', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, egress } = rig;
    await book.subscribe(admin, request(), '');
    let judged: (faults: readonly string[]) => void = () => {};
    egress.faults = () => new Promise((resolve) => (judged = resolve));
    const late = book.update(admin, '1', { url: 'https://erp.example/slow' }, undefined, '');
    await book.unsubscribe(admin, '1', '');
    const before = stateOf(rig);
    judged([]);
    await assert.rejects(late, refused('NOT_FOUND'));
    assert.deepEqual(stateOf(rig), before);
    assert.deepEqual(book.all(), []);
  });

  it('is not found by what is no id', async (t) => {
    const { book } = subscriptionsRig(t);
    await book.subscribe(admin, request(), '');
    for (const id of ['', '0', '2', '-1', '01', '1.0', ' 1', '1e0', '9'.repeat(40), '__proto__', "1' OR 1=1"]) {
      assert.throws(() => book.subscription(id), refused('NOT_FOUND'), id);
    }
  });
});
