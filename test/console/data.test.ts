/** Reference data in a real browser at the real product: tables by schema, records, their changes and history. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import type { HTTPRequest } from 'puppeteer-core';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { create, dictionary, expect, update } from '../e2e/hub-support.ts';
import { assertAccessible, browserMissing, closePages, LIMIT_MS, type Opened, pressWithControl } from './browser.ts';
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

const tankSchema = {
  type: 'object',
  required: ['name'],
  properties: {
    name: { type: 'string', title: 'Name', minLength: 1 },
    litres: { type: 'number', title: 'Litres', minimum: 0 },
    tags: { type: 'array', title: 'Tags', items: { type: 'string' } },
    place: { type: 'object', title: EVIL, properties: { street: { type: 'string', title: 'Street' } } },
  },
};

describe('the console: data', { skip: browserMissing }, () => {
  let product: Product;
  let api: HubApi;

  before(async () => {
    product = await startProduct();
    api = new HubApi(product.box.address, product.tokens.chief);
    await dictionary(api, 'site.rooms', 'PUBLIC', { title: `Rooms ${EVIL}`, schema });
    await dictionary(api, 'site.tanks', 'PUBLIC', { title: 'Tanks', schema: tankSchema });
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
    // The schema may come after the records.
    await opened.sees('Heated', '.table thead');
    const heads = ['Business key', 'Name', EVIL, 'Heated', 'Version', 'Valid'];
    assert.deepEqual(await opened.texts('.table thead th'), heads);
    await opened.choose('Show', 'all');
    await opened.sees(/shed[\s\S]*closed at/, '.table');
    await opened.fill('Key begins with', 'ro');
    await opened.misses('shed', '.table');
    await opened.fill('Key begins with', 'none');
    await opened.sees('No business key begins with "none"');
    await opened.fill('Key begins with', '">');
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
    await opened.fill('Key begins with', 'tank');
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
    await opened.click('button', 'JSON');
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
    // Its fields arrive after the dialog.
    await until('the focus on its first field', async () => (await opened.focused()) === 'div: Data', LIMIT_MS);
    await opened.fill('Data', '{"name": "Hall", "floor": 2}');
    await opened.click('button', 'Save');
    await opened.sees('Version 2 is saved');
    await opened.sees('"floor": 1', '.history');
    await opened.sees(/Valid: \d{4}-\S+ \S+ to \d{4}-/, '.history');
    await opened.click('button', 'Close record…');
    // Enter must not close the record.
    assert.equal(await opened.focused(), 'button: Cancel');
    await opened.fill('Reason', 'torn down');
    await opened.click('button', 'Close the record');
    await opened.find('heading', 'Closed with version 3');
    await opened.sees('torn down');
    await opened.misses(/Change…/);
  });

  test('a form by the schema is filled in by keyboard; the fault of the box is at its field; what it does not show is kept', async () => {
    const opened = await product.enter('clerk', '#/data/site.tanks');
    const { page } = opened;
    const data = (): Promise<string> => opened.valueOf('Data');
    await opened.click('button', 'New record…');
    await opened.find('button', 'Form');
    assert.equal(await opened.focused(), 'input: Business key');
    await page.keyboard.type('tank 1');
    await opened.tabTo('input: Name (required)');
    await page.keyboard.type(EVIL);
    await opened.tabTo('input: Litres');
    await page.keyboard.type('-1.50');
    await opened.tabTo('textarea: Tags');
    await page.keyboard.type('red\nold');
    await opened.tabTo('input: Street');
    await page.keyboard.type('Dock 4');
    await assertAccessible(opened, 'record form by its schema');
    await page.keyboard.press('Enter');
    await opened.sees('must be >= 0', 'dialog .fault');
    // The field with the fault has the focus; nothing was lost.
    assert.equal(await opened.focused(), 'input: Litres');
    await opened.click('button', 'JSON');
    const typed = `{
  "name": ${JSON.stringify(EVIL)},
  "litres": -1.50,
  "tags": ["red", "old"],
  "place": {"street": "Dock 4"}
}`;
    assert.equal(await data(), typed);
    await opened.fill('Data', typed.replace('-1.50', '150.0').replace('}\n}', '},\n  "other": [1.0]}'));
    await opened.click('button', 'Form');
    await opened.sees('The data also has other', 'dialog');
    await opened.fill('Litres', '151.0');
    await opened.click('button', 'JSON');
    assert.match(await data(), /"other": \[1\.0\][\s\S]*"litres": 151\.0/);
    await opened.click('button', 'Save');
    await opened.find('heading', 'tank 1');
    await opened.sees(/"litres": 151\b/, '.dump');
  });

  test('the JSON editor marks each fault at its line, undoes, and is left with Tab', async () => {
    const phone = { width: 390, height: 844, dark: true };
    const opened = await product.enter('clerk', '#/data/site.rooms/room%2012%2Fa', phone);
    const { page } = opened;
    const marks = (wanted: RegExp): Promise<unknown> =>
      until(`marks ${wanted}`, async () => wanted.test((await marksOf(opened)).join('\n')), LIMIT_MS);
    await opened.click('button', 'Change…');
    await opened.click('button', 'JSON');
    const before = await opened.valueOf('Data');
    await opened.fill('Data', '{"name": "",\n"floor": 1.50\n}');
    await page.keyboard.press('Tab');
    assert.equal(await opened.focused(), 'input: Reason');
    await page.keyboard.press('Enter');
    await opened.sees(/Line 1: \/data\/name must[\s\S]*Line 2: \/data\/floor must be integer/, 'dialog .problem');
    await marks(/^1\n2\nLine 1: .data.name must.*\nLine 2: .data.floor must be integer$/);
    await assertAccessible(opened, 'JSON editor with faults of the box');
    await opened.tabTo('div: Data', true);
    await pressWithControl(page, 'End');
    await page.keyboard.type(' x');
    await marks(/^3\nLine 3: .*JSON/);
    await assertAccessible(opened, 'JSON editor with a fault of its syntax');
    for (let presses = 0; presses < 10; presses += 1) await pressWithControl(page, 'z');
    assert.equal(await opened.valueOf('Data'), before);
    await page.keyboard.press('Escape');
    await until('the dialog to close', async () => (await page.$('dialog')) === null, LIMIT_MS);
  });

  test('while the JSON editor is not loaded, a plain field is in its place; nothing that is typed there is lost', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms/room%2012%2Fa');
    const { page } = opened;
    const asked: HTTPRequest[] = [];
    await opened.intercept(/json-editor/, (request) => (asked.push(request) === 1 ? request.abort() : undefined));
    await opened.click('button', 'Change…');
    await opened.click('button', 'JSON');
    await opened.fill('Data', '{"name": "Typed", "floor": 1.50}');
    await opened.click('button', 'Form');
    assert.equal(await opened.valueOf('Name (required)'), 'Typed');
    await opened.click('button', 'JSON');
    await until('another request for the editor', async () => asked[1], LIMIT_MS);
    await page.focus('dialog textarea.loading');
    await page.keyboard.type(' ');
    await asked[1]?.continue();
    await page.waitForNetworkIdle();
    assert.equal(await opened.valueOf('Data'), '{"name": "Typed", "floor": 1.50} ');
    assert.equal(await page.$('dialog .code'), null);
  });

  test('an administrator makes a dictionary; drafts of its schema are rejected, withdrawn, and published, and the form follows; its scope is widened', async () => {
    const opened = await product.enter('chief', '#/data', { width: 390, height: 844 });
    await opened.click('button', 'New dictionary…');
    await opened.fill('Name', 'Site Keys');
    await opened.fill('Title', EVIL);
    await opened.choose('Scope', 'INTERNAL');
    await opened.fill('Schema', '{"type": "objekt"}');
    await opened.click('button', 'Save');
    await opened.sees(/a-z|letter/i, 'dialog .fault');
    await opened.sees(/Line 1: \/schema\/type must be/, 'dialog .problem');
    await assertAccessible(opened, 'new dictionary with faults');
    await opened.fill('Name', 'site.keys');
    await opened.fill('Schema', '');
    await opened.click('button', 'Save');
    await opened.find('heading', 'site.keys');
    // Two that others proposed; one of them is in review.
    const drafts = '/api/v1/dictionaries/site.keys/drafts';
    for (const id of [1, 2]) assert.equal((await expect(201, api.post(drafts, { schema })))['id'], id);
    await expect(200, api.post(`${drafts}/1/request-review`, {}));
    await opened.click('summary', 'Schema and drafts');
    await opened.sees('The dictionary has no schema', 'details');
    const take = async (draft: number, step: string, done: string): Promise<void> => {
      await opened.click('button', `${step}…`);
      await opened.find('heading', `Draft ${draft}: ${step}…`);
      await opened.click('button', step);
      await opened.sees(`Draft ${draft} is ${done}.`, 'details');
    };
    await take(1, 'Reject', 'rejected');
    await take(2, 'Withdraw', 'withdrawn');
    await opened.sees(/withdrawn[^]*rejected/, 'details .items');
    assert.deepEqual(await opened.texts('details .items button'), []);
    await opened.click('button', 'New draft…');
    await opened.fill('Schema', '{"properties": {"door": {"type": "string", "title": "Door"}}}');
    await assertAccessible(opened, 'draft of a schema');
    await opened.click('button', 'Save');
    await opened.sees('Draft 3 is saved.', 'details');
    await take(3, 'Request review', 'in review');
    await take(3, 'Approve', 'approved');
    await take(3, 'Publish', 'the schema now');
    await assertAccessible(opened, 'schema and drafts');
    await opened.click('button', 'New record…');
    await opened.find('field', 'Door');
    await opened.page.keyboard.press('Escape');
    await opened.click('button', 'Change title or scope…');
    await opened.choose('Scope', 'PUBLIC');
    await opened.click('button', 'Save');
    await opened.sees('cannot widen the scope', 'dialog .problem');
    await assertAccessible(opened, 'scope of a dictionary that is to be widened');
    await opened.click('dialog input[type=checkbox]', '');
    await opened.click('button', 'Save');
    await opened.sees('PUBLIC', 'main .badge');
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
    assert.equal(await opened.valueOf('Business key'), 'half typed');
    await page.keyboard.press('Escape');
    await opened.click('button', 'Discard');
    await until('the dialog to close', async () => (await page.$('dialog')) === null, LIMIT_MS);
  });

  test('what was typed is offered again after another view and a reload, until it is discarded; nothing stays after sign-out', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms/room%2012%2Fa');
    const kept = 'Text that was typed here is not saved.';
    const data = (): Promise<string> => opened.valueOf('Data');
    await opened.click('button', 'Change…');
    await opened.click('button', 'JSON');
    const before = await data();
    await opened.fill('Data', '{"name": "Half');
    await opened.page.reload();
    await opened.sees(kept, 'main');
    await opened.click('link', 'site.rooms');
    await opened.sees('Not saved: room 12/a', 'main');
    await opened.misses(kept, 'main');
    await opened.click('link', 'room 12/a');
    await opened.click('button', 'Resume editing…');
    assert.equal(await data(), '{"name": "Half');
    await opened.click('button', 'Cancel');
    await opened.sees('Discard what was typed?', 'dialog');
    await opened.click('button', 'Keep editing');
    await assertAccessible(opened, 'record form with text of an earlier time');
    // The one of the note.
    await opened.click('button', 'Discard');
    assert.equal(await data(), before);
    await opened.fill('Data', '{"name": "Second');
    await opened.page.keyboard.press('Escape');
    await opened.click('button', 'Discard');
    await opened.sees('Version 1', 'main');
    await opened.misses(kept, 'main');
    await opened.click('button', 'Change…');
    assert.equal(await data(), before);
    await opened.fill('Reason', 'third');
    await opened.page.reload();
    await opened.sees(kept, 'main');
    await opened.click('button', 'Sign out');
    await opened.find('button', 'Sign in');
    assert.equal(await opened.page.evaluate(() => sessionStorage.length), 0);
  });

  test('if another user was faster, both changes are shown field by field, and one is chosen', async () => {
    await create(api, 'site.rooms', 'contested', { name: 'Hall', floor: 1, heated: true });
    const opened = await product.enter('clerk', '#/data/site.rooms/contested', { width: 390, height: 780 });
    await opened.click('button', 'Change…');
    await opened.click('button', 'JSON');
    await opened.fill('Data', '{"name": "Lab", "floor": 2, "heated": true}');
    await update(api, 'site.rooms', 'contested', 1, { name: EVIL, floor: 1, heated: true });
    await opened.click('button', 'Save');
    await opened.sees(/The record was changed meanwhile\s+chief saved version 2/, 'dialog .problem');
    assert.deepEqual(await opened.texts('dialog tbody th'), ['name changed by both', 'floor']);
    const values = (await opened.texts('dialog tbody td')).map((value) => value.trimEnd());
    assert.deepEqual(values, ['"Hall"', JSON.stringify(EVIL), '"Lab"', '1', '1', '2']);
    await assertAccessible(opened, 'record form with two changes');
    // After a reload the text is still a change of version 1.
    await opened.page.reload();
    await opened.click('button', 'Resume editing…');
    await opened.sees('The record was changed meanwhile', 'dialog .problem');
    await opened.click('button', 'Keep my text');
    await opened.misses('The record was changed meanwhile', 'dialog');
    await opened.click('button', 'Save');
    await opened.sees('Version 3 is saved', 'main');
    await opened.sees('"Lab"', 'main');
    await opened.click('button', 'Change…');
    await opened.fill('Data', '{"name": "Mine"}');
    await expect(200, api.post('/api/v1/dictionaries/site.rooms/bulk-close', { businessKeys: ['contested'] }));
    await opened.click('button', 'Save');
    await opened.sees(/chief closed the record at .* Saving opens it again/, 'dialog .problem');
    await opened.click('button', 'Take the data of the box');
    await opened.click('button', 'Save');
    await opened.sees('Version 5 is saved', 'main');
    assert.match((await opened.texts('.dump'))[0] ?? '', /"Lab"/);
  });

  test('a CSV file with a fault in line 3 is repaired, imported, and refused by the box at the line of the file', async () => {
    const opened = await product.enter('clerk', '#/data/site.rooms', { width: 390, height: 844 });
    const file = join(temporaryDirectory(), 'rooms.csv');
    const cell = `"${EVIL.replaceAll('"', '""')}"`;
    const head = 'businessKey,name,floor,action\n';
    // As a person does it: the same file again, once it is repaired.
    const choose = async (written: string): Promise<void> => {
      await writeFile(file, written);
      const [chooser] = await Promise.all([opened.page.waitForFileChooser(), opened.click('field', 'File')]);
      await chooser.accept([file]);
    };
    await opened.click('button', 'Import…');
    await choose(`${head}"csv ""1""",Store,0,\ncsv 2,${cell},first,\n`);
    await opened.sees('The file has 1 fault.', 'dialog');
    await opened.sees(/Line 3\s*floor: "first" is not a whole number/i, 'dialog table');
    await opened.sees('csv "1"', 'dialog');
    assert.ok(await opened.page.$eval('dialog [type=submit]', (button) => (button as HTMLButtonElement).disabled));
    await assertAccessible(opened, 'import with a fault');
    // A choice of a file that is cancelled closes nothing.
    const input = await opened.find('field', 'File');
    await input.evaluate((one) => one.dispatchEvent(new Event('cancel', { bubbles: true })));
    // What the page cannot know: the box refuses the whole, and says where.
    await choose(`${head}csv 1,"Store\r\n0",0,\n"csv 2","",1,\n`);
    await opened.sees('2 records: 2 to write, 0 to close.', 'dialog');
    await opened.click('button', 'Import');
    await opened.sees(/Line 4\s*\/data\/name/, 'dialog table');
    await choose(`${head}"csv ""1""",Store,0,\ncsv 2,${cell},1,\n`);
    await opened.sees('2 records: 2 to write, 0 to close.', 'dialog');
    await opened.fill('Reason', 'Zählung – neu');
    await assertAccessible(opened, 'import without a fault');
    await opened.click('button', 'Import');
    await opened.sees('Imported: 2 created, 0 updated, 0 closed, 0 unchanged.', 'main');
    await opened.sees('csv "1"', '.table');
    const record = await expect(200, api.get('/api/v1/dictionaries/site.rooms/records/csv%202'));
    assert.deepEqual([record['changeReason'], record['changedBy']], ['Zählung – neu', 'clerk']);
    // NDJSON, as the command line has it.
    await opened.click('button', 'Import…');
    await choose('{"businessKey":"csv 2","action":"close"}\n');
    await opened.sees('1 record: 0 to write, 1 to close.', 'dialog');
    await opened.click('button', 'Import');
    await opened.sees('1 closed', 'main');
    await opened.misses('csv 2', '.table');
  });
});

/** The lines that the JSON editor marks, and what a screen reader reads of them. */
function marksOf({ page }: Opened): Promise<string[]> {
  return page.$eval('dialog .code', ({ shadowRoot }) => {
    const all = (selector: string): Element[] => [...(shadowRoot?.querySelectorAll(selector) ?? [])];
    const topOf = (one: Element): number => Math.round(one.getBoundingClientRect().top);
    // A line without a mark has no element beside its number.
    const tops = all('.cm-gutter-lint .cm-gutterElement:has(.cm-lint-marker-error)').map(topOf);
    const marked = all('.cm-lineNumbers .cm-gutterElement').filter((one) => tops.includes(topOf(one)));
    const about = shadowRoot?.getElementById('about')?.textContent ?? '';
    return [...marked.map((one) => one.textContent), ...(about.match(/Line \d.*?(?=$| Line \d)/g) ?? [])];
  });
}
