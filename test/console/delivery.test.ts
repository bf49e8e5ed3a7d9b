/**
 * Delivery in a real browser, at the real product with a real subscriber and a broker that nothing reaches: why an event was not
 * published, dead letters, deliveries by state and answer, each sent again
 * one by one and counted; a subscription from its first fault to its end.
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
import {
  deliveriesWhen,
  HOOKS,
  patch,
  SECRET,
  subscribe,
  subscription,
  urlOf,
  webhooksConfig,
} from '../e2e/webhooks-support.ts';
import { assertAccessible, browserMissing, closePages, LIMIT_MS, type Opened } from './browser.ts';
import { type Product, startProduct } from './product.ts';

/** What a user of the interface, or a subscriber, may try: shown as text, never run. */
const EVIL = '"><img src=x onerror="globalThis.evil=1">{{7*7}}';
const PHONE = { width: 390, height: 844, touch: true } as const;
/** By which deliveries are signed after the first was replaced. */
const SECOND = 'another secret of 32 characters.';
const DEAD_LETTERS = '/api/v1/admin/outbox/dead-letters';

describe('the console: delivery', { skip: browserMissing }, () => {
  let product: Product;
  let receiver: Receiver;
  let api: HubApi;
  let erp: Subscription;

  before(async () => {
    receiver = await startReceiver(undefined, { secrets: [SECRET, SECOND] });
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
    const inSight = await opened.page.$$eval('.deliveries [data-head="Last answer"]', (cells) =>
      cells.map((one) => {
        const [line] = one.getClientRects();
        return line !== undefined && line.bottom <= (one.closest('tr')?.getBoundingClientRect().bottom ?? 0);
      }),
    );
    assert.deepEqual(inSight, [true, true]);
    await opened.misses('mes', '.deliveries');
    await assertAccessible(opened, 'delivery, webhooks');
    await opened.choose('State', '');
    await opened.fill('HTTP status', '50');
    await opened.sees('"50" is no status of HTTP', 'search');
    await opened.fill('HTTP status', '500');
    await opened.misses('erp', '.deliveries');
    assert.equal(await filterIn(opened), 'statusCode=500');
    await opened.click('button', /mes \d{4}-.*/);
    await opened.sees('"businessKey":"shed"', 'dialog');
    await opened.sees('dictionary.changed: created', 'dialog');
    const record = await opened.find('link', 'site.rooms:shed');
    assert.match(await record.evaluate((one) => (one as HTMLAnchorElement).href), /#\/data\/site\.rooms\/shed$/);
    await opened.click('button', 'Close');
    await opened.fill('HTTP status', '410');
    await opened.click('button', /erp \d{4}-.*/);
    await opened.sees(`Gone ${EVIL}`, 'dialog');
    await assertAccessible(opened, 'delivery, one delivery');
    assert.equal(await opened.page.evaluate(() => Reflect.get(globalThis, 'evil') ?? 'nothing ran'), 'nothing ran');
    await opened.click('button', 'Close');
    await opened.fill('HTTP status', '');
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

  test('a subscription is added after its faults were shown at their fields, tried, changed, paused, and deleted', async () => {
    const opened = await product.enter('chief', '#/delivery/subscriptions', PHONE);
    await opened.sees(/erp[\s\S]*active[\s\S]*\d % of \d/, '.subscriptions');
    await assertAccessible(opened, 'delivery, subscriptions');
    await opened.click('button', 'Add a subscription…');
    await opened.fill('Name', 'größer');
    await opened.fill('URL', 'http://127.0.0.1/hook');
    await opened.fill('Dictionaries', 'site.rooms, Not A Name');
    await opened.fill('Reason', 'for the new line');
    await opened.click('button', 'Add');
    await opened.sees('Something in the request is not valid', 'dialog .problem');
    await faultAt(opened, 'Name', /^name must/);
    await faultAt(opened, 'URL', /^url.*https/i);
    await faultAt(opened, 'Secret', /^secret must have 16 to 1024 bytes/);
    await faultAt(opened, 'Dictionaries', /^dictionaries\/1 is no name/);
    await assertAccessible(opened, 'delivery, a refused subscription');
    await opened.page.keyboard.press('Escape');
    await opened.click('button', 'Keep editing');
    assert.equal(await valueOf(opened, 'Dictionaries'), 'site.rooms, Not A Name');
    await opened.fill('Name', 'scada');
    await opened.fill('URL', urlOf(receiver, '/scada'));
    await opened.fill('Dictionaries', 'site.rooms');
    await opened.click('button', 'Generate a secret');
    assert.match(await valueOf(opened, 'Secret'), /^[\w-]{43}$/);
    await opened.fill('Secret', SECRET);
    await opened.click('button', 'Send a test');
    await opened.sees(/Accepted: HTTP 202 after \d+ ms/, 'dialog');
    await opened.click('button', 'Add');
    await opened.sees(/scada[\s\S]*active[\s\S]*none completed yet/, '.subscription');
    await assertAccessible(opened, 'delivery, one subscription');
    await create(api, 'site.rooms', 'hall', { name: 'Hall' });
    await receiver.received(2, '/scada');
    await opened.sees(/Accepted\s*100 % of 1/, '.subscription');

    await opened.click('button', 'Change…');
    const { id } = await subscriptionOf(api, 'scada');
    await patch(api, id, { actions: ['created'] });
    await opened.fill('Name', 'scada 2');
    await opened.click('button', 'Save');
    await opened.sees('The version has changed meanwhile', 'dialog .problem');
    assert.equal(await valueOf(opened, 'Name'), 'scada 2');
    await opened.click('button', 'Cancel');
    await opened.click('button', 'Discard');
    await opened.sees(/Changes\s*created/, '.subscription');
    await opened.click('button', 'Change…');
    await opened.fill('Name', 'scada 2');
    await opened.click('button', 'Save');
    await opened.sees('Version 3 is saved.');
    assert.deepEqual((await subscription(api, id)).actions, ['created']);

    await opened.click('button', 'Pause…');
    await opened.fill('Reason', 'moving');
    await opened.click('button', 'Pause');
    await opened.sees(/State\s*paused/, '.subscription');
    assert.equal((await subscription(api, id)).active, false);
    await opened.click('button', 'Resume…');
    await opened.click('button', 'Resume');
    await opened.sees(/State\s*active/, '.subscription');

    await receiver.script([{ status: 500, body: EVIL }], '/scada');
    await opened.click('button', 'Send a test…');
    await opened.fill('Secret', SECRET);
    await opened.click('button', 'Send');
    await opened.sees(/Failed \(http\) after \d+ ms: .*500/, 'dialog');
    await opened.sees(EVIL, 'dialog pre');
    await opened.click('button', 'Close');

    await opened.click('button', 'Replace the secret…');
    await opened.fill('Secret', 'short');
    await opened.click('button', 'Replace');
    await faultAt(opened, 'Secret', /^secret must have 16/);
    await opened.fill('Secret', SECOND);
    await opened.choose('The old secret signs as well for', '0');
    await opened.click('button', 'Replace');
    await opened.sees('The secret is replaced.');
    await create(api, 'site.rooms', 'hall 2', { name: 'Hall 2' });
    assert.equal((await receiver.received(4, '/scada')).at(-1)?.signedBy, SECOND);

    await opened.click('button', 'Delete…');
    await opened.fill('Reason', 'größer, weg');
    await opened.click('button', 'Delete permanently');
    await opened.sees('erp', '.subscriptions');
    await opened.misses('scada', '.subscriptions');
    const { body } = await api.get('/api/v1/admin/audit?limit=1&action=webhook.unsubscribed');
    assert.match(JSON.stringify(body?.items), /größer, weg/);
    assert.equal(await opened.page.evaluate(() => Reflect.get(globalThis, 'evil') ?? 'nothing ran'), 'nothing ran');
  });
});

const filterIn = ({ page }: Opened): Promise<string> => page.evaluate(() => location.hash.split('?')[1] ?? '');

/** The fault below a field, which is marked for a screen reader too. */
async function faultAt(opened: Opened, name: string, fault: RegExp): Promise<void> {
  const look = async (): Promise<boolean> => {
    const field = await opened.find('field', name);
    const found = await field.evaluate((one) => [
      one.getAttribute('aria-invalid'),
      document.getElementById(one.getAttribute('aria-describedby') ?? '')?.innerText ?? '',
    ]);
    return found[0] === 'true' && fault.test(found[1] ?? '');
  };
  await until(`${name}: ${fault}`, look, LIMIT_MS);
}

async function valueOf(opened: Opened, name: string): Promise<string> {
  return (await opened.find('field', name)).evaluate((one) => (one as HTMLInputElement).value);
}

async function subscriptionOf(api: HubApi, name: string): Promise<Subscription> {
  const { items = [] } = await expect(200, api.get(`${HOOKS}/subscriptions`));
  const found = (items as unknown as Subscription[]).find((one) => one.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

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
