/**
 * The console's other views in a real browser, at the real product with a real subscriber: the head, health, lists in pages; and
 * every view judged for accessibility by axe.
 */
import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { afterEach, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Alert, LineHistory } from '../../src/shared/gen/http.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { create, dictionary, update } from '../e2e/hub-support.ts';
import { type Receiver, startReceiver } from '../e2e/webhook-receiver.ts';
import { SECRET, subscribe, webhooksConfig } from '../e2e/webhooks-support.ts';
import {
  answerJson,
  assertAccessible,
  browserMissing,
  closePages,
  LIMIT_MS,
  type Opened,
  openPage,
} from './browser.ts';
import { openSimulated, type Product, signIn, startProduct, withStatus } from './product.ts';

const ID = 'lineside-0a1b2c3d4e5f6071';

describe('the console: the other views', { skip: browserMissing }, () => {
  let product: Product;
  let receiver: Receiver;
  let api: HubApi;

  before(async () => {
    receiver = await startReceiver(undefined, { secrets: [SECRET] });
    const config = webhooksConfig([receiver]);
    product = await startProduct({ ...config, device: { id: ID, inventory: false, time_sync_file: '' } });
    await openSimulated(product.box);
    api = new HubApi(product.box.address, product.tokens.chief);
    await dictionary(api, 'site.rooms');
    await subscribe(api, receiver, 'erp');
    await create(api, 'site.rooms', 'room 12/a', { name: 'Control room', floor: 2 });
    await update(api, 'site.rooms', 'room 12/a', 1, { name: 'Control room', floor: 3 });
  });
  afterEach(closePages);

  test('a list that is shown further has no hole where its first page has moved on', async () => {
    const opened = await product.enter('chief');
    const { page } = opened;
    const delivery = (deliveryId: string) => ({
      deliveryId,
      subscription: '1',
      subscriptionName: `to ${deliveryId}`,
      state: 'delivered',
      occurredAt: '2026-11-22T10:00:00.000000Z',
      events: 1,
      firstEvent: null,
      attempts: 1,
      nextAttemptInSeconds: null,
      endedAt: null,
      lastAttempt: null,
    });
    let firstPages = 0;
    let further = 0;
    await opened.intercept(/\/deliveries\?/, (request) => {
      const { searchParams } = new URL(request.url());
      const isFirst = !searchParams.has('cursor');
      const found = !isFirst ? ['one'] : further === 0 ? ['three', 'two'] : ['four', 'three'];
      if (!isFirst) further += 1;
      else if (further > 0) firstPages += 1;
      return answerJson(request, { items: found.map(delivery), nextCursor: isFirst ? 'next' : null });
    });
    await opened.show('#/delivery/webhooks');
    await opened.sees('to two');
    await opened.click('button', 'Show more');
    await opened.sees('to one');
    await until('the first page is asked for again', () => firstPages > 0, LIMIT_MS);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    const names = (await opened.texts('.deliveries tbody th')).map((name) => name.replace(/ \d{4}-.*/, ''));
    assert.deepEqual(names, ['to three', 'to two', 'to one']);
  });

  test('which box this is and how it does stands above every view; its name before anybody has signed in, too', async () => {
    const name = hostname();
    const opened = await openPage(product.url);
    await opened.sees(`${name} ${ID}`, 'h1');
    await titled(opened, name);
    await signIn(opened, product.tokens.chief);
    const packet = { hex: '49 44 3f 0d 0a' };
    const { status } = await product.box.http('POST', '/api/v1/line/send', packet, { token: product.tokens.chief });
    assert.equal(status, 200);
    for (const [place] of places) {
      await opened.show(place);
      await opened.sees(`${name} ${ID}`, '.bar');
      await opened.sees('open', '.bar .badge.good');
      await opened.sees(/115200 8N1\s*received \d+ s ago\s*sent \d+ s ago/, '.bar');
      await titled(opened, ` – ${name}`);
    }
    await opened.page.reload();
    await opened.sees(`${name} ${ID}`, '.bar');
    await titled(opened, `Box – ${name}`);
    await opened.intercept(/\/api\/v1\/alerts$/, (request) =>
      answerJson(request, { items: [alertOf('warning'), alertOf('critical')], nextCursor: null }),
    );
    await opened.sees('2 alerts', '.bar a.bad');
    await opened.click('link', '2 alerts');
    await opened.sees('Example of critical', '.alerts');
    await opened.click('button', 'Sign out');
    await opened.find('button', 'Sign in');
    await until('the name alone as the title', async () => (await opened.page.title()) === name, LIMIT_MS);
  });

  for (const [look, options] of [
    ['light, on a desk', {}],
    ['dark, on a phone', { dark: true, width: 390, height: 844, touch: true }],
    ['light, 320 px wide', { width: 320, height: 640, touch: true }],
  ] as const) {
    test(`every view is accessible: ${look}`, async () => {
      const opened = await product.enter('chief', '#/line', options);
      await opened.sees('Live', '#feed');
      await opened.sees('SIM', '.rows');
      await assertAccessible(opened, 'line');
      // With a mouse a row has one line. Found and measured in one step: the list replaces its rows while the device sends.
      const rowPx = await opened.page.evaluate(() => document.querySelector<HTMLElement>('.log-row')?.offsetHeight);
      if (options.touch !== true) assert.equal(rowPx, 30);
      if (options.touch === true) await opened.click('button', 'Port…');
      await opened.click('button', 'Change settings…');
      await opened.sees('Simulated', 'dialog');
      await assertAccessible(opened, 'open a port');
      await opened.click('button', 'Cancel');
      for (const [place, text, selector] of places) {
        await opened.show(place);
        await opened.sees(text, selector);
        await assertAccessible(opened, place);
        if (options.touch === true) await assertTouchable(opened, place);
        if (options.touch === true) await assertWhole(opened, place);
      }
      await opened.click('button', 'Sign out');
      await opened.find('button', 'Sign in');
      await assertAccessible(opened, 'sign in');
    });
  }

  test('health: throughput over time is drawn, and written in words', async () => {
    const opened = await product.enter('watcher', '#/health');
    await opened.sees(/received [1-9][\d.]* \w*B, sent/);
    await until('the line of what was received', () => opened.page.evaluate(isDrawn, '--rx'), LIMIT_MS);
    await opened.sees('Received bytes');
    await opened.sees(/\d\d:\d\d Port opened/, '.happened');
  });

  test('health: the numbers at the axis are drawn whole, however long they are', async () => {
    const opened = await product.enter('watcher', '#/box');
    await opened.intercept(/\/line\/history/, (request) => answerJson(request, busyTime(request.url())));
    await opened.page.evaluate(noteTexts);
    await opened.show('#/health');
    const texts = await until(
      'the numbers at the axis',
      async () => {
        const drawn = await opened.page.evaluate(() => (globalThis as unknown as { drawn: DrawnText[] }).drawn);
        return (
          [/^512\.0 KiB\/s$/, /^1\.00 MiB\/s$/, /^4\.00 KiB$/, /^42 °C$/, /^\d\d:\d\d$/].every((one) =>
            drawn.some(({ text }) => one.test(text)),
          ) && drawn
        );
      },
      LIMIT_MS,
    );
    assert.deepEqual(
      texts.filter(({ left }) => left < 0),
      [],
    );
    const edges = await opened.page.$$eval('.plot .u-over', (all) => all.map((one) => (one as HTMLElement).offsetLeft));
    assert.ok(edges.length > 3 && new Set(edges).size === 1, `left edges: ${edges.join(', ')}`);
    await zoomsByDragging(opened);
    await zoomsByTyping(opened);
    await opened.click('summary', 'Values as a table');
    await opened.sees(/1\.24 MiB\/s[\s\S]*43 °C/, '.values table');
    await assertAccessible(opened, 'health, values as a table');
  });

  test('health: packets that no client fetches are counted, and are no fault', async () => {
    const opened = await product.enter('watcher', '#/box');
    await withStatus(opened, (status) => ({
      ...status,
      counters: { ...(status['counters'] as object), rxDroppedPackets: 62_734, rxDroppedBytes: 1_200_000 },
    }));
    await opened.show('#/health');
    await opened.sees(/that no client fetched[\s\S]*62,734/);
    await opened.misses(/dropped/i, 'main');
    assert.doesNotMatch((await opened.texts('.facts .bad')).join('\n'), /fetched|62,734/);
  });
});

interface DrawnText {
  readonly text: string;
  readonly left: number;
}

/** Runs in the page: notes each text that is drawn on a canvas, and where it begins. */
function noteTexts(): void {
  const drawn: DrawnText[] = [];
  Object.assign(globalThis, { drawn });
  const { prototype } = CanvasRenderingContext2D;
  const draws: unknown = Reflect.get(prototype, 'fillText');
  prototype.fillText = new Proxy(draws as () => void, {
    apply(draw, context: CanvasRenderingContext2D, drawing: Parameters<typeof prototype.fillText>) {
      const [text, x] = drawing;
      const { width } = context.measureText(text);
      const before = { right: width, end: width, center: width / 2, left: 0, start: 0 }[context.textAlign];
      const { a, e } = context.getTransform();
      drawn.push({ text, left: (x - before) * a + e });
      Reflect.apply(draw, context, drawing);
    },
  });
}

const places = [
  ['#/health', 'Received bytes', 'body'],
  ['#/delivery/outbox', 'site.rooms:room 12/a', '.waiting'],
  ['#/delivery/webhooks', 'erp', '.deliveries'],
  ['#/data', 'site.rooms', '.table'],
  ['#/data/site.rooms', 'room 12/a', '.table'],
  ['#/data/site.rooms/room%2012%2Fa', 'Version 1', '.history'],
  ['#/admin', 'Administration is not available here', 'main'],
  ['#/box', 'Temperature', 'body'],
] as const;

/** The title follows what is drawn. */
function titled(opened: Opened, end: string): Promise<true> {
  return until(`a title "${end}"`, async () => (await opened.page.title()).endsWith(end), LIMIT_MS);
}

const MINUTE_MS = 60_000;

/** Drags over the middle half of the first chart; a double click shows the whole hour again. */
async function zoomsByDragging(opened: Opened): Promise<void> {
  const { page } = opened;
  const { x, y, width } = (await (await page.$('.plot .u-over'))?.boundingBox()) ?? { x: 0, y: 0, width: 0 };
  await page.mouse.move(x + width / 4, y + 50);
  await page.mouse.down();
  await page.mouse.move(x + (3 * width) / 4, y + 60, { steps: 4 });
  await page.mouse.up();
  const minutes = await until(
    'fewer points',
    async () => (await pointsOf(opened))[0] !== 60 && pointsOf(opened),
    LIMIT_MS,
  );
  assert.deepEqual(new Set(minutes).size, 1, 'all charts show the same time');
  assert.ok(Math.abs((minutes[0] ?? 0) - 31) <= 1, `${minutes[0]} minutes`);
  await until('the address', () => page.evaluate(() => /since=\d+&until=\d+/.test(location.hash)), LIMIT_MS);
  await page.reload();
  await until('the same time', async () => (await pointsOf(opened))[0] === minutes[0], LIMIT_MS);
  await page.mouse.click(x + width / 2, y + 50, { count: 2 });
  await until('the whole hour', async () => (await pointsOf(opened))[0] === 60, LIMIT_MS);
  await until('the address of the whole hour', () => page.evaluate(() => !location.hash.includes('since')), LIMIT_MS);
}

/** By keyboard alone: a year that is still to come is refused, the hour itself is shown, Esc leaves it. */
async function zoomsByTyping(opened: Opened): Promise<void> {
  const { page } = opened;
  const hasSince = (wanted: boolean): Promise<boolean> =>
    until('the address', () => page.evaluate((is) => location.hash.includes('since') === is, wanted), LIMIT_MS);
  await page.focus('#title');
  await opened.tabTo('summary: Select a time');
  await page.keyboard.press('Enter');
  await opened.tabTo('input: From');
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowUp', 'Enter'] as const) await page.keyboard.press(key);
  await opened.sees('Choose a later day and time', 'form.times');
  await page.keyboard.press('ArrowDown');
  await opened.tabTo('button: Show this time');
  await page.keyboard.press('Enter');
  await hasSince(true);
  await opened.misses('Choose a later day and time', 'form.times');
  assert.equal(await opened.focused(), 'button: Show this time');
  await page.keyboard.press('Escape');
  await hasSince(false);
  await opened.misses('Whole span', 'main');
}

function pointsOf({ page }: Pick<Opened, 'page'>): Promise<number[]> {
  return page.$$eval('.plot', (all) => all.map((one) => Number((one as HTMLElement).dataset['points'])));
}

/** 1.3 MB a second at 41 to 43 °C, in the time that was asked for. */
function busyTime(url: string): LineHistory {
  const asked = new URL(url).searchParams;
  const untilMs = Number(asked.get('untilMs') ?? Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS);
  const fromMs = Number(asked.get('sinceMs') ?? untilMs - 60 * MINUTE_MS);
  const steps = (untilMs - fromMs) / MINUTE_MS;
  const each = (value: number): number[] => Array(steps).fill(value);
  return {
    fromMs,
    untilMs,
    nowMs: untilMs,
    stepS: 60,
    firstMs: fromMs,
    isClockVerified: true,
    fault: '',
    gaps: [],
    upS: each(60),
    lineS: each(60),
    portOpenS: each(60),
    rxBytes: each(78_000_000),
    txBytes: each(60),
    rxDroppedPackets: each(0),
    errors: each(0),
    reconnects: each(0),
    cardWrittenBytes: each(4_096),
    temperatureMinCelsius: each(41),
    temperatureMeanCelsius: each(42),
    temperatureMaxCelsius: each(43),
  };
}

function alertOf(severity: Alert['severity']): Alert {
  return { name: 'Example', severity, forSeconds: 5, summary: `Example of ${severity}`, value: 1 };
}

/** Touch targets are at least 44 px high and wide. */
async function assertTouchable({ page }: Opened, what: string): Promise<void> {
  const small = await page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('button, input, select, textarea, a[href]')]
      .filter((one) => one.checkVisibility() && !one.classList.contains('skip'))
      // A label that is around a checkbox is touched for it.
      .map((one) => one.closest('label') ?? one)
      .filter((one) => one.offsetHeight < 44 || one.offsetWidth < 44)
      .map((one) => `${one.outerHTML} ${one.offsetWidth}x${one.offsetHeight}`),
  );
  assert.deepEqual(small, [], what);
}

/** No value of a row is cut: the last one may be the reason. */
async function assertWhole({ page }: Opened, what: string): Promise<void> {
  const cut = await page.$$eval('.table tbody tr', (all) =>
    all.filter((one) => one.scrollHeight > one.clientHeight).map((one) => one.innerText),
  );
  assert.deepEqual(cut, [], what);
}

/** Whether a plot has something in this colour. */
function isDrawn(color: string): boolean {
  const wanted = getComputedStyle(document.documentElement).getPropertyValue(color).trim();
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => Number.parseInt(wanted.slice(at, at + 2), 16));
  const canvas = document.querySelector<HTMLCanvasElement>('.plot canvas');
  const pixels = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
  for (let at = 0; at < pixels.length; at += 4) {
    const near = (one: number, of: number): boolean => Math.abs((pixels[at + one] ?? 0) - of) < 30;
    if ((pixels[at + 3] ?? 0) > 200 && near(0, r) && near(1, g) && near(2, b)) return true;
  }
  return false;
}
