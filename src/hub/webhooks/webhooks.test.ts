import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it, type TestContext, test } from 'node:test';
import { Alerts } from '../../shared/base/alerts.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { wellWebhooks } from '../health/well.fixture.ts';
import { author, temporaryStore } from '../outbox/change-store.fixture.ts';
import { emitEvent, recordEvent } from '../outbox/event.fixture.ts';
import { type Scope, scopes } from '../outbox/event.ts';
import { deliveriesIn, turnsUntil } from './delivery/planner.fixture.ts';
import type { WebhookStatus } from './face.ts';
import { openWebhooks, webhookRules } from './webhooks.ts';

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
    await rig.store.commit(author, (change) => emitEvent(change, recordEvent('P-1')));
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
  await rig.store.commit(author, (change) => emitEvent(change, recordEvent('P-1')));
  rig.clock.advance(1_000);
  await turnsUntil('the event is planned', () => deliveriesIn(rig.store).length === 1);
  const { items } = webhooks.admin.deliveries(
    { name: 'anna', scopes: [] },
    {
      limit: 10,
      cursor: undefined,
      state: undefined,
      subscription: undefined,
    },
  );
  const [seconds = 0] = items.map(({ nextAttemptInSeconds }) => nextAttemptInSeconds ?? 0);
  assert.ok(seconds > 30 && seconds <= 60, `in ${seconds} s`);
});

function fires(changes: Partial<WebhookStatus>): readonly string[] {
  const found = new Alerts(webhookRules).look({ ...wellWebhooks, ...changes }, 0);
  return found.map(({ name, severity, value, summary }) => `${severity} ${name} ${value}: ${summary}`);
}

const offline = /12 wait, and the device is offline \(no route, or no remote host takes a connection\)$/;
const review = /^warning RefdataWebhookDeliveriesForReview 2: \d webhook deliveries were rejected and \d have failed/;
const table: readonly (readonly [changes: Partial<WebhookStatus>, ...fires: readonly RegExp[]])[] = [
  [{}],
  [{ oldestDueSeconds: 900, waiting: 1_000_000, offline: true }],
  [
    { oldestDueSeconds: 901, waiting: 7 },
    /^warning RefdataWebhookLagHigh 901: .* due for 901 s, more than 900; 7 wait$/,
  ],
  [{ oldestDueSeconds: 4_000, waiting: 12, offline: true }, offline],
  [{ rejected: 2 }, review],
  [{ failed: 2 }, review],
  [{ rejected: 1, failed: 1 }, review],
  [{ blockedSubscriptions: 1 }, /^critical RefdataWebhookSubscriptionBlocked 1: /],
];
for (const [changes, ...expected] of table) {
  test(`of ${JSON.stringify(changes)} just that is reported`, () => {
    const found = fires(changes);
    assert.equal(found.length, expected.length);
    for (const [at, pattern] of expected.entries()) assert.match(found[at] ?? '', pattern);
  });
}
