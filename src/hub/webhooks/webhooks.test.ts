import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { silentLogger } from '../../shared/base/logger.ts';
import { author, recordEvent, temporaryStore } from '../outbox/change-store.fixture.ts';
import { type Scope, scopes } from '../outbox/event.ts';
import { deliveriesIn, turnsUntil } from './delivery/planner.fixture.ts';
import { openWebhooks } from './webhooks.ts';

const local = { name: 'local', scopes };

/** `isKnown`: whether the tokens could be read by now, which are "erp" alone. */
function opened({ store, clock, dir }: ReturnType<typeof temporaryStore>, isKnown: () => boolean, scheduleS = [0]) {
  const scopesOf = (name: string): readonly Scope[] | undefined => {
    if (name === 'local') return scopes;
    return isKnown() ? ['PUBLIC'] : undefined;
  };
  const rules = { scheduleS, timeoutMs: 1_000, caFile: '', allowCidrs: [], allowPorts: [], otherRemotes: [] };
  const keep = {
    keepDeliveredDays: 7,
    keepFailedDays: 30,
    maxBytes: 1e9,
    keyFile: join(dir, 'webhooks.key'),
    version: '1.2.3',
  };
  const consumers = { scopesOf, isKnown, onChanged: () => {} };
  return openWebhooks({ ...rules, ...keep, store, clock, consumers, logger: silentLogger });
}

async function subscribed(t: TestContext) {
  const rig = temporaryStore(t);
  const webhooks = opened(rig, () => true);
  webhooks.start();
  const request = { name: 'ERP', url: 'https://erp.invalid/', secret: 'a secret of the ERP', consumer: 'erp' };
  const { id } = await webhooks.admin.subscribe(local, request, '');
  await webhooks.stop();
  return { rig, id };
}

describe('before it is known who the consumers are', () => {
  it('every subscription is blocked, and says so instead of naming a token that is not gone', async (t) => {
    const { rig, id } = await subscribed(t);
    let known = false;
    const { admin } = opened(rig, () => known);
    assert.match(admin.subscription(id).blocked, /^nothing is planned or sent yet: the tokens file/);
    assert.equal(admin.status().blockedSubscriptions, 1);
    known = true;
    assert.equal(admin.subscription(id).blocked, '');
  });

  it('no change of a subscription plans what waits, which would have no recipients', async (t) => {
    const { rig, id } = await subscribed(t);
    let known = false;
    const webhooks = opened(rig, () => known);
    await rig.store.commit(author, (change) => change.emit(recordEvent('P-1')));
    const { admin } = webhooks;
    const other = { name: 'own', url: 'https://own.invalid/', secret: 'a secret of our own' };
    const refused = { code: 'NOT_READY' };
    await assert.rejects(admin.subscribe(local, other, ''), refused);
    await assert.rejects(admin.update(local, id, { name: 'the ERP' }, undefined, ''), refused);
    await assert.rejects(admin.unsubscribe(local, id, ''), refused);
    await admin.rotateSecret(local, id, { secret: 'another one of the ERP' }, '');
    known = true;
    webhooks.start();
    t.after(() => webhooks.stop());
    rig.clock.advance(1_000);
    await turnsUntil('the event is planned', () => deliveriesIn(rig.store).length === 1);
    assert.equal((await admin.update(local, id, { name: 'the ERP' }, undefined, '')).name, 'the ERP');
  });
});

it('the first attempt is as late as the schedule has it', async (t) => {
  const { rig } = await subscribed(t);
  const webhooks = opened(rig, () => true, [60, 30]);
  webhooks.start();
  t.after(() => webhooks.stop());
  await rig.store.commit(author, (change) => change.emit(recordEvent('P-1')));
  rig.clock.advance(1_000);
  await turnsUntil('the event is planned', () => deliveriesIn(rig.store).length === 1);
  const { items } = webhooks.admin.deliveries({
    limit: 10,
    cursor: undefined,
    state: undefined,
    subscription: undefined,
  });
  const [seconds = 0] = items.map(({ nextAttemptInSeconds }) => nextAttemptInSeconds ?? 0);
  assert.ok(seconds > 30 && seconds <= 60, `in ${seconds} s`);
});
