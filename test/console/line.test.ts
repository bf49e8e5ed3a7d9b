/**
 * The console's view of the line in a real browser, served by the real product with its simulated line: signing in, the
 * live log over breaks, search, and what is shown while the box or the port is gone.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { revokeToken } from '../../src/shared/auth/token-file.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import {
  assertAccessible,
  browserMissing,
  closePages,
  downloadsOf,
  forgive,
  LIMIT_MS,
  type Opened,
  openPage,
  pressWithControl,
} from './browser.ts';
import {
  lastingPort,
  logRaw,
  openSimulated,
  type Product,
  readAll,
  signIn,
  startProduct,
  whileFrozen,
  withStatus,
} from './product.ts';

describe('the console: the line', { skip: browserMissing }, () => {
  let product: Product;
  let lastId = 0;
  const put = async (text: string, dir: 'rx' | 'tx' = 'rx', note = ''): Promise<void> => {
    await logRaw(product.box, text, dir, note);
    lastId += 1;
  };

  before(async () => {
    // A port that stays when the hub is started again.
    product = await startProduct({ http: { listen: [`127.0.0.1:${await lastingPort()}`, 'unix:http.sock'] } });
  });
  afterEach(closePages);

  test('the policy stops forbidden actions of a page, and these tests see it', async () => {
    const opened = await openPage(product.url);
    await opened.find('button', 'Sign in');
    const doing = await opened.page.evaluate(doWrong);
    assert.deepEqual(doing, ['refused', 'refused']);
    for (const directive of ['require-trusted-types-for', 'style-src', 'connect-src']) {
      const fault = `content security policy: ${directive}`;
      await until(fault, () => opened.faults.some((one) => one.startsWith(fault)), LIMIT_MS);
    }
    await forgive(opened);
  });

  test('the whole stored log is searched, and a match that is chosen is shown in the log', async () => {
    await put('the pump stop');
    await put('ped at 17:05');
    const opened = await product.enter('watcher', '#/line');
    await opened.click('button', 'Search…');
    await opened.click('button', 'Search');
    await opened.sees('Type what to search for', 'dialog');
    await opened.fill('Search for', 'PUMP STOPPED');
    const isFound = async (): Promise<boolean> => {
      await opened.click('button', 'Search');
      return (await opened.texts('dialog [role=status]')).some((said) => said.startsWith('1 match in'));
    };
    await until('it to be stored and found', isFound, LIMIT_MS);
    await assertAccessible(opened, 'search of the stored log');
    await opened.choose('As', 'regex');
    await opened.fill('Search for', 'stop(ped|s)$');
    await opened.click('button', 'Search');
    await opened.sees('Nothing was found.', 'dialog');
    await opened.choose('As', 'hex');
    await opened.fill('Search for', '1');
    await opened.click('button', 'Search');
    await opened.sees('hex: has an odd number of digits', 'dialog .problem');
    await opened.misses('Nothing was found.', 'dialog');
    await opened.choose('As', 'regex');
    await opened.fill('Search for', 'stopped at [0-9]+');
    await opened.click('button', 'Search');
    await opened.sees('1 match in', 'dialog');
    await opened.page.click('dialog tbody button');
    await opened.sees('the pump stop', '.rows');
  });

  test('a match that is chosen is its own entry, also of a millisecond with others, behind a clock that was set back, and by a link', async () => {
    const noonMs = new Date(2032, 4, 6, 12).getTime();
    const firstId = lastId + 1;
    for (const second of [3_600, 0, 0, 0, 3_599])
      await logRaw(product.box, `twin ${lastId}`, 'rx', '', noonMs + second * 1_000).then(() => (lastId += 1));
    await Promise.all(Array.from({ length: 60 }, (_, i) => put(`behind ${i}`, 'tx')));
    const opened = await product.enter('watcher', '#/line?dir=tx&text=behind');
    const isShown = async (one: Opened, nth: number): Promise<void> => {
      const is = `.log-row.active[aria-selected=true][data-id="${firstId + nth}"]`;
      await one.sees(`twin ${firstId + nth - 1}`, is);
      assert.ok(
        await one.page.$eval(is, (row) => {
          const [list, own] = [row.closest('.rows')?.getBoundingClientRect(), row.getBoundingClientRect()];
          return list !== undefined && own.top >= list.top && own.bottom <= list.bottom;
        }),
        'the row is in sight',
      );
      assert.equal(await one.focused(), 'div: Log entries');
    };
    await opened.click('button', 'Search…');
    await opened.fill('Search for', 'twin');
    await opened.choose('Direction', 'rx');
    await opened.page.keyboard.press('Enter');
    await opened.sees('5 matches in', 'dialog');
    await opened.choose('Direction', 'tx');
    const choose = (nth: number): Promise<void> => opened.page.click(`dialog tbody tr:nth-child(${nth + 1}) button`);
    await choose(2);
    await isShown(opened, 2);
    assert.ok(
      (await readAll(opened)).some(({ id }) => id < firstId),
      'what is before it is there, too',
    );
    const link = await opened.page.evaluate(() => location.href);
    assert.match(link, new RegExp(`#/line\\?entry=${firstId + 2}&log=[0-9a-f-]{36}$`));
    await opened.click('button', 'Search…');
    await opened.sees('5 matches in', 'dialog');
    await choose(4);
    await isShown(opened, 4);
    await opened.choose('Show', 'lines');
    await opened.click('button', 'Search…');
    await opened.sees('5 matches in', 'dialog');
    await choose(2);
    await opened.sees(`twin ${firstId + 1}`, '.log-row.active[aria-selected=true]');

    const colleague = await openPage(link);
    await signIn(colleague, product.tokens.watcher);
    await isShown(colleague, 2);
    await colleague.show('#/line?entry=3&log=another');
    await colleague.sees('an entry of another log', '.log .problem');
    await colleague.show('#/line?entry=99999999');
    await colleague.sees('The log has no entry from there on', '.log');
    await colleague.click('button', 'Resume');
    await colleague.sees('Live', '#feed');
    await withStatus(colleague, (status) => ({ ...status, log: { ...(status['log'] as object), firstId: 3 } }));
    await colleague.show('#/line?entry=2');
    await colleague.sees('The log does not have entry 2 any more', '.log');
    await rowCount(colleague, lastId - 2);
  });

  test('a search is in the address: its link opens it filled in, and it runs when it is asked for', async () => {
    const noonMs = new Date(2031, 4, 6, 12).getTime();
    for (const [second, text] of ['ALARM 1', 'alarm 2', 'ALARM 3', 'ALARM 4'].entries()) {
      await logRaw(product.box, `${text}\n`, 'rx', '', noonMs + second * 1_000);
      lastId += 1;
    }
    const opened = await product.enter('watcher', '#/line', { width: 390, height: 844 });
    const { keyboard } = opened.page;
    await opened.tabTo('button: Search…');
    await keyboard.press('Enter');
    assert.equal(await opened.focused(), 'input: Search for');
    await keyboard.type('ALARM [0-9]$');
    await opened.choose('As', 'regex');
    await opened.choose('Direction', 'rx');
    await opened.page.click('dialog input[type=checkbox]');
    await opened.tabTo('input: From');
    await keyboard.type('05062031115900AM');
    await opened.tabTo('input: Until');
    await keyboard.type('05062031115900AM');
    await keyboard.press('Enter');
    await opened.sees('"Until" is not after "From"', 'dialog');
    await opened.tabTo('input: From', true);
    await opened.tabTo('input: Until');
    await keyboard.type('05062031120003PM');
    await assertAccessible(opened, 'search of the stored log, on a phone');
    const link = await opened.page.evaluate(() => location.href);

    const colleague = await openPage(link);
    await colleague.fill('Token', product.tokens.watcher);
    await colleague.click('button', 'Sign in');
    await colleague.find('heading', 'Search the stored log');
    const filled = await colleague.page.$$eval('dialog :is(input, select)', (all) =>
      all.map((one) => (one.type === 'checkbox' ? one.checked : one.value)),
    );
    const times = ['2031-05-06T11:59', '2031-05-06T12:00:03'];
    assert.deepEqual(filled, ['ALARM [0-9]$', 'regex', 'rx', true, ...times]);
    await colleague.misses('match', 'dialog');
    const found = async (matches: string): Promise<void> => {
      await colleague.click('button', 'Search');
      await colleague.sees(`${matches} in`, 'dialog [role=status]');
    };
    await found('2 matches');
    await colleague.page.click('dialog input[type=checkbox]');
    await found('3 matches');
    await colleague.show('#/line?find=alarm&case=match');
    await colleague.misses('matches', 'dialog');
    await found('1 match');
    await colleague.click('button', 'Close');
    assert.equal(await colleague.page.evaluate(() => location.hash), '#/line');
  });

  test('the dialog of a search shows how many entries there are over time; one bar is selected by mouse and by keyboard', async () => {
    const noonMs = new Date(2033, 2, 4, 12).getTime();
    for (const [minute, dir] of [
      [0, 'rx'],
      [0.5, 'rx'],
      [0.7, 'tx'],
      [10.5, 'tx'],
      [10.9, 'rx'],
      [48, 'rx'],
    ] as const) {
      await logRaw(product.box, 'counted', dir, '', noonMs + minute * 60_000);
      lastId += 1;
    }
    const opened = await product.enter('watcher');
    await opened.show(`#/line?find=counted&from=${noonMs}&to=${noonMs + 48 * 60_000}`);
    const all = 'From 2033-03-04 12:00:00 to 2033-03-04 12:48:00: 5 entries, 3 received and 2 sent.';
    await opened.sees(`${all} The highest bar begins at 2033-03-04 12:00:00, with 3.`, 'figcaption');
    const heights = await opened.page.$$eval('.bars g', (bars) =>
      bars.map((bar) => [...bar.querySelectorAll('rect')].map((rect) => Number(rect.getAttribute('height')))),
    );
    assert.equal(heights.length, 48);
    assert.deepEqual(
      heights.flatMap(([, rx = 0, tx = 0], at) => (rx + tx > 0 ? [[at, Math.round(rx), Math.round(tx)]] : [])),
      [
        [0, 67, 33],
        [10, 33, 33],
      ],
    );
    await assertAccessible(opened, 'histogram of the log');
    await opened.page.click('.bars g:nth-child(11)');
    await opened.sees('From 2033-03-04 12:10:00 to 2033-03-04 12:11:00: 2 entries', 'figcaption');
    const times = (): Promise<string[]> =>
      opened.page.$$eval('dialog input[type=datetime-local]', (fields) => fields.map(({ value }) => value));
    assert.deepEqual(await times(), ['2033-03-04T12:10', '2033-03-04T12:11']);
    await opened.click('button', 'Search');
    await opened.sees('2 matches in', 'dialog [role=status]');
    await opened.tabTo('summary: Bars as a table', true);
    await opened.page.keyboard.press('Enter');
    await opened.tabTo('button: 2033-03-04 12:10:53');
    await opened.page.keyboard.press('Enter');
    await opened.sees('From 2033-03-04 12:10:53 to 2033-03-04 12:10:55: 1 entry, 1 received', 'figcaption');
    await opened.click('button', 'Whole log');
    await opened.misses('2033-03-04 12:10:53', 'figcaption');
    assert.deepEqual(await times(), ['', '']);
    assert.equal(await opened.page.evaluate(() => location.hash), '#/line?find=counted');
  });

  test('a token is typed once, kept in the tab alone, and gone after signing out', async () => {
    const opened = await openPage(product.url);
    await opened.fill('Token', 'lsd_wrong');
    await opened.click('button', 'Sign in');
    await opened.sees('The token is not accepted');
    await signIn(opened, product.tokens.watcher);
    const kept = await opened.page.evaluate(() => [document.cookie, localStorage.length, location.href].join(' '));
    assert.equal(kept, ` 0 ${product.url}`);
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.sees('Live', '#feed');
    await opened.click('button', 'Sign out');
    await opened.find('field', 'Token');
    assert.equal(await opened.page.evaluate(() => sessionStorage.length), 0);
  });

  test('while the box does not answer, the token is kept; then the page signs in automatically', async () => {
    const opened = await product.enter('watcher');
    let unreachable = true;
    await opened.intercept(/\/whoami$/, (request) => (unreachable ? request.abort() : request.continue()));
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.sees('The box does not answer', '.problem');
    unreachable = false;
    await opened.sees('Live', '#feed');
  });

  test('a viewer is shown the line, and nothing to open, close or send with', async () => {
    const opened = await product.enter('watcher');
    await opened.sees('Live', '#feed');
    await opened.sees('closed', '.port');
    assert.deepEqual(await opened.texts('button'), ['Sign out', 'Pause', 'Older', 'Search…', 'Jump to…', 'Export…']);
    assert.deepEqual(await opened.texts('.view-switch option'), ['hex and text', 'text lines', 'text', 'hex']);
    assert.deepEqual(await opened.texts('nav a'), ['Line', 'Health', 'Box']);
    // A place that is not open to this token is not shown either.
    await opened.show('#/delivery');
    await opened.find('heading', 'Line');
  });

  test('the log is live, each entry once and in order, over a hub that was killed', async () => {
    const opened = await product.enter('watcher');
    await opened.sees('Live', '#feed');
    const first = lastId + 1;
    for (let i = 0; i < 20; i += 1) await put(`before ${i}`);
    await opened.sees('before 19', '.rows');
    const logged = product.box.logLines.length;
    await product.box.kill();
    for (let i = 0; i < 20; i += 1) await put(`while it is down ${i}`, 'tx');
    await product.box.waitFor(/ info hub ready /, logged);
    for (let i = 0; i < 20; i += 1) await put(`after ${i}`, 'rx', 'a note');
    await opened.sees('after 19 a note', '.rows');
    await opened.sees('Live', '#feed');
    const rows = (await readAll(opened)).filter(({ id }) => id >= first);
    assert.deepEqual(
      rows.map(({ id }) => id),
      Array.from({ length: 60 }, (_, i) => first + i),
    );
    assert.ok(
      rows.every(({ text }, i) => text.includes(expectedText(i))),
      JSON.stringify(rows),
    );
  });

  test('"Live" is not said while the line behind the box is frozen', async () => {
    const opened = await product.enter('watcher');
    await opened.sees('Live', '#feed');
    await whileFrozen(product.box.linePid, () => opened.misses('Live', '#feed'));
    await opened.sees('Live', '#feed');
  });

  test('paused, nothing moves and what comes is counted; then it resumes where it was', async () => {
    const opened = await product.enter('watcher');
    await put('seen before the pause');
    await opened.sees('seen before the pause', '.rows');
    await opened.click('button', 'Pause');
    await opened.sees('Paused', '#feed');
    for (let i = 0; i < 3; i += 1) await put(`came during the pause ${i}`);
    await opened.sees('3 newer', '.count');
    await opened.misses('came during the pause', '.rows');
    await opened.click('button', 'Resume');
    await opened.sees('came during the pause 2', '.rows');
    await opened.sees('Live', '#feed');
  });

  test('search finds text and hex, by direction; what cannot be searched for is said', async () => {
    const opened = await product.enter('watcher');
    await put('a Needle\r\n');
    await put('NEEDLE in what was sent', 'tx');
    await put('\x02\x03 framed');
    await opened.sees('\\x02\\x03 framed', '.rows');
    await opened.fill('Filter', 'needle');
    await rowCount(opened, 2);
    await opened.choose('Direction', 'tx');
    await rowCount(opened, 1);
    await opened.choose('Direction', 'all');
    await opened.choose('As', 'hex');
    await opened.sees('"n" is not a hex digit');
    await opened.fill('Filter', '02 03');
    await rowCount(opened, 1);
    await put('\x02\x03 another, live');
    await rowCount(opened, 2);
  });

  test('rows are selected by keyboard and mouse, and copied; over plain HTTP too, where the browser has no clipboard interface', async () => {
    const opened = await product.enter('watcher', '', { width: 390, height: 844 });
    const { page } = opened;
    await opened.choose('Show', 'both');
    for (const text of ['copy 1', 'copy 2', 'copy 3']) await put(text, 'rx', 'noted');
    await opened.sees('copy 3', '.rows');
    await opened.tabTo('div: Log entries');
    await page.keyboard.press('End');
    await withShift(opened, () => page.keyboard.press('ArrowUp'));
    await opened.sees('2 rows selected', '.log-selection');
    await assertAccessible(opened, 'selected rows');
    await pressWithControl(page, 'c');
    await opened.sees('Copied', '.log-selection');
    assert.match(await pasted(opened), /RX 63 6f 70 79 20 32 {2}copy 2 # noted ?\S+ \S+ RX .* {2}copy 3 # noted$/);

    await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
    await opened.fill('Filter', 'copy');
    await rowCount(opened, 3);
    await page.$eval('.log-row', (row) => (row as HTMLElement).click());
    await opened.sees('1 row selected', '.log-selection');
    await withShift(opened, async () => (await page.$$('.log-row')).at(-1)?.click());
    await opened.sees('3 rows selected', '.log-selection');
    assert.equal(await page.evaluate(() => getSelection()?.isCollapsed), true, 'no text is marked by the way');
    await opened.choose('Show', 'text');
    await opened.click('button', 'Copy bytes');
    await opened.sees('Copied', '.log-selection');
    assert.match(await pasted(opened), /^copy 1 ?copy 2 ?copy 3$/);
    await opened.choose('Show', 'both');
    await page.focus('.rows');
    await page.keyboard.press('Escape');
    await opened.misses('selected', '.log');
    await (await page.$('.log-row'))?.click({ count: 2 });
    await opened.find('heading', /Entry \d+/);
  });

  test('what is filtered is exported as text, JSON lines, pcapng and raw bytes, which programs of others read', async () => {
    const sent = ['EXPORT \u00e9 1\r\n', 'EXPORT \u00e9 2\r\n', 'EXPORT \u00e9 3\r\n'];
    for (const text of sent) {
      await put(text);
      await put('between');
    }
    const opened = await product.enter('watcher');
    const downloads = await downloadsOf(opened);
    await opened.fill('Filter', 'EXPORT');
    await rowCount(opened, 3);
    await opened.click('button', 'Export…');
    const files: string[] = [];
    for (const [format, extension] of [
      ['text', 'txt'],
      ['jsonl', 'jsonl'],
      ['pcapng', 'pcapng'],
      ['raw', 'bin'],
    ] as const) {
      await opened.choose('Format', format);
      await opened.click('button', 'Export');
      await opened.sees(new RegExp(`3 entries \\(.*\\) are in lineside-.*\\.${extension}`), 'dialog');
      const found = (): string | undefined => readdirSync(downloads).find((name) => name.endsWith(`.${extension}`));
      files.push(join(downloads, (await until(`a file .${extension}`, async () => found(), LIMIT_MS)) ?? ''));
    }
    const [lines = '', json = '', capture = '', raw = ''] = files;
    assert.match(readFileSync(lines, 'utf8'), /^.*EXPORT.*1.*\n.*EXPORT.*2.*\n.*EXPORT.*3.*\n$/);
    const read = 'import json,sys; print([json.loads(line)["dir"] for line in open(sys.argv[1])])';
    assert.equal(execFileSync('python3', ['-c', read, json], { encoding: 'utf8' }), "['rx', 'rx', 'rx']\n");
    assert.equal(readFileSync(raw, 'utf8'), sent.join(''));
    const packets = execFileSync('tshark', ['-r', capture, '-T', 'fields', '-e', 'frame.len'], { encoding: 'utf8' });
    assert.equal(packets.trim().split('\n').length, 3);
    await opened.fill('Until', '');
    await opened.page.$eval('dialog input[type=checkbox]', (box) => box.click());
    await opened.click('button', 'Export');
    await opened.sees(new RegExp(`^${lastId} entries`, 'm'), 'dialog [role=status]');
  });

  test('an export goes piece by piece into the file that was chosen; a dialog that is cancelled writes nothing and says nothing', async () => {
    for (const text of ['PICKED 1\n', 'PICKED 2\n']) await put(text);
    const opened = await product.enter('watcher');
    await opened.page.evaluate(replacePicker);
    await opened.fill('Filter', 'PICKED');
    await rowCount(opened, 2);
    await opened.click('button', 'Export…');
    await opened.choose('Format', 'raw');
    await opened.click('button', 'Export');
    await until('the dialog is cancelled', async () => (await pickedFiles(opened)).cancelled === 1, LIMIT_MS);
    await opened.find('button', 'Export');
    assert.deepEqual(await opened.texts('dialog :is([role=status], [role=alert], progress)'), []);
    await opened.click('button', 'Export');
    await opened.sees(/2 entries \(18 B\) are in chosen-lineside-.*-all\.bin\./, 'dialog');
    // Without an entry the file stays as it was.
    await opened.click('button', 'Close');
    await opened.fill('Filter', 'PICKED 3');
    await opened.click('button', 'Export…');
    await opened.choose('Format', 'text');
    await opened.click('button', 'Export');
    await opened.sees('No entry of the log matches. Nothing was written.', 'dialog');
    const { files } = await pickedFiles(opened);
    assert.deepEqual(
      files.map(([name, text]) => [name.replace(/lineside-.*-/, ''), text]),
      [
        ['chosen-all.bin', 'PICKED 1\nPICKED 2\n'],
        ['chosen-all.txt', 'what it had before'],
      ],
    );
  });

  test('text, search, pause and the end that is followed are kept while another view is shown', async () => {
    const opened = await product.enter('technician');
    await put('kept on the screen');
    await opened.sees('kept on the screen', '.rows');
    await opened.click('button', 'Pause');
    await opened.fill('Filter', 'kept on');
    await opened.choose('Direction', 'rx');
    await opened.choose('Format', 'hex');
    await opened.fill('Bytes in hex', '02 41');
    await opened.show('#/health');
    await opened.find('heading', 'Health');
    await put('kept on coming');
    await opened.show('#/line');
    await opened.find('heading', 'Line');
    await opened.sees('Paused', '#feed');
    await opened.sees('kept on the screen', '.rows');
    await opened.misses('kept on coming', '.rows');
    await opened.sees('2 bytes: 02 41', '.preview');
    const typed = await opened.page.$$eval('.filters input, .filters select', (all) =>
      all.map((one) => (one as HTMLInputElement).value),
    );
    assert.deepEqual(typed, ['rx', 'kept on', 'text', 'both']);
    await opened.click('button', 'Resume');
    await opened.sees('kept on coming', '.rows');
    // At its end again, the list is at its end whatever came while it was not shown.
    await opened.show('#/health');
    await Promise.all(Array.from({ length: 60 }, () => put('kept on and on')));
    await put('kept on at last');
    await until('all is in the page', () =>
      opened.page.$eval('.rows', (list) => Number(list.getAttribute('data-count')) > 60),
    );
    await opened.show('#/line');
    await opened.sees('kept on at last', '.rows');
    await opened.misses('Newest', '.log-tools');
  });

  test('older entries are fetched on request, up to the first', async () => {
    await Promise.all(Array.from({ length: 550 }, (_, i) => put(`bulk ${i}`)));
    const opened = await product.enter('watcher');
    await rowCount(opened, 500);
    await opened.click('button', 'Older');
    await until('an older page', async () => (await countOf(opened)) > 500, LIMIT_MS);
    while (await opened.page.$eval('.log-tools button:nth-child(2)', (one) => !one.disabled)) {
      const had = await countOf(opened);
      await opened.click('button', 'Older');
      await until('an older page', async () => (await countOf(opened)) > had, LIMIT_MS);
    }
    await opened.sees('Paused', '#feed');
    const ids = (await readAll(opened)).map(({ id }) => id);
    assert.deepEqual(
      ids,
      Array.from({ length: lastId }, (_, i) => i + 1),
    );
  });

  test('the log is shown from a time on, in pages, by keyboard alone; then it is followed again', async () => {
    const noonMs = new Date(2035, 4, 6, 12).getTime();
    for (let second = 0; second < 600; second += 1) {
      await logRaw(product.box, `second ${second}.\n`, 'rx', '', noonMs + second * 1_000);
      lastId += 1;
    }
    const opened = await product.enter('watcher');
    const { keyboard } = opened.page;
    await opened.sees('Live', '#feed');
    await opened.tabTo('button: Jump to…');
    await keyboard.press('Enter');
    assert.equal(await opened.focused(), 'input: Time');
    // Day and time as fields of their own.
    await keyboard.type('05062035120050PM');
    await keyboard.press('Enter');
    await opened.sees('Paused', '#feed');
    await opened.sees('second 50.', '.rows');
    await rowCount(opened, 500);
    await opened.misses('second 49.', '.rows');
    await opened.click('button', 'Newer');
    await rowCount(opened, 550);
    await opened.choose('Show', 'lines');
    await opened.sees('550 lines', '.count');
    const top = await topRow(opened, 3_000);
    await opened.click('button', 'Older');
    await until('an older page', async () => (await countOf(opened)) > 550, LIMIT_MS);
    assert.equal(await topRow(opened), top, 'the reader stays at the same line');
    await opened.click('button', 'Jump to…');
    await keyboard.type('01012036120000AM');
    await opened.click('button', 'Jump');
    await opened.sees('The log has no entry from there on');
    await opened.show(`#/line?at=${noonMs + 100_000}&until=${noonMs + 110_000}`);
    await rowCount(opened, 10);
    await opened.sees('second 109.', '.rows');
    await opened.misses('second 110.', '.rows');
    await opened.click('button', 'Resume');
    await opened.sees('second 599.', '.rows');
    await opened.sees('Live', '#feed');
  });

  test('a line that is higher than the list is shown from its begin', async () => {
    for (const one of ['a low one', 'higher than the list '.repeat(150), 'the end'])
      await logRaw(product.box, `${one}\n`);
    lastId += 3;
    const opened = await product.enter('watcher');
    await opened.choose('Show', 'lines');
    await opened.sees('higher than the list', '.rows');
    await opened.page.focus('.rows');
    // From above, so that its end is the nearest part of it.
    for (const key of ['End', 'ArrowUp', 'ArrowUp', 'ArrowDown'] as const) await opened.page.keyboard.press(key);
    const offsets = (): Promise<number[]> =>
      opened.page.$eval('.rows', (list) => {
        const row = list.querySelector('.log-row.active')?.getBoundingClientRect();
        return [(row?.top ?? -1) - list.getBoundingClientRect().top, (row?.height ?? 0) - list.clientHeight];
      });
    await until('its begin', async () => Math.abs((await offsets())[0] ?? -1) < 3, LIMIT_MS);
    assert.ok(((await offsets())[1] ?? 0) > 0, 'the line is not higher than the list');
  });

  test('older entries that were not there yet when the log resumed are not put before newer ones', async () => {
    await Promise.all(Array.from({ length: 510 }, (_, i) => put(`more ${i}`)));
    const opened = await product.enter('watcher');
    await rowCount(opened, 500);
    const held = Promise.withResolvers<void>();
    const given = new Promise<void>((resolve) =>
      opened.page.on('requestfailed', (request) => request.url().includes('limit=500') && resolve()),
    );
    await opened.intercept(/limit=500/, () => held.resolve());
    await opened.click('button', 'Older');
    await held.promise;
    await opened.click('button', 'Resume');
    await within('the page aborts its request', given, LIMIT_MS);
    await put('after it resumed');
    await opened.sees('after it resumed', '.rows');
    await opened.find('button', 'Older');
    assert.equal(await countOf(opened), 501);
  });

  test('a list that a preview makes smaller in the moment of a scroll event keeps following', async () => {
    const opened = await product.enter('watcher');
    for (let n = 0; n < 30; n += 1) await put(`line ${n}`);
    await opened.sees('line 29', '.rows');
    await opened.page.$eval('.rows', (list) => {
      (list as HTMLElement).style.maxHeight = `${list.clientHeight / 2}px`;
      list.dispatchEvent(new Event('scroll'));
    });
    for (let n = 30; n < 60; n += 1) await put(`line ${n}`);
    await opened.sees('line 59', '.rows');
  });

  test('while the hub is frozen nothing is green: an old answer says nothing about now', async () => {
    await openSimulated(product.box);
    const opened = await product.enter('watcher');
    await opened.sees('open', '.bar .badge.good');
    await opened.sees('Live', '#feed.good');
    await whileFrozen(product.box.pid(), async () => {
      await opened.sees('Disconnected', '#feed');
      assert.deepEqual(await greens(opened), []);
      await opened.sees('no answer', '.bar .badge.bad');
      await opened.misses(/received/, '.bar');
      await opened.sees('Last known: open', '.port');
      await put('while it is frozen');
    });
    await opened.sees('open', '.bar .badge.good');
    await opened.sees('while it is frozen', '.rows');
    await opened.sees('Live', '#feed.good');
    await product.box.client.serial.close({});
  });

  test('a log that is followed while the port is lost is not green, and the port is said to be reopened automatically', async () => {
    const gone = join(product.box.dir, 'gone');
    await openSimulated(product.box);
    const opened = await product.enter('technician');
    await opened.sees('Live', '#feed.good');
    await withStatus(opened, (status) => ({ ...status, portState: 'lost', portError: `${gone} was unplugged` }));
    await opened.sees('lost', '.bar .badge.bad');
    await opened.sees('Live', '#feed');
    assert.deepEqual(await greens(opened), []);
    await opened.sees('reopened automatically', '.port');
    await product.box.client.serial.close({});
  });

  test('50,000 entries, as quickly as the page takes them, leave 5,000 rows and few elements', async () => {
    const opened = await openPage(product.url);
    await opened.page.evaluate(floodLog, 50_000);
    await signIn(opened, product.tokens.watcher);
    await opened.sees('entry 50000', '.rows');
    assert.equal(await countOf(opened), 5_000);
    assert.ok((await opened.page.$$('.log-row')).length < 100);
    assert.ok((await opened.page.$$('*')).length < 1_500);
  });

  test('a token that is revoked is signed out, with the reason', async () => {
    const opened = await product.enter('reader', '#/data');
    await opened.find('heading', 'Data');
    revokeToken(join(product.box.dir, 'tokens.json'), 'reader');
    await until(
      'the box knows',
      async () => {
        const { status } = await product.box.http('GET', '/api/v1/whoami', undefined, { token: product.tokens.reader });
        return status === 401;
      },
      LIMIT_MS,
    );
    await opened.click('link', 'Data');
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.sees('The token is not accepted');
    await opened.find('field', 'Token');
  });
});

function expectedText(i: number): string {
  return i < 20 ? `before ${i}` : i < 40 ? `while it is down ${i - 20}` : `after ${i - 40}`;
}

interface Picked {
  cancelled: number;
  readonly handles: FileSystemFileHandle[];
}

/**
 * Runs in the page. The browser's own dialog for files needs a person: in its place, one that is cancelled first, and then gives files of
 * the page's private storage, which are written in the same way.
 */
function replacePicker(): void {
  const picked: Picked = { cancelled: 0, handles: [] };
  const showSaveFilePicker = async ({ suggestedName }: { suggestedName: string }): Promise<FileSystemFileHandle> => {
    if (picked.cancelled === 0) {
      picked.cancelled = 1;
      throw new DOMException('The user aborted a request.', 'AbortError');
    }
    const folder = await navigator.storage.getDirectory();
    const handle = await folder.getFileHandle(`chosen-${suggestedName}`, { create: true });
    const before = await handle.createWritable();
    await before.write('what it had before');
    await before.close();
    picked.handles.push(handle);
    return handle;
  };
  Object.assign(globalThis, { picked, showSaveFilePicker });
}

function pickedFiles({ page }: Opened): Promise<{ cancelled: number; files: (readonly [string, string])[] }> {
  return page.evaluate(async () => {
    const { picked } = globalThis as unknown as { picked: Picked };
    const read = async (one: FileSystemFileHandle) => [one.name, await (await one.getFile()).text()] as const;
    return { cancelled: picked.cancelled, files: await Promise.all(picked.handles.map(read)) };
  });
}

/** What is shown in green, in words. */
function greens(opened: Opened): Promise<string[]> {
  return opened.page.$$eval('.good', (all) =>
    all.filter((one) => one.checkVisibility()).map((one) => (one as HTMLElement).innerText),
  );
}

async function withShift({ page }: Opened, act: () => Promise<unknown>): Promise<void> {
  await page.keyboard.down('Shift');
  await act();
  await page.keyboard.up('Shift');
}

/** What is in the clipboard, in one line: it is put into the field of the search. */
async function pasted(opened: Opened): Promise<string> {
  if ((await opened.page.$('.filters')) === null) await opened.click('button', 'Filter…');
  await opened.fill('Filter', '');
  await opened.page.keyboard.press('v', { commands: ['Paste'] });
  const text = await opened.page.$eval('.filters input', (one) => one.value);
  await opened.fill('Filter', '');
  return text;
}

/** The row at the top of the list, and how much of it is above; after the list was scrolled there, if that is asked for. */
async function topRow({ page }: Opened, scrollTop?: number): Promise<string> {
  await page.$eval('.rows', (list, to) => to !== undefined && list.scrollTo({ top: to }), scrollTop);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  return page.$eval('.rows', (list) => {
    const top = list.getBoundingClientRect().top + list.clientTop;
    const row = [...list.querySelectorAll<HTMLElement>('.log-row')].find(
      (one) => one.getBoundingClientRect().bottom > top,
    );
    return `${row?.innerText} at ${Math.round((row?.getBoundingClientRect().top ?? 0) - top)}`;
  });
}

function countOf(opened: Opened): Promise<number> {
  return opened.page.$eval('.rows', (one) => Number((one as HTMLElement).dataset['count']));
}

async function rowCount(opened: Opened, count: number): Promise<void> {
  await until(
    `${count} rows`,
    async () => (await opened.page.$('.rows')) !== null && (await countOf(opened)) === count,
    LIMIT_MS,
  );
}

/** Sets HTML from text, a style in HTML, and asks another host. */
async function doWrong(): Promise<string[]> {
  const tries: (() => unknown)[] = [
    () => {
      document.body.innerHTML = '<img src="x">';
    },
    () => fetch('http://127.0.0.1:9/'),
  ];
  document.body.setAttribute('style', 'color: red');
  const ends: string[] = [];
  for (const wrong of tries) {
    try {
      await wrong();
      ends.push('done');
    } catch {
      ends.push('refused');
    }
  }
  return ends;
}

/** From now on, the page's log is one of so many entries, and continues without any. */
function floodLog(count: number): void {
  const real = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    if (typeof input !== 'string' || !input.startsWith('/api/v1/line/log?')) return real(input, init);
    const encoder = new TextEncoder();
    let next = 1;
    const body = new ReadableStream({
      start: (stream) => stream.enqueue(encoder.encode(`{"type":"log","logId":"flood","headId":${count}}\n`)),
      pull(stream) {
        let text = '';
        for (const end = Math.min(count, next + 250); next <= end; next += 1) {
          const data = btoa(`entry ${next}`);
          text += `{"type":"entry","id":${next},"dir":"rx","timestampMs":0,"clock":"known","data":"${data}","note":""}\n`;
        }
        // Then it is silent, as a line may be.
        if (text === '') return new Promise<void>(() => {});
        stream.enqueue(encoder.encode(text));
        return undefined;
      },
    });
    return Promise.resolve(new Response(body));
  };
}
