import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import type { SubscriptionPatch } from '../face.ts';
import type { Subscription } from './subscription.ts';
import {
  admin,
  request,
  rowsOf,
  type SubscriptionsRig,
  secretText,
  subscribedRig,
  subscriptionsRig,
} from './subscriptions.fixture.ts';
import type { Subscriptions } from './subscriptions.ts';

const next = { secret: 'the second secret, long enough' };
const third = { secret: 'the third secret, long enough' };

function subscription(cache: Subscriptions, id: number): Subscription {
  const found = cache.byId(id);
  assert.ok(found !== undefined);
  return found;
}

function previousOf(rig: SubscriptionsRig): unknown[] {
  return rowsOf(rig, 'SELECT previous_secret, previous_until_run_ms FROM webhook_subscriptions WHERE id = 1');
}

describe('a rotated secret', () => {
  it('signs at once, the old one beside it for a day of running time', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, running, clock } = rig;
    clock.advance(1);
    const rotated = await cache.rotateSecret(admin, '1', next, 'leaked');
    assert.equal(rotated.version, 2);
    assert.ok(rotated.updatedAt > rotated.createdAt);
    const until = running.ms + 86_400_000;
    for (const each of [cache, rig.reopen()]) {
      assert.deepEqual(each.secrets(1, running.ms), { current: next.secret, previous: secretText });
      assert.deepEqual(each.secrets(1, until - 1), { current: next.secret, previous: secretText });
      assert.deepEqual(each.secrets(1, until), { current: next.secret, previous: undefined });
    }
    const [audit] = rowsOf(rig, "SELECT actor, subject, details FROM audit WHERE action = 'webhook.secret_rotated'");
    assert.deepEqual(audit, {
      actor: 'anna',
      subject: 'subscription 1 (ERP)',
      details: JSON.stringify({ subscription: 1, version: 2, graceSeconds: 86_400, changeReason: 'leaked' }),
    });
  });

  it('has the grace that is asked for, and one secret before it at most', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, running } = rig;
    await cache.rotateSecret(admin, '1', { ...next, graceSeconds: 60 }, '');
    await cache.rotateSecret(admin, '1', { ...third, graceSeconds: 1 }, '');
    await cache.update(admin, '1', { url: 'https://erp.example/other' }, undefined, '');
    assert.deepEqual(cache.secrets(1, running.ms + 999), { current: third.secret, previous: next.secret });
    assert.deepEqual(cache.secrets(1, running.ms + 1_000), { current: third.secret, previous: undefined });
    await cache.rotateSecret(admin, '1', { ...next, graceSeconds: 0 }, '');
    assert.deepEqual(cache.secrets(1, running.ms), { current: next.secret, previous: undefined });
    assert.deepEqual(previousOf(rig), [{ previous_secret: null, previous_until_run_ms: null }], 'nor is it kept');
    await cache.update(admin, '1', { name: 'MES' }, undefined, '');
    assert.deepEqual(cache.secrets(1, running.ms), { current: next.secret, previous: undefined });
  });

  it('is refused with every reason, and the previous one stays in use', async (t) => {
    const { cache, running } = await subscribedRig(t);
    await assert.rejects(cache.rotateSecret(admin, '1', { secret: 'short', graceSeconds: -1 }, '\ud800'), {
      code: 'INVALID_ARGUMENT',
      reasons: [
        '/secret must have 16 to 1024 bytes in UTF-8',
        '/graceSeconds must be a whole number from 0 to 2592000',
        '/changeReason has half of a surrogate pair, which is no character',
      ],
    });
    assert.deepEqual(cache.secrets(1, running.ms), { current: secretText, previous: undefined });
    assert.equal(cache.subscription('1').version, 1);
  });
});

describe('a secret that cannot be read', () => {
  it('blocks its subscription with the reason, and is repaired by a rotation', async (t) => {
    const rig = await subscribedRig(t);
    await rig.cache.subscribe(admin, request({ name: 'MES' }), '');
    await rig.cache.rotateSecret(admin, '2', next, '');
    rmSync(rig.keyFile);
    const cache = rig.reopen();
    const gone = `there is no key file ${rig.keyFile}`;
    assert.deepEqual(cache.secrets(1, rig.running.ms), { unreadable: gone });
    const blocked = `its secret cannot be read: ${gone} (restore the key; or rotate the secret, then without a grace)`;
    assert.equal(cache.blocked(subscription(cache, 1)), blocked);
    assert.equal(cache.subscription('1').blocked, blocked);
    assert.deepEqual(cache.openScopes(subscription(cache, 1)), ['PUBLIC'], 'its events are planned, and wait');
    const repaired = await cache.rotateSecret(admin, '1', third, '');
    assert.equal(repaired.blocked, '');
    assert.deepEqual(cache.secrets(1, rig.running.ms), { current: third.secret, previous: undefined });
    assert.deepEqual(previousOf(rig), [{ previous_secret: null, previous_until_run_ms: null }]);
    const other = `it was not sealed by the key in ${rig.keyFile}`;
    assert.deepEqual(cache.secrets(2, rig.running.ms), { unreadable: other }, 'the new key opens none of before');
    assert.ok(cache.subscription('2').blocked.includes(other));
  });

  it('is read again once the key is restored, without a restart, and listeners are notified', async (t) => {
    const rig = await subscribedRig(t);
    const backup = join(rig.dir, 'backup');
    renameSync(rig.keyFile, backup);
    const cache = rig.reopen();
    const notified: unknown[] = [];
    cache.onChanged((id) => notified.push(id));
    assert.notEqual(cache.blocked(subscription(cache, 1)), '');
    copyFileSync(backup, rig.keyFile);
    rig.running.ms += 4_999;
    assert.notEqual(cache.blocked(subscription(cache, 1)), '', 'the file is not read each time');
    rig.running.ms += 1;
    assert.equal(cache.blocked(subscription(cache, 1)), '');
    assert.deepEqual(notified, []);
    await turn();
    assert.deepEqual(notified, [undefined]);
    assert.deepEqual(cache.secrets(1, rig.running.ms), { current: secretText, previous: undefined });
  });

  it('of the grace alone blocks nothing', async (t) => {
    const rig = await subscribedRig(t);
    await rig.cache.rotateSecret(admin, '1', next, '');
    rig.store.connection.exec("UPDATE webhook_subscriptions SET previous_secret = x'01ff'");
    const cache = rig.reopen();
    assert.deepEqual(cache.secrets(1, rig.running.ms), { current: next.secret, previous: undefined });
    assert.equal(cache.subscription('1').blocked, '');
  });
});

it('no secret is in the file, the log, the audit, an error or anything that is answered', async (t) => {
  const { logger, lines: said } = recordingLogger();
  const rig = subscriptionsRig(t, { logger });
  const { cache, store } = rig;
  const note = (value: unknown): unknown => said.push(inspect(value, { depth: 20, showHidden: true }));
  const attempt = async (work: () => unknown): Promise<void> => {
    try {
      note(await work());
    } catch (error) {
      note(error);
      note(error instanceof Error ? error.cause : undefined);
    }
  };
  const secrets = [secretText, next.secret, third.secret];
  const [longOne, shortOne] = [`${'long '.repeat(300)}one`, 'too short'];
  await attempt(() => cache.subscribe(admin, request(), ''));
  await attempt(() => cache.subscribe(admin, request({ secret: longOne }), ''));
  await attempt(() => cache.subscribe(admin, request({ secret: shortOne, name: '' }), ''));
  await attempt(() => cache.subscribe(admin, request({ url: 'https://forbidden/', ...third }), ''));
  await attempt(() => cache.subscribe(admin, request({ consumer: third.secret, name: `${third.secret}\n` }), ''));
  await attempt(() => cache.subscribe(admin, request({ dictionaries: [third.secret], scopes: [third.secret] }), ''));
  await attempt(() => cache.subscribe(admin, request({ actions: [third.secret], categories: [third.secret] }), ''));
  await attempt(() => cache.update(admin, '1', third as SubscriptionPatch, undefined, ''));
  await attempt(() => cache.update(admin, '1', { name: 'MES', ...third }, undefined, ''));
  await attempt(() => cache.rotateSecret(admin, '1', next, ''));
  await attempt(() => cache.rotateSecret(admin, '1', third, ''));
  await attempt(() => cache.rotateSecret(admin, '1', { ...third, graceSeconds: -1 }, ''));
  await attempt(() => cache.rotateSecret(admin, third.secret, third, ''));
  await attempt(() => cache.subscriptions({ limit: 1, cursor: third.secret }));
  store.connection.exec("CREATE TRIGGER no BEFORE UPDATE ON webhook_subscriptions BEGIN SELECT RAISE(FAIL, 'no'); END");
  await attempt(() => cache.rotateSecret(admin, '1', next, ''));
  await attempt(() => cache.subscribe(admin, request(), ''));
  store.connection.exec('DROP TRIGGER no');
  writeFileSync(rig.keyFile, 'broken');
  await attempt(() => cache.rotateSecret(admin, '1', next, ''));
  const again = rig.reopen();
  note(again.subscriptions({ limit: 1_000, cursor: undefined }));
  note(again.secrets(1, rig.running.ms));
  for (const each of [cache, again]) note([each, each.all(), each.byId(1), each.blocked(subscription(each, 1))]);
  note(rowsOf(rig, 'SELECT * FROM audit'));
  assert.ok(said.some((line) => line.includes('webhook.secret_rotated')));
  assert.ok(
    said.some((line) => line.includes('a key for the secrets')),
    'the log is seen',
  );
  const files = ['refdata.db', 'refdata.db-wal'];
  assert.deepEqual(
    readdirSync(rig.dir).filter((name) => files.includes(name)),
    files,
  );
  const bytes = Buffer.concat(files.map((name) => readFileSync(join(rig.dir, name))));
  assert.ok(bytes.includes('https://erp.example/hook'), 'the file is seen');
  for (const secret of [...secrets, shortOne, 'long long', secretText.slice(0, 8)]) {
    assert.equal(bytes.includes(secret), false, 'the file');
    assert.deepEqual(
      said.filter((line) => line.includes(secret)),
      [],
    );
  }
});
