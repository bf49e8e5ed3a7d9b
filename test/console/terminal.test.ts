/** The terminal of the console in a real browser, at the real product with a device on a PTY. */
import assert from 'node:assert/strict';
import { afterEach, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { type NamedPty, namedPty } from '../e2e/pty.ts';
import { assertAccessible, browserMissing, closePages, LIMIT_MS, type Opened, pressWithControl } from './browser.ts';
import { lastingPort, type Product, startProduct } from './product.ts';

const EVIL = '"><img src=x onerror="globalThis.evil=1">';

/** Whether something of a device's bytes ran, and how many pictures the page has. */
function harmOf({ page }: Opened): Promise<unknown[]> {
  return page.evaluate(() => [Reflect.get(globalThis, 'evil') ?? 'nothing ran', document.images.length]);
}

/** Clicks along the whole row of the screen that has the text. */
async function clickRow({ page }: Opened, text: string): Promise<void> {
  const row = await page.evaluate((wanted) => {
    const rows = [...document.querySelectorAll('.xterm-accessibility-tree > *')];
    const found = rows.find(({ textContent }) => textContent.includes(wanted));
    const { x = 0, y = 0, width = 0, height = 0 } = found?.getBoundingClientRect() ?? {};
    return { x, y: y + height / 2, width };
  }, text);
  assert.ok(row.width > 0, `no row has ${text}`);
  for (let x = row.x + 2; x < row.x + row.width; x += 8) await page.mouse.click(x, row.y);
}

describe('the console: the terminal', { skip: browserMissing }, () => {
  let product: Product;
  let device: NamedPty;

  before(async () => {
    const dir = temporaryDirectory();
    device = namedPty(dir);
    product = await startProduct({
      // A port that stays when the hub is started again.
      http: { listen: [`127.0.0.1:${await lastingPort()}`, 'unix:http.sock'] },
      serial: { at_start: 'closed', extra_ports: [device.portName] },
    });
    const { error } = await product.box.client.serial.open({
      portName: device.portName,
      baudRate: 115_200,
      dataBits: 8,
    });
    assert.equal(error, '');
  });
  afterEach(closePages);

  /** What the device got since the last call, when it is this. */
  let taken = 0;
  const gets = async (bytes: string): Promise<void> => {
    const got = () => device.received().subarray(taken).toString('latin1');
    await until(`the device gets ${JSON.stringify(bytes)}`, () => got() === bytes, LIMIT_MS).catch((error: unknown) => {
      throw new Error(`it got ${JSON.stringify(got())}`, { cause: error });
    });
    taken += bytes.length;
  };
  const says = (text: string): void => void device.write(Buffer.from(text, 'latin1'));

  async function terminalOf(opened: Opened): Promise<void> {
    await opened.choose('Show', 'terminal');
    await opened.sees('Connected', '#terminal-state');
    // Its rows as text, which a screen reader gets.
    await check(opened, 'Text for screen readers', true);
  }
  const shows = (opened: Opened, text: string | RegExp) => opened.sees(text, '.xterm-accessibility');

  test('begins with the end of the log; keys reach the device, its colours are shown; pastes are asked about; it is left by a key', async () => {
    says('booted\r\n');
    await until('the entry', async () => (await product.box.client.line.getStatus({})).log?.headId.toNumber() === 1);
    const opened = await product.enter('technician');
    const { page } = opened;
    await terminalOf(opened);
    await shows(opened, 'booted');
    await page.click('.screen');
    await page.keyboard.type('AT');
    await page.keyboard.press('Enter');
    await gets('AT\r');
    says('\x1b[31mred\x1b[0m plain\r\n');
    await shows(opened, 'red plain');
    assert.ok((await redPixels(opened)) > 10, 'red is red');
    // A device that attacks the page: an element, a link, another title.
    const [title, pages] = [await page.title(), (await page.browser().pages()).length];
    says(`${EVIL} \x1b]8;;https://127.0.0.1:9/\x07a link\x1b]8;;\x07 \x1b]0;evil title\x07\r\n`);
    await shows(opened, `${EVIL} a link`);
    await clickRow(opened, 'a link');
    assert.deepEqual(await harmOf(opened), ['nothing ran', 0]);
    assert.deepEqual([await page.title(), (await page.browser().pages()).length], [title, pages]);
    await pressWithControl(page, 'c');
    await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowUp');
    await gets('\x03\t\x1b[A');
    await opened.choose('Enter key sends', 'crlf');
    await check(opened, 'Local echo', true);
    await page.click('.screen');
    await page.keyboard.type('hi');
    await page.keyboard.press('Enter');
    await gets('hi\r\n');
    await shows(opened, 'hi');
    // By an input method: only what was chosen is sent, and once.
    const browser = await page.createCDPSession();
    for (const text of ['に', 'にほ', 'にほん'])
      await browser.send('Input.imeSetComposition', { text, selectionStart: text.length, selectionEnd: text.length });
    await browser.send('Input.insertText', { text: '日本' });
    await gets(Buffer.from('日本').toString('latin1'));

    await paste(opened, 'one word');
    await gets('one word');
    await paste(opened, 'line 1\nline 2');
    await opened.sees('Send 2 lines with 13 characters', 'dialog');
    await page.keyboard.press('Escape');
    await opened.misses('Send 2 lines', 'body');
    await paste(opened, `${'x'.repeat(3_000)}\n`);
    await opened.click('button', 'Paste');
    await gets(`${'x'.repeat(3_000)}\r\n`);
    await paste(opened, 'x'.repeat(70_000));
    await opened.sees('At most 65536 can be pasted', 'dialog');
    await page.keyboard.press('Escape');

    // A PTY has neither break nor modem lines: the box says so.
    await opened.click('button', 'Send break');
    await opened.sees(/No break was sent: /, '.terminal');
    await page.click('.screen');
    await page.keyboard.down('Shift');
    await page.keyboard.press('F6');
    await page.keyboard.up('Shift');
    assert.equal(await opened.focused(), 'button: Ctrl-C');
    await page.keyboard.press('Enter');
    await gets('\x03');
    await assertAccessible(opened, 'terminal');
    await opened.click('button', 'Clear');
    await opened.misses('red plain', '.xterm-accessibility');
    await opened.choose('Show', 'lines');
    await opened.sees(EVIL, '.rows');
    assert.equal(await opened.focused(), 'select: Show');
    assert.deepEqual(await harmOf(opened), ['nothing ran', 0]);
  });

  test('exclusive use has a name; the choice of the view is kept; its end has a reason, and it is opened again', async () => {
    const opened = await product.enter('technician', '', { width: 390, height: 844, touch: true });
    await opened.page.evaluate(() => localStorage.clear());
    await terminalOf(opened);
    await opened.click('button', 'Exclusive use');
    await opened.sees('This terminal has the line alone, as technician', '.terminal');
    const other = await product.enter('chief', '', { dark: true });
    await terminalOf(other);
    await other.sees('technician has the line alone', '.terminal');
    await other.page.click('.screen');
    await other.page.keyboard.type('x');
    await other.sees('Not sent: the line is held by technician', '.terminal');
    await other.click('button', 'Close the port…');
    await other.sees('technician has exclusive use of the line', 'dialog');
    await other.click('button', 'Close the port');
    await other.sees('the line is held by technician', 'dialog .problem');
    await assertAccessible(other, 'close the port, refused');
    await other.click('button', 'Cancel');
    await opened.page.reload({ waitUntil: 'domcontentloaded' });
    await opened.sees('Connected', '#terminal-state');
    await other.misses('technician has the line alone', '.terminal');
    await assertAccessible(opened, 'terminal on a phone');
    await assertAccessible(other, 'terminal, dark');
    await product.box.kill();
    await opened.sees('Disconnected', '#terminal-state');
    await opened.sees('The connection to the box ended', '.terminal');
    await product.box.waitFor(/ info hub ready /, product.box.logLines.length);
    await opened.click('button', 'Reconnect');
    await opened.sees('Connected', '#terminal-state');
    await opened.page.click('.screen');
    await opened.page.keyboard.type('again');
    await gets('again');
  });

  test('without WebGL it is drawn with elements, in colour', async () => {
    const opened = await product.enter('technician');
    await opened.page.evaluate(() => {
      HTMLCanvasElement.prototype.getContext = new Proxy(Reflect.get(HTMLCanvasElement.prototype, 'getContext'), {
        apply: (usual, canvas, [kind, ...rest]) =>
          kind === 'webgl2' ? null : (Reflect.apply(usual, canvas, [kind, ...rest]) as null),
      });
    });
    await terminalOf(opened);
    says('\x1b[32mgreen\x1b[0m\r\n');
    await shows(opened, 'green');
    const colours = await until('it is drawn', async () => {
      const all = await opened.page.$$eval('.xterm-rows span', (spans) =>
        spans.filter((one) => one.textContent === 'green').map((one) => getComputedStyle(one).color),
      );
      return all.length > 0 && all;
    });
    const [red = 0, green = 0] = [...(colours[0] ?? '').matchAll(/\d+/g)].map(Number);
    assert.ok(green > red + 40, colours[0]);
  });
});

async function check(opened: Opened, label: string, on: boolean): Promise<void> {
  await opened.page.evaluate(
    (name, wanted) => {
      const box = [...document.querySelectorAll('label')]
        .find((one) => one.innerText.trim() === name)
        ?.querySelector('input');
      if (box?.checked !== wanted) box?.click();
    },
    label,
    on,
  );
}

async function paste({ page }: Opened, text: string): Promise<void> {
  await page.click('.screen');
  await page.evaluate((pasted) => {
    const data = new DataTransfer();
    data.setData('text/plain', pasted);
    document.activeElement?.dispatchEvent(
      new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }),
    );
  }, text);
}

/** On the picture of the screen: what WebGL draws is in no element. */
async function redPixels({ page }: Opened): Promise<number> {
  const screen = await page.$('.screen');
  const picture = await screen?.screenshot({ encoding: 'base64' });
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext('2d');
    context?.drawImage(image, 0, 0);
    const { data: bytes = [] } = context?.getImageData(0, 0, image.width, image.height) ?? {};
    let red = 0;
    for (let at = 0; at < bytes.length; at += 4)
      if ((bytes[at] ?? 0) > (bytes[at + 1] ?? 0) + 80 && (bytes[at] ?? 0) > (bytes[at + 2] ?? 0) + 80) red += 1;
    return red;
  }, picture);
}
