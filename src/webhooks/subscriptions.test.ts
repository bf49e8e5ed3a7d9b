import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';
import { author, recordEvent } from '../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import type { Subscription, SubscriptionPatch } from './face.ts';
import {
  admin,
  lastEvent,
  refused,
  request,
  rowsOf,
  type SubscriptionsRig,
  subscriptionsRig,
} from './subscriptions.fixture.ts';

const all = { limit: 1_000, cursor: undefined };

function emit(store: ChangeStore, key: string): Promise<unknown> {
  return store.commit(author, (change) => change.emit(recordEvent(key)));
}

/** All that a refused request must have left as it was. */
function stateOf(rig: SubscriptionsRig): unknown {
  return {
    rows: rowsOf(rig, 'SELECT * FROM webhook_subscriptions'),
    forms: rowsOf(rig, 'SELECT * FROM webhook_forms'),
    progress: rowsOf(rig, 'SELECT * FROM webhook_progress'),
    audit: rowsOf(rig, 'SELECT * FROM audit'),
    key: existsSync(rig.keyFile),
    book: rig.book.all(),
  };
}

function storedCursor(rig: SubscriptionsRig): unknown {
  return rig.store.connection.prepare('SELECT last_event FROM webhook_progress').pluck().get();
}

describe('a new subscription', () => {
  it('is stored, shown and audited, for what is committed from then on', async (t) => {
    const rig = subscriptionsRig(t);
    await emit(rig.store, 'before');
    const wanted = request({ consumer: 'tess', scopes: ['RESTRICTED', 'PUBLIC'], dictionaries: ['tools', 'tools'] });
    const made = await rig.book.subscribe(admin, wanted, 'for the ERP');
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

  it("is the caller's own by default, with every scope that is open to that", async (t) => {
    const { book } = subscriptionsRig(t);
    const own = await book.subscribe({ name: 'ivan', scopes: ['PUBLIC'] }, request(), '');
    assert.deepEqual([own.consumer, own.scopes], ['ivan', ['PUBLIC', 'INTERNAL']]);
  });

  it("is bounded by its consumer's scopes, not by the caller's", async (t) => {
    const { book } = subscriptionsRig(t);
    const wide = await book.subscribe(admin, request({ consumer: 'tess', scopes: ['RESTRICTED'] }), '');
    assert.deepEqual(wide.scopes, ['RESTRICTED']);
    const caller = { name: 'tess', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const };
    await assert.rejects(
      book.subscribe(caller, request({ consumer: 'anna', scopes: ['INTERNAL'] }), ''),
      refused('INVALID_ARGUMENT', ['/scopes/0 is not open to the consumer']),
    );
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

describe('a changed subscription', () => {
  it('has the next version, and a new form just where deliveries are made otherwise', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, clock } = rig;
    await book.subscribe(admin, request({ consumer: 'tess' }), '');
    const forms = new Set([book.byId(1)?.formId]);
    const patches: readonly [SubscriptionPatch, boolean][] = [
      [{ url: 'https://erp.example/other' }, false],
      [{ active: false }, false],
      [{ name: 'MES' }, true],
      [{ name: 'MES', dictionaries: [] }, false],
      [{ dictionaries: ['tools'] }, true],
      [{ scopes: ['PUBLIC'] }, true],
      [{ actions: ['closed'] }, true],
      [{ categories: ['dict.record.*'] }, true],
      [{ scopes: null }, true],
    ];
    for (const [at, [patch, isNew]] of patches.entries()) {
      clock.advance(1_000);
      const changed = await book.update(admin, '1', patch, at + 1, 'why');
      assert.equal(changed.version, at + 2);
      assert.ok(changed.updatedAt > changed.createdAt);
      assert.equal(forms.has(book.byId(1)?.formId), !isNew, JSON.stringify(patch));
      forms.add(book.byId(1)?.formId);
    }
    assert.deepEqual(book.subscription('1').scopes, ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    assert.equal(rowsOf(rig, 'SELECT * FROM webhook_forms').length, forms.size);
    const [audit] = rowsOf(rig, "SELECT subject, details FROM audit WHERE action = 'webhook.updated' LIMIT 1 OFFSET 2");
    assert.deepEqual(audit, {
      subject: 'subscription 1 (MES)',
      details: JSON.stringify({ subscription: 1, version: 4, changes: { name: 'MES' }, changeReason: 'why' }),
    });
    assert.deepEqual(rig.reopen().subscriptions(all), book.subscriptions(all), 'the same after a restart');
    assert.deepEqual(rig.reopen().all(), book.all());
  });

  it('keeps its secret and its consumer, whatever else the patch holds', async (t) => {
    const { book } = subscriptionsRig(t);
    const made = await book.subscribe(admin, request(), '');
    const more = { name: 'MES', secret: 'another secret of 16', consumer: 'tess', version: 7, id: '9' };
    const changed = await book.update(admin, '1', more, undefined, '');
    assert.deepEqual(changed, { ...made, name: 'MES', version: 2, updatedAt: changed.updatedAt });
    assert.deepEqual(book.secrets(1, 0), { current: request().secret, previous: undefined });
    const hidden = { secret: 'another secret of 16' } as SubscriptionPatch;
    await assert.rejects(book.update(admin, '1', hidden, undefined, ''), refused('INVALID_ARGUMENT'));
  });

  it('takes no events of the time in which it was not active', async (t) => {
    const { book, store } = subscriptionsRig(t);
    await book.subscribe(admin, request(), '');
    await emit(store, 'a');
    await book.update(admin, '1', { active: true }, undefined, '');
    assert.equal(book.byId(1)?.afterEvent, 0, 'it was active all the time');
    await book.update(admin, '1', { active: false }, undefined, '');
    assert.equal(book.byId(1)?.afterEvent, 0);
    await emit(store, 'b');
    await book.update(admin, '1', { active: false, name: 'MES' }, undefined, '');
    await emit(store, 'c');
    await book.update(admin, '1', { active: true }, undefined, '');
    assert.equal(book.byId(1)?.afterEvent, 3);
  });

  it('is refused with every reason, and stays', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, egress } = rig;
    await book.subscribe(admin, request(), '');
    const before = stateOf(rig);
    await assert.rejects(
      book.update(admin, '1', { name: ' ', url: 'https://forbidden/', scopes: ['INTERNAL'] }, undefined, ''),
      refused('INVALID_ARGUMENT', [
        '/name must be 1 to 128 printable ASCII characters with no space at either end',
        '/scopes/0 is not open to the consumer',
        '/url: the address is not public',
        '/url: port 22 is not open',
      ]),
    );
    await assert.rejects(book.update(admin, '1', {}, undefined, ''), refused('INVALID_ARGUMENT'));
    await assert.rejects(book.update(admin, '1', { active: false }, 2, ''), refused('STALE_VERSION'));
    assert.deepEqual(stateOf(rig), before);
    await book.update(admin, '1', { active: false }, 1, '');
    assert.equal(egress.asked.length, 2, 'a URL that stays is not judged again');
  });

  it('holds what both of two patches at a time have said; of two for one version the second is stale', async (t) => {
    const { book } = subscriptionsRig(t);
    await book.subscribe(admin, request(), '');
    await Promise.all([
      book.update(admin, '1', { name: 'MES' }, undefined, ''),
      book.update(admin, '1', { active: false }, undefined, ''),
    ]);
    const { name, active, version } = book.subscription('1');
    assert.deepEqual([name, active, version], ['MES', false, 3]);
    const both = await Promise.allSettled([
      book.update(admin, '1', { name: 'A' }, 3, ''),
      book.update(admin, '1', { name: 'B' }, 3, ''),
    ]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    assert.ok(both[1]?.status === 'rejected' && refused('STALE_VERSION')(both[1].reason));
    assert.equal(book.subscription('1').name, 'A');
  });

  it('is what was committed last, also when changes and its deletion have waited for an import together', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store } = rig;
    await book.subscribe(admin, request(), '');
    await book.subscribe(admin, request(), '');
    let end = (): void => {};
    const held = store.hold(() => new Promise<void>((resolve) => (end = resolve)));
    const changes: Promise<unknown>[] = [];
    for (let n = 0; n < 20; n++) changes.push(book.update(admin, '1', { name: `n${n}` }, undefined, ''));
    changes.push(book.update(admin, '2', { name: 'late' }, undefined, ''), book.unsubscribe(admin, '2', ''));
    assert.equal(book.subscription('1').version, 1, 'nothing is shown before it is committed');
    end();
    await Promise.all([held, ...changes]);
    assert.deepEqual(book.subscriptions(all), rig.reopen().subscriptions(all));
    assert.equal(book.subscription('1').version, 21);
  });

  it('is in memory what was committed last, whichever of two changes hears of its commit first', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, planner } = rig;
    const ticks = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n++) await Promise.resolve();
    };
    const after = async (count: number, work: () => Promise<unknown>): Promise<void> => {
      await ticks(count);
      await work();
    };
    planner.caughtUp = () => Promise.resolve();
    for (let count = 0; count < 12; count++) {
      const [first, second] = [await book.subscribe(admin, request(), ''), await book.subscribe(admin, request(), '')];
      await Promise.allSettled([
        book.update(admin, first.id, { name: 'MES' }, undefined, ''),
        after(count, () => book.rotateSecret(admin, first.id, { secret: 'another secret of 16' }, '')),
        book.update(admin, second.id, { name: 'MES' }, undefined, ''),
        after(count, () => book.unsubscribe(admin, second.id, '')),
      ]);
      const again = rig.reopen();
      assert.deepEqual(book.all(), again.all(), `${count} turns apart`);
      assert.deepEqual(book.secrets(Number(first.id), 0), again.secrets(Number(first.id), 0));
    }
  });
});

describe('a deleted subscription', () => {
  it('is nowhere any more, and its sealed secret is gone at once', async (t) => {
    const rig = subscriptionsRig(t);
    const { book } = rig;
    await book.subscribe(admin, request(), '');
    await book.rotateSecret(admin, '1', { secret: 'another secret of 16' }, '');
    await book.unsubscribe(admin, '1', 'not used');
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

describe('the book', () => {
  it('is changed, and tells of it, when the commit has succeeded', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store, consumers } = rig;
    const told: unknown[] = [];
    book.onChanged((id) => told.push([id, store.connection.inTransaction, id === undefined || book.byId(id)?.version]));
    const arrays = new Set([book.all()]);
    const step = async (work: () => unknown): Promise<void> => {
      await work();
      assert.ok(!arrays.has(book.all()), 'a new array');
      arrays.add(book.all());
    };
    await step(() => book.subscribe(admin, request(), ''));
    await step(() => book.update(admin, '1', { active: false }, undefined, ''));
    await step(() => book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await step(() => consumers.set('anna', ['PUBLIC', 'INTERNAL']));
    await step(() => book.unsubscribe(admin, '1', ''));
    assert.deepEqual(told, [
      [1, false, 1],
      [1, false, 2],
      [1, false, 3],
      [undefined, false, true],
      [1, false, undefined],
    ]);
  });

  it('stays as it was when the commit fails, and so does the file', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store } = rig;
    const made = await book.subscribe(admin, request(), '');
    store.connection.exec(
      "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END",
    );
    const before = stateOf(rig);
    const allBefore = book.all();
    const told: unknown[] = [];
    book.onChanged((id) => told.push(id));
    const fails = (work: Promise<unknown>): Promise<void> => assert.rejects(work, /disk is full/);
    await fails(book.subscribe(admin, request(), ''));
    await fails(book.update(admin, '1', { name: 'MES', active: false }, undefined, ''));
    await fails(book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await fails(book.unsubscribe(admin, '1', ''));
    assert.deepEqual(stateOf(rig), before);
    assert.equal(book.all(), allBefore);
    assert.deepEqual(book.subscription('1'), made);
    assert.deepEqual(book.secrets(1, 0), { current: request().secret, previous: undefined });
    assert.deepEqual(told, []);
  });

  it('is asked for the budget by every change', async (t) => {
    const { book, keyFile } = subscriptionsRig(t, {}, { minFreeBytes: Number.MAX_SAFE_INTEGER });
    await assert.rejects(book.subscribe(admin, request(), ''), refused('STORAGE_FULL'));
    assert.equal(existsSync(keyFile), false);
  });
});

describe('the planner', () => {
  it('has caught up before a change, and its cursor is stored with it', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store } = rig;
    await emit(store, 'a');
    await book.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 1);
    await emit(store, 'b');
    await book.update(admin, '1', { name: 'MES' }, undefined, '');
    assert.equal(storedCursor(rig), 2);
    await emit(store, 'c');
    await book.unsubscribe(admin, '1', '');
    assert.equal(storedCursor(rig), 3);
    store.connection.exec('UPDATE webhook_progress SET last_event = 9');
    await book.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 9, 'it is never set back');
    store.connection.exec('DELETE FROM webhook_progress');
    await book.subscribe(admin, request(), '');
  });

  it('plans what was committed while the change waited by what the subscription was', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store, planner } = rig;
    await book.subscribe(admin, request(), '');
    planner.calls = 0;
    planner.afterwards = () => (planner.calls < 4 ? emit(store, `k${planner.calls}`) : Promise.resolve());
    await book.update(admin, '1', { active: false }, 1, '');
    assert.deepEqual([planner.calls, planner.at, lastEvent(store)], [4, 3, 3]);
    planner.afterwards = () => emit(store, `m${planner.calls}`);
    const before = stateOf(rig);
    await assert.rejects(book.update(admin, '1', { name: 'MES' }, undefined, ''), refused('TOO_MANY'));
    assert.equal(planner.calls, 9, 'it is not tried for ever');
    assert.deepEqual(stateOf(rig), before);
  });

  it('that cannot plan keeps the subscriptions as they are', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, planner } = rig;
    await book.subscribe(admin, request(), '');
    const before = stateOf(rig);
    planner.caughtUp = () => Promise.reject(new RangeError('planning fails'));
    await assert.rejects(book.update(admin, '1', { name: 'MES' }, undefined, ''), RangeError);
    await assert.rejects(book.unsubscribe(admin, '1', ''), RangeError);
    await assert.rejects(book.subscribe(admin, request(), ''), RangeError);
    assert.deepEqual(stateOf(rig), before);
  });
});

describe('the consumer of a subscription', () => {
  const state = ({ book }: SubscriptionsRig): unknown => {
    const known = book.byId(1);
    assert.ok(known !== undefined);
    return [book.openScopes(known), book.blocked(known) !== '', book.subscription('1').blocked];
  };

  it('opens its scopes as they are now; without any, or without the consumer, nothing is sent', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, consumers } = rig;
    await book.subscribe(admin, request({ consumer: 'ivan', scopes: ['INTERNAL', 'PUBLIC'] }), '');
    assert.deepEqual(state(rig), [['PUBLIC', 'INTERNAL'], false, '']);
    consumers.set('ivan', ['PUBLIC']);
    const part = 'nothing of INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [['PUBLIC'], false, part], 'the rest is sent');
    consumers.set('ivan', ['RESTRICTED']);
    const none = 'nothing of PUBLIC and INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [[], true, none]);
    consumers.set('ivan', undefined);
    assert.deepEqual(state(rig), [[], true, 'its consumer, the token ivan, is gone']);
    await book.update(admin, '1', { active: false }, undefined, '');
    assert.equal(book.subscription('1').blocked, '', 'it is not active: that is reason enough');
    await assert.rejects(book.update(admin, '1', { scopes: ['PUBLIC'] }, undefined, ''), refused('INVALID_ARGUMENT'));
    consumers.set('ivan', ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    const back = await book.update(admin, '1', { active: true }, undefined, '');
    assert.deepEqual([back.scopes, back.blocked], [['PUBLIC', 'INTERNAL'], ''], 'no scope comes by itself');
  });

  it('bounds what anybody chooses later', async (t) => {
    const { book } = subscriptionsRig(t);
    await book.subscribe(admin, request({ consumer: 'tess', scopes: ['RESTRICTED'] }), '');
    const renamed: Subscription = await book.update(admin, '1', { name: 'MES' }, undefined, '');
    assert.deepEqual(renamed.scopes, ['RESTRICTED'], 'changed by one to whom RESTRICTED is closed');
    const widened = await book.update(admin, '1', { scopes: ['RESTRICTED', 'INTERNAL'] }, undefined, '');
    assert.deepEqual(widened.scopes, ['INTERNAL', 'RESTRICTED']);
  });
});
