/** What is done to the port from the console, in a real browser at the real product with its simulated line: open, send, change. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import type { ElementHandle } from 'puppeteer-core';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { type NamedPty, namedPty } from '../e2e/pty.ts';
import {
  answerJson,
  assertAccessible,
  browserMissing,
  closePages,
  downloadsOf,
  LIMIT_MS,
  type Opened,
  openPage,
} from './browser.ts';
import { logRaw, openSimulated, type Product, startProduct } from './product.ts';

describe('the console: the port', { skip: browserMissing }, () => {
  let product: Product;
  let pty: NamedPty;

  before(async () => {
    const ports = temporaryDirectory();
    pty = namedPty(ports);
    product = await startProduct({ serial: { simulate: true, at_start: 'closed', extra_ports: [`${ports}/port*`] } });
  });
  afterEach(closePages);

  test('by keyboard alone: sign in, open, send, read an entry, show lines, pause, go to the newest, export, close', async () => {
    const opened = await openPage(product.url);
    const { page } = opened;
    const { devices } = await product.box.client.serial.listDevices({});
    const portName = devices.find(({ description }) => /simulated/i.test(description))?.portName ?? '';
    await opened.find('button', 'Sign in');
    await opened.tabTo('input: Token');
    await page.keyboard.type(product.tokens.technician);
    await page.keyboard.press('Enter');
    await opened.find('button', 'Open…');
    await opened.tabTo('button: Open…');
    await page.keyboard.press('Enter');
    await opened.find('heading', 'Open a port');
    await opened.sees(portName, 'dialog');
    assert.equal(await opened.focused(), 'select: Port');
    await page.keyboard.type(portName);
    await opened.tabTo('input: Baud rate');
    await page.keyboard.press('Tab');
    await opened.tabTo('select: Flow control');
    await page.keyboard.type('XON');
    await opened.tabTo('button: Open');
    await page.keyboard.press('Enter');
    await opened.sees('115200 8N1, XON/XOFF', '.port');
    await focusIs(opened, 'button: Change settings…');

    await opened.tabTo('input: Text');
    await page.keyboard.type('PING\\r');
    await opened.sees('5 bytes: 50 49 4e 47 0d', '.preview');
    await page.keyboard.press('Enter');
    await opened.sees('5 bytes sent', '.send');
    // Its answer may be joined with the unsolicited output of the device, beyond what a row shows.
    await opened.sees('PING\\r', '.rows');
    await focusIs(opened, 'input: Text');
    await page.keyboard.type('\\q');
    await opened.sees('"\\q" is no escape', '.send');
    await page.keyboard.press('Enter');
    assert.equal(await page.$eval('.send input', (one) => one.value), '\\q');

    await opened.tabTo('div: Log entries', true);
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await opened.find('heading', /Entry \d+/);
    await page.keyboard.press('Escape');
    await focusIs(opened, 'div: Log entries');
    await readByKeyboard(opened, product);

    await opened.tabTo('button: Close the port…', true);
    await page.keyboard.press('Enter');
    await opened.sees(/is closed for all clients.*Now: \d open log streams?\./s, 'dialog');
    // Enter, pressed by mistake, closes nothing.
    assert.equal(await opened.focused(), 'button: Cancel');
    await opened.tabTo('button: Close the port');
    await page.keyboard.press('Enter');
    await opened.sees('closed', '.port');
    await focusIs(opened, 'button: Open…');
  });

  test('text typed while a packet is in flight, and while the name of the box is loaded, stays in the field', async () => {
    await openSimulated(product.box);
    const opened = await product.enter('technician');
    const { page } = opened;
    const [sent, name] = [Promise.withResolvers<() => void>(), Promise.withResolvers<() => void>()];
    await opened.intercept(/\/line\/send$|\/healthz$/, (request) => {
      const held = request.url().endsWith('/healthz') ? name : sent;
      held.resolve(() => void request.continue());
    });
    await page.reload({ waitUntil: 'domcontentloaded' });
    const letName = await name.promise;
    await opened.fill('Text', 'ID?\\r');
    await page.keyboard.press('Enter');
    const letSend = await sent.promise;
    await page.keyboard.type('the ');
    letName();
    await opened.sees(hostname(), '.bar');
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0))));
    await page.keyboard.type('next');
    await page.keyboard.press('Enter');
    letSend();
    await opened.sees('4 bytes sent', '.send');
    await opened.sees('LINESIDE-SIM', '.rows');
    assert.equal(await page.$eval('.send input', (one) => one.value), 'the next');
    await product.box.client.serial.close({});
  });

  test('input that cannot be sent is kept, with the reason in the words of the box', async () => {
    const opened = await product.enter('technician');
    await opened.sees('closed', '.port');
    await opened.fill('Text', 'lost?');
    await opened.page.keyboard.press('Enter');
    await opened.sees(/No port is open/, '.send .problem');
    await opened.sees('Not sent: lost?', '.send');
    assert.equal(await opened.page.$eval('.send input', (one) => one.value), 'lost?');
  });

  test('a text is repeated until it is stopped, the view is left, or the port is closed; format and ending are kept', async () => {
    const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0 };
    assert.equal((await product.box.client.serial.open(config)).error, '');
    const opened = await product.enter('technician');
    await opened.sees('9600 8N1', '.port');
    await opened.choose('End the text with', 'cr');
    await opened.fill('Text', 'tick');
    await opened.fill('Repeat every (seconds)', '0.05');
    await opened.sees('Repeat every: "0.05" is not a number of seconds from 0.1 to 3,600', '.send');
    await opened.fill('Repeat every (seconds)', '0.1');
    const before = pty.received().length;
    await opened.click('button', 'Repeat');
    // Or more, if this machine is busy.
    await opened.sees(/Sent (?:[3-9]|\d{2,}) times, repeating/, '.send');
    await opened.click('button', 'Stop repeating');
    await opened.sees(/Sent \d+ times\. Stopped\./, '.send');
    const sent = pty.received().subarray(before).toString();
    assert.match(sent, /^(?:tick\r){3,}$/);

    await opened.click('button', 'Repeat');
    await opened.sees('times, repeating', '.send');
    await opened.show('#/health');
    await opened.find('heading', 'Health');
    await opened.show('#/line');
    await opened.sees('Stopped: the Line view was left.', '.send');
    await opened.click('button', 'Repeat');
    await opened.sees('times, repeating', '.send');
    await product.box.client.serial.close({});
    await opened.sees(/Sent \d+ times?\. Stopped: .*port is (?:not )?open/i, '.send');
    await opened.choose('Format', 'hex');
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.find('field', 'Bytes in hex');
    await opened.choose('Format', 'text');
    await opened.find('field', 'End the text with');
    const ending = await opened.page.$$eval('.send select', (all) => all.map((one) => one.value));
    assert.deepEqual(ending, ['text', 'cr']);
  });

  test('commands are saved on the box, renamed though another person changed the list, sent and deleted', async () => {
    const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0 };
    assert.equal((await product.box.client.serial.open(config)).error, '');
    const opened = await product.enter('technician');
    await opened.fill('Text', 'GET');
    await opened.choose('End the text with', 'cr');
    await opened.click('summary', 'Saved commands (0)');
    await opened.click('button', 'Save current…');
    await opened.click('button', 'Save');
    await opened.sees('Name: nothing is typed.', 'dialog');
    await opened.fill('Name', 'read');
    await opened.click('button', 'Save');
    await opened.sees('read', '.commands ul');
    const other = { name: 'other', format: 'hex', data: '00', lineEnding: 'none' };
    const read = { name: 'read', format: 'text', data: 'GET', lineEnding: 'cr' };
    await saveCommands(product, 2, [read, other]);
    await opened.click('button', 'Edit read');
    await opened.fill('Name', 'read all');
    await opened.click('button', 'Save');
    await opened.sees('Another person has changed the list', 'dialog');
    await opened.click('button', 'Save');
    await opened.sees('read all', '.commands ul');
    await opened.sees('Saved commands (2)', '.commands');
    const before = pty.received().length;
    await opened.click('button', 'Send read all');
    await opened.sees('4 bytes sent', '.send');
    assert.equal(pty.received().subarray(before).toString(), 'GET\r');
    await opened.click('button', 'Edit other');
    await opened.click('button', 'Delete');
    await opened.sees('Saved commands (1)', '.commands');
    await assertAccessible(opened, 'saved commands');
  });

  test('a file is sent in packets: whole, or up to the packet that was refused, which is named', async () => {
    const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0 };
    assert.equal((await product.box.client.serial.open(config)).error, '');
    const path = join(temporaryDirectory(), 'file.bin');
    const bytes = Buffer.from(Array.from({ length: 2_500 }, (_, at) => at % 251));
    writeFileSync(path, bytes);
    const opened = await product.enter('technician');
    await opened.sees('9600 8N1', '.port');
    await opened.click('button', 'Send a file…');
    await opened.click('button', 'Send');
    await opened.sees('Choose a file first.', 'dialog');
    const field = (await opened.find('field', 'File')) as ElementHandle<HTMLInputElement>;
    await field.uploadFile(path);
    let before = pty.received().length;
    await opened.click('button', 'Send');
    await opened.sees('All 2,500 bytes were accepted.', 'dialog');
    await until('all arrive', () => pty.received().length >= before + bytes.length);
    assert.deepEqual(pty.received().subarray(before), bytes);

    before = pty.received().length;
    let packets = 0;
    const held = Promise.withResolvers<() => void>();
    await opened.intercept(/\/line\/send$/, (request) => {
      packets += 1;
      if (packets === 3) return held.resolve(() => void request.continue());
      if (packets !== 2) return request.continue();
      const body = JSON.stringify({ title: 'Held', detail: 'by ann', status: 409, code: 'CONFLICT' });
      return request.respond({ status: 409, contentType: 'application/problem+json', body });
    });
    await opened.click('button', 'Send');
    await opened.sees('960 of 2,500 bytes were accepted. The packet of bytes 961 to 1,920 was refused', 'dialog');
    await opened.sees('by ann', 'dialog .problem');
    await until('the first packet arrives', () => pty.received().length === before + 960);
    await opened.click('button', 'Send');
    const letGo = await held.promise;
    await opened.sees('0 of 2,500 bytes accepted', 'dialog');
    await opened.click('button', 'Stop sending');
    letGo();
    await opened.sees('960 of 2,500 bytes were accepted. The rest was not sent.', 'dialog');
    await opened.click('button', 'Close');
    await opened.misses('were accepted', 'body');
    await product.box.client.serial.close({});
  });

  test('a packet without an answer is not said to be unsent; put back, it is unchanged', async () => {
    const opened = await product.enter('technician');
    const { page } = opened;
    await opened.intercept(/\/line\/send$/, (request) => request.abort());
    await opened.choose('Format', 'hex');
    await opened.fill('Bytes in hex', '41 42');
    await page.keyboard.press('Enter');
    await opened.sees('Not known whether this was sent, the log may show it: 41 42', '.send');
    await opened.misses('Not sent', '.send');
    await opened.choose('Format', 'text');
    await opened.fill('Text', 'typed meanwhile');
    await opened.click('button', 'Put it back');
    await opened.sees('2 bytes: 41 42', '.preview');
    await page.keyboard.press('ArrowDown');
    await opened.sees('15 bytes: 74 79', '.preview');
    await page.keyboard.press('ArrowUp');
    await opened.sees('2 bytes: 41 42', '.preview');
  });

  test('text lines: chunks are joined and split at their ends, sent and received apart; they wrap on a phone, are found, copied and kept', async () => {
    const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0 };
    const open = async (): Promise<void> => assert.equal((await product.box.client.serial.open(config)).error, '');
    await open();
    const opened = await product.enter('technician', '', { width: 390, height: 844, touch: true });
    const { page } = opened;
    const says = async (text: string, seen: string): Promise<void> => {
      await pty.write(Buffer.from(text));
      await opened.sees(seen, '.rows');
    };
    assert.equal(await opened.valueOf('Show'), 'lines', 'usual on a phone');
    await opened.click('button', 'Filter…');
    // Each is a chunk: the next one is sent when it is seen.
    await says('Temp 2', 'Temp 2');
    assert.equal((await product.box.client.serial.sendPacket({ payload: Buffer.from('PING\r') })).status, 0);
    await opened.sees('TX PING\\r', '.rows');
    await says('1.5\r', 'RX Temp 21.5\\r');
    await says('\nno end', 'RX Temp 21.5\\r\\n');
    await product.box.client.serial.close({});
    await open();
    await opened.sees(/no end[^]*Port closed[^]*Port opened/, '.rows');
    await says(`${'0123456789'.repeat(30)}\x01\n`, '6789\\x01\\n');
    assert.deepEqual((await linesShown(opened)).slice(-6), [
      'RX Temp 21.5\\r\\n',
      'TX PING\\r',
      'RX no end',
      'Port closed by local',
      `Port opened by local: ${pty.portName}, 9600 baud, 8N1`,
      `RX ${'0123456789'.repeat(30)}\\x01\\n`,
    ]);
    const { clientHeight, scrollHeight } = await page.$$eval('.log-row', (rows) => {
      const { clientHeight, scrollHeight } = rows.at(-1) ?? { clientHeight: 0, scrollHeight: 0 };
      return { clientHeight, scrollHeight };
    });
    assert.ok(clientHeight > 150 && scrollHeight <= clientHeight, `${scrollHeight} px in ${clientHeight} px`);
    await assertAccessible(opened, 'text lines');

    await opened.fill('Filter', 'temp 21.5');
    await opened.sees('1 of', '.count');
    await page.$eval('.log-row', (row) => (row as HTMLElement).click());
    await opened.click('button', 'Show line');
    await opened.find('heading', /Line in entries \d+ to \d+/);
    await opened.sees('Temp 21.', 'dialog');
    await opened.click('button', 'Close');
    await opened.click('button', 'Copy bytes');
    await opened.sees('Copied', '.log-selection');
    await opened.fill('Filter', '');
    await page.keyboard.press('v', { commands: ['Paste'] });
    assert.equal(await page.$eval('.filters input', (one) => one.value), 'Temp 21.5');
    await page.reload({ waitUntil: 'domcontentloaded' });
    await opened.sees('1 of', '.count');
    assert.deepEqual(await linesShown(opened), ['RX Temp 21.5\\r\\n']);
    await product.box.client.serial.close({});
  });

  test('on a phone with an open port the first entry is in the upper third; events stand between the entries; what is chosen is in the address or kept', async () => {
    const opened = await product.enter('technician', '', { width: 390, height: 844, touch: true });
    await opened.sees('Live', '#feed');
    await openSimulated(product.box);
    await opened.sees(/Port opened by local: /, '.rows');
    await opened.sees(/115200 8N1\s*received/, '.bar');
    const top = await opened.page.$eval('.rows', (rows) => rows.getBoundingClientRect().top);
    assert.ok(top <= 844 / 3, `the first row is at ${top} px`);
    await opened.sees('Live', '#feed');
    await opened.click('button', 'Port…');
    await opened.sees('Virtual port', '.port');
    await assertAccessible(opened, 'the port on a phone');
    await opened.click('button', 'Change settings…');
    await opened.sees('In effect now', 'dialog');
    await opened.click('button', 'Apply');
    await opened.misses('Virtual port', '.port');
    await focusIs(opened, 'button: Port…');
    await opened.click('button', 'Filter…');
    await opened.choose('Show', 'text');
    await opened.choose('Direction', 'tx');
    await opened.fill('Filter', 'no such');
    await opened.misses('Port opened', '.rows');
    const link = '#/line?dir=tx&text=no%20such';
    assert.equal(await opened.page.evaluate(() => location.hash), link);
    await opened.click('link', 'Health');
    await opened.click('link', 'Line');
    await until(link, () => opened.page.evaluate((kept) => location.hash === kept, link), LIMIT_MS);
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.find('field', 'Filter');
    assert.deepEqual(
      await opened.page.$$eval(':is(.view-switch, .filters) :is(input, select)', (all) =>
        all.map((one) => (one as HTMLInputElement).value),
      ),
      ['text', 'tx', 'no such', 'text'],
    );
    await product.box.client.serial.close({});
  });

  test('settings are changed in one dialog, from those in effect: the device has them; wrong and refused ones are kept and explained', async () => {
    const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 77 };
    assert.equal((await product.box.client.line.open({ config, flowControl: 2 })).error, '');
    const opened = await product.enter('technician');
    const { page } = opened;
    await opened.sees('9600 8N1', '.port');
    const items = [{ portName: '/dev/ttyOTHER', description: 'another', hardwareId: '' }];
    await opened.intercept(/\/line\/ports$/, (request) => answerJson(request, { items }));
    await opened.click('button', 'Change settings…');
    await opened.find('heading', 'Change settings');
    await opened.sees('/dev/ttyOTHER', 'dialog');
    await opened.sees(/In effect now: 9600 8N1, XON\/XOFF, RX gap 3\.\d+ ms/, 'dialog');
    const fields = (): Promise<string[]> =>
      page.$$eval('dialog form :is(input, select)', (all) => all.map((one) => (one as HTMLInputElement).value));
    assert.deepEqual((await fields()).slice(1), [pty.portName, '9600', '8', 'none', '1', 'xonxoff', '77', '']);

    await opened.fill('Baud rate', '19200x');
    await opened.choose('Stop bits', '1.5');
    await opened.click('button', 'Apply');
    await opened.sees('Baud rate: "19200x" is not a whole number from 1 to 12,000,000', 'dialog');
    await opened.sees('Stop bits: 1.5 is allowed with 5 data bits only, not with 8', 'dialog');
    await focusIs(opened, 'input: Baud rate');
    await opened.fill('Baud rate', '19200');
    await opened.choose('Data bits', '7');
    await opened.choose('Parity', 'even');
    await opened.choose('Stop bits', '2');
    await opened.choose('Flow control', 'rtscts');
    await opened.fill('RX gap', '40');
    await opened.fill('Name of the port', '/dev/ttyNONE');
    await opened.click('button', 'Apply');
    await opened.sees('no serial port is called "/dev/ttyNONE"', 'dialog .problem');
    assert.equal((await product.box.client.line.getStatus({})).effective?.baudRate, 9_600);
    for (const leave of [() => page.keyboard.press('Escape'), () => opened.click('button', 'Cancel')]) {
      await leave();
      await opened.sees('Discard what was typed?', 'dialog');
      await opened.click('button', 'Keep editing');
    }
    assert.deepEqual((await fields()).slice(1), ['/dev/ttyNONE', '19200', '7', 'even', '2', 'rtscts', '77', '40']);
    await opened.fill('Name of the port', pty.portName);
    await opened.click('button', 'Apply');
    await opened.sees('19200 7E2, RTS/CTS', '.port');
    const { requested, requestedRxGapMs } = await product.box.client.line.getStatus({});
    assert.deepEqual([requested?.parity, requested?.packetSize, requestedRxGapMs], [1, 77, 40]);
    // A virtual port keeps neither data bits nor parity.
    const stty = settingsOfDevice(pty);
    assert.match(stty, /speed 19200 baud/);
    for (const word of ['cstopb', 'crtscts', '-ixon'])
      assert.ok(stty.split(/[\s;]+/).includes(word), `${word}: ${stty}`);
    await product.box.client.serial.close({});
  });
});

/** Lines instead of entries, a pause, back to the newest, and a file with the log. */
async function readByKeyboard(opened: Opened, { box }: Product): Promise<void> {
  const { keyboard } = opened.page;
  const downloads = await downloadsOf(opened);
  for (let n = 0; n < 40; n += 1) await logRaw(box, `line ${n}\n`);
  await opened.tabTo('select: Show', true);
  await keyboard.type('text lines');
  await opened.sees('RX line 39\\n', '.rows');
  await opened.tabTo('button: Pause');
  await keyboard.press('Enter');
  await opened.sees('Paused', '#feed');
  await focusIs(opened, 'button: Resume');
  await keyboard.press('Enter');
  await opened.sees('Live', '#feed');
  await opened.tabTo('div: Log lines');
  await keyboard.press('Home');
  await opened.misses('line 39\\n', '.rows');
  await opened.tabTo('button: Newest', true);
  await keyboard.press('Enter');
  await opened.sees('line 39\\n', '.rows');
  await focusIs(opened, 'div: Log lines');
  await opened.tabTo('button: Export…', true);
  await keyboard.press('Enter');
  await opened.tabTo('select: Format');
  await keyboard.type('raw');
  await opened.tabTo('button: Export');
  await keyboard.press('Enter');
  await opened.sees(/are in lineside-.*\.bin/, 'dialog');
  await until('the file', async () => readdirSync(downloads).some((name) => name.endsWith('.bin')), LIMIT_MS);
  await keyboard.press('Escape');
  await focusIs(opened, 'button: Export…');
}

/** As the kernel has them: its terminal answers for its other end too. */
function settingsOfDevice({ masterFd }: NamedPty): string {
  return execFileSync('stty', ['-a'], { stdio: [masterFd, 'pipe', 'inherit'], encoding: 'utf8' });
}

/** As another person does it. */
async function saveCommands({ url, tokens }: Product, version: number, items: readonly object[]): Promise<void> {
  const headers = {
    authorization: `Bearer ${tokens.technician}`,
    'content-type': 'application/json',
    'if-match': `"${version}"`,
  };
  const body = JSON.stringify({ items });
  const answer = await fetch(new URL('/api/v1/line/commands', url), { method: 'PUT', headers, body });
  assert.equal(answer.status, 200, await answer.text());
}

/** What stands in the log, without the times. */
async function linesShown(opened: Opened): Promise<string[]> {
  return (await opened.texts('.log-row')).map((line) => line.replace(/^\S+ +/, ''));
}

async function focusIs(opened: Opened, wanted: string): Promise<void> {
  await until(`the focus on ${wanted}`, async () => (await opened.focused()) === wanted, LIMIT_MS);
}
