/**
 * Delivery in a real browser, at the real product with a real subscriber and a broker that nothing reaches: why an event was not
 * published, dead letters, deliveries by state and answer, each sent again one by one and counted.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import Database from 'better-sqlite3';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Subscription } from '../../src/shared/gen/http.ts';
import { startHub } from '../e2e/hub.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { apiOf, create, dictionary, expect, update } from '../e2e/hub-support.ts';
import { type Receiver, startReceiver } from '../e2e/webhook-receiver.ts';
import { deliveriesWhen, SECRET, subscribe, webhooksConfig } from '../e2e/webhooks-support.ts';
import { assertAccessible, browserMissing, closePages, LIMIT_MS, type Opened } from './browser.ts';
import { type Product, startProduct } from './product.ts';

/** What a user of the interface, or a subscriber, may try: shown as text, never run. */
const EVIL = '"><img src=x onerror="globalThis.evil=1">{{7*7}}';
const PHONE = { width: 390, height: 844, touch: true } as const;
const DEAD_LETTERS = '/api/v1/admin/outbox/dead-letters';

describe('the console: delivery', { skip: browserMissing }, () => {
  let product: Product;
  let receiver: Receiver;
  let api: HubApi;
  let erp: Subscription;

  before(async () => {
    receiver = await startReceiver(undefined, { secrets: [SECRET] });
    const dir = await withDeadLetters();
    // Port 1 refuses connections.
    const kafka = { bootstrap: '127.0.0.1:1', security_protocol: 'plaintext' };
    product = await startProduct({ ...webhooksConfig([receiver]), kafka }, dir);
    api = new HubApi(product.box.address, product.tokens.chief);
    await receiver.script([{ status: 410, body: `Gone ${EVIL}`, times: 2 }], '/erp');
    await receiver.script([{ status: 500, times: 1_000 }], '/mes');
    erp = await subscribe(api, receiver, 'erp');
    await create(api, 'site.rooms', EVIL, { name: 'Control room' });
    await update(api, 'site.rooms', EVIL, 1, { name: 'Office' });
    await deliveriesWhen(api, erp.id, 'both were rejected', (all) => all.every(({ state }) => state === 'rejected'));
    const mes = await subscribe(api, receiver, 'mes');
    await create(api, 'site.rooms', 'shed', { name: 'Shed' });
    await deliveriesWhen(api, mes.id, 'it is retrying', (all) => all.some(({ state }) => state === 'retrying'));
  });
  afterEach(closePages);

  test('the events of a record that wait are found from the record, each with its reason', async () => {
    const opened = await product.enter('chief', `#/data/site.rooms/${encodeURIComponent(EVIL)}`, PHONE);
    await opened.click('link', 'Events that are not published yet');
    await opened.sees(/created[\s\S]*the broker[\s\S]*updated/, '.waiting');
    await opened.sees(/Connection refused/i, '.waiting');
    await opened.sees(/unreachable for .*Connection refused/i, '.facts');
    await opened.misses('shed', '.waiting');
    await opened.sees('There are none.', '.dead');
    await assertAccessible(opened, 'delivery, outbox');
    assert.equal(await opened.page.evaluate(() => Reflect.get(globalThis, 'evil') ?? 'nothing ran'), 'nothing ran');
    await opened.fill('Business key', 'shed');
    await opened.sees('site.rooms:shed', '.waiting');
    assert.deepEqual(await opened.texts('.waiting tbody th'), ['site.rooms:shed']);
    assert.equal(await filterIn(opened), 'dictionary=site.rooms&businessKey=shed');
    await opened.fill('Business key', 'shed 2');
    await opened.sees('No event of these waits', '.waiting');
    await opened.click('link', 'Webhooks');
    await opened.sees('erp', '.deliveries');
    await opened.page.goBack();
    await opened.sees('No event of these waits', '.waiting');
    // Three requests fail, for one reason.
    await opened.intercept(/\/api\/v1\/admin\//, (request) => request.abort());
    await opened.sees('The box does not answer', 'main .problem');
    assert.equal((await opened.texts('main .problem')).length, 1);
  });

  test('dead letters are sent again and discarded, many at once: each result is counted, and a refusal has its reason', async () => {
    const opened = await product.enter('chief', '#/delivery/outbox');
    await opened.sees('Broker: Message size too large', '.dead');
    await opened.click('.dead .selection input', '');
    await opened.click('button', 'Send 3 again…');
    await opened.fill('Reason', 'the broker takes more now');
    const { items = [] } = await expect(200, api.get(`${DEAD_LETTERS}?businessKey=huge`));
    await expect(204, api.post(`${DEAD_LETTERS}/${String(items[0]?.['id'])}/discard`, { changeReason: 'first' }));
    await opened.click('button', 'Send again');
    await opened.sees('2 queued, 1 refused', 'dialog');
    await opened.sees(/site\.rooms:huge: there is no dead letter \d+/, 'dialog');
    await assertAccessible(opened, 'delivery, result of sending again');
    await opened.click('button', 'Close');
    await opened.sees('There are none.', '.dead');
    await opened.sees('site.rooms:large', '.waiting');
    const { body } = await api.get('/api/v1/admin/audit?limit=5&action=outbox.requeue');
    assert.equal(JSON.stringify(body?.items).match(/the broker takes more now/g)?.length, 2);
  });

  test('deliveries are found by their answer, read, and sent again, many at once', async () => {
    const opened = await product.enter('chief', '#/delivery/webhooks?state=rejected', PHONE);
    await opened.sees(/rejected[\s\S]*410/, '.deliveries');
    await opened.misses('mes', '.deliveries');
    await assertAccessible(opened, 'delivery, webhooks');
    await opened.choose('State', '');
    await opened.fill('Status of the last answer', '50');
    await opened.sees('"50" is no status of HTTP', 'search');
    await opened.fill('Status of the last answer', '500');
    await opened.misses('erp', '.deliveries');
    assert.equal(await filterIn(opened), 'statusCode=500');
    await opened.click('button', /mes \d{4}-.*/);
    await opened.sees('"businessKey":"shed"', 'dialog');
    await opened.click('button', 'Close');
    await opened.fill('Status of the last answer', '410');
    await opened.click('button', /erp \d{4}-.*/);
    await opened.sees(`Gone ${EVIL}`, 'dialog');
    await assertAccessible(opened, 'delivery, one delivery');
    assert.equal(await opened.page.evaluate(() => Reflect.get(globalThis, 'evil') ?? 'nothing ran'), 'nothing ran');
    await opened.click('button', 'Close');
    await opened.fill('Status of the last answer', '');
    await opened.page.keyboard.press('Backspace');
    await opened.sees('mes', '.deliveries');
    await until('all rows', async () => (await opened.texts('.deliveries tbody tr')).length === 4, LIMIT_MS);
    await opened.click('.deliveries .selection input', '');
    await opened.click('button', 'Send 4 again…');
    await opened.fill('Reason', 'it wants them now');
    await opened.click('button', 'Send again');
    await opened.sees('3 queued, 1 refused', 'dialog');
    await opened.sees(/mes \d{4}.*: delivery \S+ waits already to be sent/, 'dialog');
    await opened.click('button', 'Close');
    await deliveriesWhen(api, erp.id, 'all were taken', (all) => all.every(({ state }) => state === 'delivered'));
    await opened.misses('rejected', '.deliveries');
  });
});

const filterIn = ({ page }: Opened): Promise<string> => page.evaluate(() => location.hash.split('?')[1] ?? '');

/** Data with three dead-lettered events, as after a broker's refusal; refusal by size has its test with a real broker. */
async function withDeadLetters(): Promise<string> {
  const hub = await startHub({ config: { device: { inventory: false } } });
  await dictionary(apiOf(hub), 'site.rooms');
  for (const key of ['large', 'huge', 'vast']) await create(apiOf(hub), 'site.rooms', key, { name: key });
  await hub.stop();
  const db = new Database(join(hub.dir, 'data', 'refdata.db'));
  db.transaction(() => {
    const ids = "SELECT id FROM outbox_events WHERE business_key IN ('large', 'huge', 'vast')";
    assert.equal(db.prepare(`DELETE FROM outbox_waiting WHERE id IN (${ids})`).run().changes, 3);
    db.exec(`INSERT INTO dead_letters
      SELECT id, '2026-03-01T09:30:00+00:00', 3, 'Broker: Message size too large' FROM (${ids})`);
  })();
  db.close();
  return hub.dir;
}
