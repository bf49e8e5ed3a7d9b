/**
 * The pictures of the console in the documentation: taken of the real product with a simulated line, records and a subscriber.
 * scripts/pictures writes them to docs/images, with the hash of the page that they show.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Health } from '../../src/shared/gen/http.ts';
import { wellHost } from '../../src/shared/host/host-facts.fixture.ts';
import type { HostFacts } from '../../src/shared/host/host-facts.ts';
import { BUILD, ROOT } from '../e2e/daemon.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { expect } from '../e2e/hub-support.ts';
import { startReceiver } from '../e2e/webhook-receiver.ts';
import { deliveriesWhen, SECRET, subscribe, webhooksConfig } from '../e2e/webhooks-support.ts';
import { answerJson, browserMissing, closePages, type Opened, type PageOptions } from './browser.ts';
import { openSimulated, type Product, startProduct } from './product.ts';

/** Set by scripts/pictures: the pictures are taken. Otherwise only whether they show the present page is looked at. */
const isWritten = process.env['LINESIDE_PICTURES'] === 'write';
const IMAGES = join(ROOT, 'docs/images');
const HASH_FILE = join(IMAGES, 'console.sha256');
const MAX_BYTES = 200_000;
const GIB = 2 ** 30;
/** The history has a sample every 10 s: a curve needs some. The device reports at each of these intervals for so long. */
const EACH_MS = 35_000;
const INTERVALS_MS = [1_000, 125, 350, 100, 200];

interface Picture {
  readonly place: string;
  /** A text that shows that the view is complete. */
  readonly text: string;
  readonly selector?: string;
  readonly options?: PageOptions;
}

const desk = { width: 1280, height: 800 } as const;
const phone = { width: 390, height: 844, dark: true, touch: true } as const;
const pictures: Readonly<Record<string, Picture>> = {
  line: { place: '#/line', text: 'PONG', selector: '.rows' },
  'line-phone': { place: '#/line', text: 'PONG', selector: '.rows', options: phone },
  delivery: { place: '#/delivery/webhooks', text: 'retrying' },
  data: { place: '#/data/pumps/P-101', text: 'Version 2' },
  box: { place: '#/box', text: 'Memory' },
  health: { place: '#/health', text: 'Received bytes' },
};

/** Not of the documentation. */
const REVIEW = join(ROOT, '.cache/pictures');
const SETTLE_MS = 1_200;
const places = [
  'line',
  'health',
  'delivery/outbox',
  'delivery/webhooks',
  'delivery/subscriptions',
  'data',
  'data/pumps',
  'data/pumps/P-101',
  'box',
  'admin',
];

if (isWritten)
  describe('the pictures of the console', { skip: browserMissing }, () => {
    let product: Product;

    before(async () => {
      const receiver = await startReceiver(undefined, { secrets: [SECRET], lasting: true });
      product = await startProduct(webhooksConfig([receiver]));
      await openSimulated(product.box);
      const api = new HubApi(product.box.address, product.tokens.chief);
      await receiver.script([{ status: 503, body: 'maintenance', times: 1_000 }], '/erp');
      const mes = await subscribe(api, receiver, 'mes');
      const erp = await subscribe(api, receiver, 'erp', { dictionaries: ['pumps'] });
      await fill(api);
      await deliveriesWhen(api, mes.id, 'mes has all', (all) => all.every(({ state }) => state === 'delivered'));
      await deliveriesWhen(api, erp.id, 'erp is busy', (all) => all.some(({ state }) => state === 'retrying'));
    });
    afterEach(closePages);

    test('are taken, with nothing of the machine in them', async () => {
      const api = new HubApi(product.box.address, product.tokens.chief);
      for (const interval of INTERVALS_MS) {
        await send(api, `SET RATE ${interval}`);
        await delay(EACH_MS);
      }
      await send(api, 'SET RATE 1000');
      for (const [name, picture] of Object.entries(pictures)) {
        const png = await take(product, picture);
        assert.ok(png.length < MAX_BYTES, `${name}: ${png.length} bytes`);
        writeFileSync(fileOf(name), png);
      }
      writeFileSync(HASH_FILE, `${pageHash()}\n`);
    });

    test('of every view in both sizes and both colour schemes are taken for who judges them', async () => {
      mkdirSync(REVIEW, { recursive: true });
      for (const [size, options] of Object.entries({ desk, phone })) {
        for (const scheme of ['light', 'dark']) {
          const opened = await product.enter('chief', '', { ...options, dark: scheme === 'dark' });
          for (const place of places) {
            await opened.show(`#/${place}`);
            await delay(SETTLE_MS);
            const png = await opened.page.screenshot({ type: 'png', fullPage: true });
            writeFileSync(join(REVIEW, `${place.replaceAll('/', '-')}-${size}-${scheme}.png`), png);
          }
          await closePages();
        }
      }
    });
  });
else
  test('the pictures of the console show the present page', () => {
    assert.equal(readFileSync(HASH_FILE, 'utf8').trim(), pageHash(), 'the page has changed: run scripts/pictures');
    for (const [name, { options = desk }] of Object.entries(pictures)) {
      const png = readFileSync(fileOf(name));
      assert.deepEqual(sizeOf(png), { width: options.width, height: options.height }, name);
      assert.ok(png.length < MAX_BYTES, `${name}: ${png.length} bytes`);
    }
  });

async function take(product: Product, { place, text, selector, options = desk }: Picture): Promise<Uint8Array> {
  const opened = await product.enter('chief', '', options);
  await asOnBox(opened, product.box.dir);
  await opened.page.reload();
  await opened.show(place);
  // The list shows the end of the log: the dialogue has to be young.
  if (place === '#/line') await send(new HubApi(product.box.address, product.tokens.chief), 'PING');
  await opened.sees(text, selector);
  await opened.page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 1_200)));
  const seen = (await opened.texts('body')).join('\n');
  for (const own of [product.box.dir, '/tmp/', hostname()]) assert.ok(!seen.includes(own), `${place} shows ${own}`);
  return opened.page.screenshot({ type: 'png' });
}

/** An example: most of these facts are unknown on the machine of the test. */
const exampleBox: HostFacts = {
  ...wellHost,
  uptimeSeconds: 11 * 86_400 + 9_000,
  memory: { totalBytes: 0.93 * GIB, availableBytes: 0.61 * GIB },
  disk: {
    totalBytes: 29.1 * GIB,
    freeBytes: 24.6 * GIB,
    writtenBytes: 0.42 * GIB,
    writtenBytesEver: 6.8 * GIB,
    lifeUsedPercent: 10,
    reserve: 'normal',
  },
};

const exampleHealth: Health = { status: 'ok', version: '', name: 'press-04', deviceId: 'lineside-5f1c09be3a77d214' };

/** The directory of the test has the name that it has on a box; the machine is the example. */
async function asOnBox(opened: Opened, dir: string): Promise<void> {
  await opened.intercept(/\/healthz$|\/api\/v1\/(?!line\/log)/, async (request) => {
    if (request.method() !== 'GET') return request.continue();
    if (request.url().endsWith('/healthz')) return answerJson(request, exampleHealth);
    if (request.url().endsWith('/admin/host')) return answerJson(request, exampleBox);
    const response = await fetch(request.url(), { headers: request.headers() });
    const body = (await response.text()).replaceAll(`${dir}/run`, '/run/lineside');
    const headers = Object.fromEntries([...response.headers].filter(([key]) => !/length|encoding/.test(key)));
    return request.respond({ status: response.status, headers, body });
  });
}

async function send(api: HubApi, text: string): Promise<void> {
  await expect(200, api.post('/api/v1/line/send', { hex: Buffer.from(`${text}\r\n`).toString('hex') }));
}

async function fill(api: HubApi): Promise<void> {
  const dictionaries = { pumps: 'Pumps of the site', rooms: 'Rooms', tools: 'Calibrated tools' };
  for (const [name, title] of Object.entries(dictionaries))
    await expect(201, api.post('/api/v1/dictionaries', { name, title, scope: 'PUBLIC' }));
  const records = [
    ['rooms', 'R-12', { name: 'Control room', floor: 2 }],
    ['tools', 'T-1', { name: 'Torque wrench', newtonMetres: 40 }],
    ['pumps', 'P-103', { name: 'Reserve pump', kilowatts: 11, room: 'R-12' }],
    ['pumps', 'P-102', { name: 'Cooling pump 2', kilowatts: 7.5, room: 'R-12' }],
    ['pumps', 'P-101', { name: 'Cooling pump 1', kilowatts: 7.5, room: 'R-12' }],
  ] as const;
  for (const [name, businessKey, data] of records)
    await expect(201, api.post(`/api/v1/dictionaries/${name}/records`, { businessKey, data }));
  const changed = { data: { name: 'Cooling pump 1', kilowatts: 11, room: 'R-12' }, changeReason: 'motor replaced' };
  await expect(200, api.send('PUT', '/api/v1/dictionaries/pumps/records/P-101', { body: changed, ifMatch: 1 }));
}

function fileOf(name: string): string {
  return join(IMAGES, `console-${name}.png`);
}

/** Of the page as it is built: a comment of its sources changes no picture. The names of its parts depend on where node_modules lies. */
function pageHash(): string {
  const hash = createHash('sha256');
  for (const name of ['index.html', 'console.css', 'console.js'])
    hash.update(readFileSync(join(BUILD, 'console', name), 'utf8').replaceAll(/-[A-Z0-9]{8}\.js/g, '.js'));
  return hash.digest('hex');
}

/** Of the header: the chunk IHDR comes first. */
function sizeOf(png: Buffer): { width: number; height: number } {
  assert.equal(png.subarray(1, 4).toString('latin1'), 'PNG');
  assert.equal(png.subarray(12, 16).toString('latin1'), 'IHDR');
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) };
}
