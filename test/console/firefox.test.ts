/** The console in Firefox: what differs between the browsers is their policy, their streams and their layout. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import Long from 'long';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { dictionary } from '../e2e/hub-support.ts';
import { assertAccessible, closePages, firefoxMissing, openPage, pressWithControl } from './browser.ts';
import { logRaw, openSimulated, type Product, signIn, startProduct } from './product.ts';

describe('the console in Firefox', { skip: firefoxMissing }, () => {
  afterEach(closePages);

  test('every view is shown and accessible, the log is live, a packet is sent, and a record is typed as JSON', async () => {
    const product = await startProduct();
    await openSimulated(product.box);
    const opened = await openPage(product.url, { browser: 'firefox', width: 390, height: 844 });
    await signIn(opened, product.tokens.chief);
    await opened.sees('Live', '#feed');
    await logRaw(product.box, 'seen in Firefox');
    await opened.sees('seen in Firefox', '.rows');
    await opened.fill('Text', 'PING\\r');
    await opened.click('button', 'Send');
    await opened.sees('5 bytes sent', '.send');
    await opened.sees('PING\\r', '.rows');
    // Its policy for WebSockets, style sheets and keys is its own.
    await opened.choose('Show', 'terminal');
    await opened.sees('Connected', '#terminal-state');
    await opened.page.click('.screen');
    await opened.page.keyboard.type('ID?');
    await opened.page.keyboard.press('Enter');
    await until('the key is sent', async () => (await lastSent(product)) === 'ID?\r');
    await opened.choose('Show', 'lines');
    const views = await opened.texts('nav a');
    assert.ok(views.length >= 5, views.join(', '));
    for (const view of views) {
      await opened.click('link', view);
      await opened.find('heading', view);
      await assertAccessible(opened, view);
    }
    // A selection in a shadow root is its own, too.
    const { page } = opened;
    await dictionary(new HubApi(product.box.address, product.tokens.chief), 'site.rooms', 'PUBLIC');
    await opened.show('#/data/site.rooms');
    await opened.click('button', 'New record…');
    await opened.fill('Business key', 'hall');
    await opened.fill('Data', '{"floor": 1.50');
    await page.keyboard.press('Tab');
    assert.equal(await opened.focused(), 'input: Reason');
    await opened.tabTo('div: Data', true);
    await pressWithControl(page, 'a');
    await page.keyboard.press('Backspace');
    assert.equal(await opened.valueOf('Data'), '');
    await pressWithControl(page, 'z');
    await pressWithControl(page, 'End');
    await page.keyboard.type(', "name": "Hall"}');
    await assertAccessible(opened, 'JSON editor');
    await opened.click('button', 'Save');
    await opened.sees(/"floor": 1\.5,\s*"name": "Hall"/, '.dump');
  });
});

/** What the newest entries that were sent have together, from the last line end on. */
async function lastSent({ box }: Product): Promise<string> {
  let sent = '';
  const last = { last: true, limit: Long.fromNumber(10, true), dirs: [0] };
  for await (const { entries } of box.client.line.readLog(last))
    sent += entries.map(({ entry }) => Buffer.from(entry?.rawData ?? []).toString('latin1')).join('');
  return /[^\r]*\r?$/.exec(sent)?.[0] ?? '';
}
