import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import {
  admin,
  emit,
  request,
  rowsOf,
  stateOf,
  subscribedRig,
  subscriptionsRig,
  trusted,
} from './subscriptions.fixture.ts';

const all = { limit: 1_000, cursor: undefined };

describe('a new subscription', () => {
  it('is stored, shown and audited, for what is committed from then on', async (t) => {
    const rig = subscriptionsRig(t);
    await emit(rig.store, 'before');
    const wanted = request({ consumer: 'tess', scopes: ['RESTRICTED', 'PUBLIC'], dictionaries: ['tools', 'tools'] });
    const made = await rig.cache.subscribe(trusted, wanted, 'for the ERP');
    const filter = { scopes: ['PUBLIC', 'RESTRICTED'], dictionaries: ['tools'], actions: null, categories: null };
    const { createdAt, ...view } = made;
    const [name, url, consumer] = ['ERP', 'https://erp.example/hook', 'tess'];
    const shown = { id: '1', name, url, consumer, ...filter, active: true, version: 1, blocked: '' };
    assert.deepEqual(view, { ...shown, updatedAt: createdAt });
    assert.deepEqual(rig.cache.subscription('1'), made);
    const subscription = rig.cache.byId(1);
    assert.equal(subscription?.afterEvent, 1);
    const [audit] = rowsOf(rig, 'SELECT at, actor, action, subject, details FROM audit');
    const { details, ...rest } = audit as Record<string, string>;
    const subject = 'subscription 1 (ERP)';
    assert.deepEqual(rest, { at: createdAt, actor: 'anna', action: 'webhook.subscribed', subject });
    const terms = { subscription: 1, consumer, name, url, active: true, ...filter };
    assert.deepEqual(JSON.parse(details ?? ''), { ...terms, changeReason: 'for the ERP' });
    assert.deepEqual(rig.cache.secrets(1, 0), { current: wanted.secret, previous: undefined });
  });

  it("is the caller's own by default, with every scope that is open to both", async (t) => {
    const { cache } = subscriptionsRig(t);
    const own = await cache.subscribe({ name: 'ivan', scopes: ['PUBLIC', 'INTERNAL'] }, request(), '');
    assert.deepEqual([own.consumer, own.scopes], ['ivan', ['PUBLIC', 'INTERNAL']]);
    const lesser = await cache.subscribe(admin, request({ name: 'MES', consumer: 'ivan' }), '');
    assert.deepEqual([lesser.consumer, lesser.scopes], ['ivan', ['PUBLIC']]);
  });

  it("is bounded by its consumer's scopes and by the caller's", async (t) => {
    const { cache } = subscriptionsRig(t);
    await assert.rejects(cache.subscribe(admin, request({ consumer: 'tess', scopes: ['RESTRICTED'] }), ''), {
      code: 'INVALID_ARGUMENT',
      reasons: ['/scopes/0 is not open to you, the caller'],
    });
    const caller = { name: 'tess', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const };
    const wide = await cache.subscribe(caller, request({ scopes: ['RESTRICTED'] }), '');
    assert.deepEqual(wide.scopes, ['RESTRICTED']);
    const stolen = { url: 'https://mine.example/' };
    await assert.rejects(cache.update(admin, '1', stolen, undefined, ''), { code: 'INVALID_ARGUMENT' });
    assert.equal((await cache.update(admin, '1', { active: false }, undefined, '')).active, false);
    assert.equal((await cache.update(admin, '1', { ...stolen, scopes: ['PUBLIC'] }, undefined, '')).url, stolen.url);
    await assert.rejects(cache.subscribe(caller, request({ consumer: 'anna', scopes: ['INTERNAL'] }), ''), {
      code: 'INVALID_ARGUMENT',
      reasons: ['/scopes/0 is not open to the consumer'],
    });
  });

  it('has a name of its own; names that are the same already stay, and are reported', async (t) => {
    const rig = await subscribedRig(t);
    await rig.cache.subscribe(admin, request({ name: 'MES' }), '');
    await assert.rejects(rig.cache.subscribe(admin, request(), ''), { code: 'CONFLICT' });
    await assert.rejects(rig.cache.update(admin, '2', { name: 'ERP' }, undefined, ''), { code: 'CONFLICT' });
    await rig.cache.update(admin, '1', { name: 'ERP', active: false }, undefined, '');
    rig.store.connection.exec("UPDATE webhook_subscriptions SET name = 'ERP' WHERE id = 2");
    const { logger, lines } = recordingLogger();
    const again = rig.reopen({ logger });
    assert.deepEqual(lines, ['warn webhook subscriptions have the same name: rename all but one name=ERP ids="1 2"']);
    assert.equal((await again.update(admin, '2', { active: false }, undefined, '')).name, 'ERP');
    await again.unsubscribe(admin, '1', '');
    await again.unsubscribe(admin, '2', '');
    assert.equal((await again.subscribe(admin, request(), '')).name, 'ERP', 'a deleted one has no name');
  });

  it("that is refused gets every reason, also the guard's, and nothing is written, not even the key", async (t) => {
    const rig = subscriptionsRig(t);
    const before = stateOf(rig);
    const bad = request({ name: '', url: 'https://forbidden/', secret: 'x', consumer: 'nobody', actions: ['y'] });
    await assert.rejects(rig.cache.subscribe(admin, bad, '\0'), {
      code: 'INVALID_ARGUMENT',
      reasons: [
        '/name must be 1 to 128 printable ASCII characters with no space at either end',
        '/actions/0 must be one of created, updated, closed',
        '/secret must have 16 to 1024 bytes in UTF-8',
        '/consumer names no token that exists',
        '/url: the address is not public',
        '/url: port 22 is not open',
        '/changeReason must have no NUL character',
      ],
    });
    assert.deepEqual(stateOf(rig), before);
    assert.equal(rig.planner.calls, 0);
  });

  it('is refused beside 200 others, deleted ones not counted', async (t) => {
    const rig = subscriptionsRig(t);
    for (let n = 0; n < 200; n++) await rig.cache.subscribe(admin, request({ name: `n${n}` }), '');
    const before = stateOf(rig);
    await assert.rejects(rig.cache.subscribe(admin, request(), ''), { code: 'CONFLICT' });
    assert.deepEqual(stateOf(rig), before);
    await rig.cache.unsubscribe(admin, '7', '');
    const race = await Promise.allSettled(
      [1, 2, 3].map((n) => rig.cache.subscribe(admin, request({ name: `r${n}` }), '')),
    );
    assert.deepEqual(race.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected', 'rejected']);
    assert.equal(rig.cache.all().length, 200);
    assert.equal(rig.cache.all().at(-1)?.id, 201);
  });
});

describe('a list of subscriptions', () => {
  it('is read in pages, in the order of ids, whatever is deleted or added meanwhile', async (t) => {
    const { cache } = subscriptionsRig(t);
    for (let n = 1; n <= 5; n++) await cache.subscribe(admin, request({ name: `n${n}` }), '');
    const first = cache.subscriptions({ limit: 2, cursor: undefined });
    assert.deepEqual(
      first.items.map(({ id }) => id),
      ['1', '2'],
    );
    await cache.unsubscribe(admin, '2', '');
    await cache.unsubscribe(admin, '3', '');
    const second = cache.subscriptions({ limit: 2, cursor: first.nextCursor });
    assert.deepEqual(second, { items: [cache.subscription('4'), cache.subscription('5')], nextCursor: undefined });
    await cache.subscribe(admin, request(), '');
    assert.equal(cache.subscriptions({ limit: 2, cursor: first.nextCursor }).nextCursor, '5');
    assert.deepEqual(cache.subscriptions({ limit: 2, cursor: '6' }), { items: [], nextCursor: undefined });
  });

  it('is continued by no cursor that was never given out, and holds nothing for what is no id', async (t) => {
    const { cache } = await subscribedRig(t);
    for (const text of ['', '0', '-1', '1.5', 'x', '01', '1e3', ' 1', '9'.repeat(30), '__proto__', "1' OR 1=1"]) {
      assert.throws(() => cache.subscriptions({ limit: 1, cursor: text }), { code: 'INVALID_ARGUMENT' }, text);
      assert.throws(() => cache.subscription(text), { code: 'NOT_FOUND' }, text);
    }
    assert.throws(() => cache.subscription('2'), { code: 'NOT_FOUND' });
  });
});

describe('a deleted subscription', () => {
  it('is nowhere any more, and its sealed secret is gone at once', async (t) => {
    const rig = await subscribedRig(t);
    const { cache } = rig;
    await cache.rotateSecret(admin, '1', { secret: 'another secret of 16' }, '');
    const stale = { code: 'STALE_VERSION' };
    await assert.rejects(cache.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, '', 1), stale);
    await assert.rejects(cache.unsubscribe(admin, '1', '', 1), stale);
    assert.equal(cache.subscription('1').version, 2);
    await cache.unsubscribe(admin, '1', 'not used', 2);
    const gone = { code: 'NOT_FOUND' };
    assert.throws(() => cache.subscription('1'), gone);
    await assert.rejects(cache.update(admin, '1', { name: 'x' }, undefined, ''), gone);
    await assert.rejects(cache.unsubscribe(admin, '1', ''), gone);
    await assert.rejects(cache.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''), gone);
    assert.deepEqual([cache.all(), cache.byId(1), cache.subscriptions(all).items], [[], undefined, []]);
    assert.ok('unreadable' in cache.secrets(1, 0));
    const secrets =
      'SELECT deleted, length(secret) AS sealed, previous_secret, previous_until_run_ms FROM webhook_subscriptions';
    assert.deepEqual(rowsOf(rig, secrets), [
      { deleted: 1, sealed: 0, previous_secret: null, previous_until_run_ms: null },
    ]);
    const [audit] = rowsOf(rig, "SELECT details FROM audit WHERE action = 'webhook.unsubscribed'");
    const { changeReason, url } = JSON.parse((audit as { details: string }).details);
    assert.deepEqual([changeReason, url], ['not used', request().url]);
    assert.deepEqual(rig.reopen().all(), []);
    assert.equal((await cache.subscribe(admin, request(), '')).id, '2', 'an id is not used again');
  });

  it('stays deleted for a change whose URL was still being judged', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, egress } = rig;
    let checked: (faults: readonly string[]) => void = () => {};
    egress.faults = () => new Promise((resolve) => (checked = resolve));
    const late = cache.update(admin, '1', { url: 'https://erp.example/slow' }, undefined, '');
    await cache.unsubscribe(admin, '1', '');
    const before = stateOf(rig);
    checked([]);
    await assert.rejects(late, { code: 'NOT_FOUND' });
    assert.deepEqual(stateOf(rig), before);
    assert.deepEqual(cache.all(), []);
  });
});
