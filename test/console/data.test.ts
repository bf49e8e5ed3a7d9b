/** Reference data in a real browser at the real product: tables by schema, records, their changes and history. */
import assert from 'node:assert/strict';
import { afterEach, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { create, dictionary, expect, update } from '../e2e/hub-support.ts';
import { browserMissing, closePages, LIMIT_MS } from './browser.ts';
import { type Product, startProduct } from './product.ts';

/** What a user of the interface may try in a record, a title, a key: shown as text, never run. */
const EVIL = '"><img src=x onerror="globalThis.evil=1">{{7*7}}';

const schema = {
  type: 'object',
  required: ['name'],
  properties: {
    name: { type: 'string', title: 'Name', minLength: 1 },
    floor: { type: 'integer', title: EVIL },
    heated: { type: 'boolean', title: 'Heated' },
  },
};

describe('the console: data', { skip: browserMissing }, () => {
  let product: Product;
  let api: HubApi;

  before(async () => {
    product = await startProduct();
    api = new HubApi(product.box.address, product.tokens.chief);
    await dictionary(api, 'site.rooms', 'PUBLIC', { title: `Rooms ${EVIL}`, schema });
    await create(api, 'site.rooms', 'room 12/a', { name: 'Control room', floor: 2 });
    await create(api, 'site.rooms', EVIL, { name: EVIL, floor: -1 });
    await create(api, 'site.rooms', 'shed', { name: 'Shed', floor: 0 });
    await expect(200, api.post('/api/v1/dictionaries/site.rooms/bulk-close', { businessKeys: ['shed'] }));
  });
  afterEach(closePages);

  test('records are a table by their schema, found by their keys, closed ones too; nothing of them runs', async () => {
    const opened = await product.enter('reader', '#/data');
    await opened.sees('Rooms ">', '.table');
    await opened.click('link', 'site.rooms');
    await opened.sees('Control room', '.table');
    await opened.misses('Shed', '.table');
    const heads = ['Business key', 'Name', EVIL, 'Heated', 'Version', 'Valid'];
    assert.deepEqual(await opened.texts('.table thead th'), heads);
    await opened.choose('Show', 'all');
    await opened.sees(/shed[\s\S]*closed at/, '.table');
    await opened.fill('Business key begins with', 'ro');
    await opened.misses('shed', '.table');
    await opened.fill('Business key begins with', 'none');
    await opened.sees('No business key begins with "none"');
    await opened.fill('Business key begins with', '">');
    await opened.sees('">', '.table');
    await opened.click('link', EVIL);
    await opened.sees('Version 1', 'main');
    // The list is as it was left.
    await opened.page.goBack();
    await opened.sees('">', '.table');
    assert.equal(await opened.page.$eval('main input', (one) => one.value), '">');
    assert.deepEqual(
      await opened.page.evaluate(() => [Reflect.get(globalThis, 'evil') ?? null, document.images.length]),
      [null, 0],
    );
    assert.deepEqual(await opened.texts('nav a'), ['Data']);
    assert.deepEqual(await opened.texts('button'), ['Sign out']);
  });

  test('a writer closes several records at once', async () => {
    for (const key of ['tank 1', 'tank 2']) await create(api, 'site.rooms', key, { name: key });
    const opened = await product.enter('clerk', '#/data/site.rooms');
    await opened.fill('Business key begins with', 'tank');
    await opened.misses('room 12/a', '.table');
    await opened.click('.selection input', '');
    await opened.click('button', 'Close 2…');
    await opened.fill('Reason', 'scrapped');
    await opened.click('button', 'Close the records');
    await opened.sees('2 records are closed.');
    await opened.sees('No business key begins with');
    await opened.choose('Show', 'all');
    await opened.sees(/tank 2[\s\S]*closed at/, '.table');
  });

  test('a writer makes a record, changes it and closes it; its history stays', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms');
    await opened.click('button', 'New record…');
    await opened.find('heading', 'New record');
    await opened.fill('Business key', 'hall ä/1');
    await opened.fill('Data', '{"name": "Hall"');
    await opened.click('button', 'Save');
    await opened.sees(/JSON/, 'dialog .fault');
    await opened.fill('Data', '{"name": "Hall", "floor": 12345678901234567890}');
    await opened.click('button', 'Save');
    // In the words of the box, and nothing of what was typed is lost.
    await opened.sees(/not valid|number/i, 'dialog .problem');
    await opened.fill('Data', '{"name": "Hall", "floor": 1}');
    await opened.fill('Reason', 'built in May');
    await opened.click('button', 'Save');
    await opened.find('heading', 'hall ä/1');
    await opened.sees('built in May');
    await opened.click('button', 'Change…');
    await opened.fill('Data', '{"name": "Hall", "floor": 2}');
    await opened.click('button', 'Save');
    await opened.sees('Version 2 is saved');
    await opened.sees('"floor": 1', '.history');
    await opened.sees(/Valid: \d{4}-\S+ \S+ to \d{4}-/, '.history');
    await opened.click('button', 'Close record…');
    await opened.fill('Reason', 'torn down');
    await opened.click('button', 'Close the record');
    await opened.find('heading', 'Closed with version 3');
    await opened.sees('torn down');
    await opened.misses(/Change…/);
  });

  test('Esc asks before it discards a record that was typed', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms');
    const { page } = opened;
    await opened.click('button', 'New record…');
    await page.keyboard.press('Escape');
    await until('the dialog to close', async () => (await page.$('dialog')) === null, LIMIT_MS);
    await opened.click('button', 'New record…');
    await opened.fill('Business key', 'half typed');
    for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press('Escape');
    await opened.sees('Discard what was typed?', 'dialog');
    await opened.click('button', 'Keep editing');
    await opened.misses('Discard what was typed?', 'dialog');
    const key = await opened.find('field', 'Business key');
    assert.equal(await key.evaluate((one) => (one as HTMLInputElement).value), 'half typed');
    await page.keyboard.press('Escape');
    await opened.click('button', 'Discard');
    await until('the dialog to close', async () => (await page.$('dialog')) === null, LIMIT_MS);
  });

  test('a change on top of a version that is not the newest is refused, and says so', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms/room%2012%2Fa');
    await opened.find('heading', 'Version 1');
    await update(api, 'site.rooms', 'room 12/a', 1, { name: 'Office', floor: 3 });
    await opened.click('button', 'Change…');
    await opened.click('button', 'Save');
    await opened.sees('The version has changed meanwhile', 'dialog .problem');
  });
});
