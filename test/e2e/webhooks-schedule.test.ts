/**
 * Deliveries that are not accepted: the schedule by the subscriber's own clock, its end, and what an operator does then;
 * servers that fail as a whole and recover.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Toml } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import { alerts, apiOf, auditOf, create, dictionary, expect } from './hub-support.ts';
import { type CliOutcome, runCli } from './run-cli.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  assertSameBytes,
  deliveriesOf,
  deliveriesWhen,
  deliveryWhen,
  HOOKS,
  hasEnded,
  SECRET,
  subscribe,
  webhookStatus,
  webhooksConfig,
} from './webhooks-support.ts';

const SCHEDULE_S = [0, 0, 1, 2, 1];
/** The hub reckons in whole milliseconds. */
const ROUNDING_S = 0.001;
const OWN_NAMES = 'DNS:localhost,IP:127.0.0.1';

/** Its paths are subscribers. */
let receiver: Receiver;
/** Its whole server fails. */
let failing: Receiver;
let hub: Hub;
let api: HubApi;
/** Tries again each second for a minute: a server is repaired before the attempts are used up, also on a busy machine. */
let persistent: Hub;

before(async () => {
  const start = () => startReceiver(undefined, { secrets: [SECRET] });
  [receiver, failing] = await Promise.all([start(), start()]);
  const startWith = (more: Toml) => startHub({ config: webhooksConfig([receiver, failing], more) });
  [hub, persistent] = await Promise.all([
    startWith({ schedule_s: SCHEDULE_S }),
    startWith({ schedule_s: [0, 0, ...Array<number>(60).fill(1)] }),
  ]);
  api = apiOf(hub);
});

const cli = (...args: string[]): Promise<CliOutcome> => runCli(args, { env: { LINESIDE_HTTP_SOCKET: hub.socket } });

describe('webhooks', { concurrency: true }, () => {
  test('the schedule counts from the end of each attempt; then operators are notified, and can resend the same bytes', async () => {
    const answerAfterS = 0.3;
    await dictionary(api, 'schedule');
    await receiver.script([{ status: 503, body: 'busy', delayS: answerAfterS, times: 5 }], '/scheduled');
    const { id } = await subscribe(api, receiver, 'scheduled', { dictionaries: ['schedule'] });
    await create(api, 'schedule', 'one', { text: 'größer' });
    const failed = await deliveryWhen(api, id, hasEnded);
    const { deliveryId } = failed;
    assert.deepEqual([failed.state, failed.attempts], ['failed', SCHEDULE_S.length]);
    assertSameBytes(receiver, '/scheduled', failed);
    assertTimes('/scheduled', answerAfterS, SCHEDULE_S);

    const listed = await expect(200, api.get(`${HOOKS}/deliveries?state=failed&limit=200`));
    assert.ok(listed.items?.some((one) => one['deliveryId'] === deliveryId));
    assert.ok((await alerts(api)).includes('RefdataWebhookDeliveriesForReview'));
    assert.ok((await webhookStatus(api)).failed >= 1);
    const { text } = await api.get('/metrics');
    assert.match(text, /^lineside_webhook_deliveries_for_review\{state="failed"\} [1-9]/m);
    assert.match(text, /^lineside_webhook_attempts_total\{cause="http"\} ([5-9]|\d\d)/m);
    assert.match((await cli('webhook', 'deliveries', '--state', 'failed')).stdout, new RegExp(`${deliveryId} +FAILED`));
    const shown = (await cli('webhook', 'delivery', deliveryId)).stdout;
    assert.equal(shown.match(/HTTP 503|503/g)?.length ?? 0, SCHEDULE_S.length, shown);
    const body = await cli('webhook', 'delivery', deliveryId, '--body');
    assert.deepEqual(body.bytes, receiver.requests('/scheduled')[0]?.raw);

    const retried = await cli('webhook', 'retry', deliveryId, '--reason', 'is fixed');
    assert.equal(retried.status, 0, retried.stderr);
    const delivered = await deliveryWhen(api, id, ({ state }) => state === 'delivered');
    assert.equal(delivered.attempts, SCHEDULE_S.length + 1);
    assert.equal((await expect(200, api.post(`${HOOKS}/deliveries/${deliveryId}/resend`, {})))['state'], 'pending');
    const again = await deliveryWhen(api, id, ({ attempts }) => attempts === SCHEDULE_S.length + 2);
    assertSameBytes(receiver, '/scheduled', again);
    const reasons = (await auditOf(api, 'webhook.resent')).map((one) => JSON.stringify(one));
    assert.ok(reasons.some((one) => one.includes(deliveryId) && one.includes('is fixed')));
  });

  test('a server that fails as a whole: why, in words; and all is delivered when it is repaired', async () => {
    const table: readonly (readonly [cause: string, message: RegExp, fail: () => Promise<void>])[] = [
      ['connect', /refused the connection$/, () => failing.listen(false)],
      ['tls', /has expired/, () => failing.certificate(OWN_NAMES, 'expired')],
      ['tls', /authority that is not known here/, () => failing.certificate(OWN_NAMES, 'other')],
    ];
    const fixing = apiOf(persistent);
    await dictionary(fixing, 'fixed');
    const { id } = await subscribe(fixing, failing, 'fixed', { dictionaries: ['fixed'] });
    for (const [at, [cause, message, fail]] of table.entries()) {
      await fail();
      // Connections made with the previous certificate would be reused.
      if (at > 0) await cutAll();
      await create(fixing, 'fixed', `change ${at}`, {});
      const one = await until('two attempts have failed', async () => {
        const found = (await deliveriesOf(fixing, id))[at];
        return found !== undefined && found.attempts >= 2 && found;
      });
      assert.deepEqual([one.state, one.lastAttempt?.cause, one.lastAttempt?.statusCode], ['retrying', cause, null]);
      assert.match(one.lastAttempt?.message ?? '', message);
      assert.equal(failing.requests().length, at, 'nothing was said to whom is not trusted');
      await failing.certificate(OWN_NAMES);
      await failing.listen(true);
      await deliveriesWhen(fixing, id, 'it is delivered', (all) => all[at]?.state === 'delivered');
    }
  });

  async function cutAll(): Promise<void> {
    await failing.listen(false);
    await failing.listen(true);
  }
});

/** No attempt came before its time; `answerS`: how long the subscriber took to answer each. */
function assertTimes(path: string, answerS: number, scheduleS: readonly number[]): void {
  const requests = receiver.requests(path);
  for (const [at, { at: began }] of requests.entries()) {
    const before = requests[at - 1];
    const leastS = answerS + (scheduleS[at] ?? Number.NaN) - ROUNDING_S;
    assert.ok(before === undefined || began - before.at >= leastS, `${path}: attempt ${at + 1} came too early`);
  }
}

test('the subscribers found nothing wrong with any request', async () => {
  for (const one of [receiver, failing]) assertFaultless(one);
  for (const one of [hub, persistent]) assert.equal(await one.stop(), 0);
});
