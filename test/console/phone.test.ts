/**
 * A phone at the edge of the radio's reach: its connection is gone every few seconds, reset or silent. SOAK: so many minutes
 * (npm run soak -- phone).
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { browserMissing, closePages, openPage } from './browser.ts';
import { logRaw, type Product, readAll, signIn, startProduct } from './product.ts';

const minutes = Number(process.env['SOAK'] ?? 0);
const ROUND_MS = 20_000;
/** The sample shows each kind of loss once. */
const rounds = minutes === 0 ? 2 : (minutes * 60_000) / ROUND_MS;
const GONE_MS = minutes === 0 ? 6_000 : 9_000;
/** "Live" may be said for 4.5 s of silence: a box without traffic sends a sign of life every 2 s. */
const SILENCE_MS = 5_500;
const ENTRY_MS = 200;

type Radio = 'well' | 'silent' | 'refused';

describe('the console on a phone that loses its connection', { skip: browserMissing }, () => {
  afterEach(closePages);

  test('every entry is shown once and in order, and "Live" is not said while nothing comes', async () => {
    const product = await startProduct();
    const radio = await openRadio(Number(new URL(product.url).port));
    const opened = await openPage(product.url.replace(/:\d+\//, `:${radio.port}/`), { width: 390, height: 844 });
    await signIn(opened, product.tokens.watcher);
    await opened.sees('Live', '#feed');
    await opened.choose('Show', 'both');
    const over = new AbortController();
    const device = talk(product, over.signal);
    for (let round = 0; round < rounds; round += 1) {
      radio.become(round % 2 === 0 ? 'silent' : 'refused');
      await sleep(SILENCE_MS);
      assert.doesNotMatch((await opened.texts('#feed')).join(), /Live/, `round ${round}`);
      await sleep(GONE_MS - SILENCE_MS);
      radio.become('well');
      await opened.sees('Live', '#feed');
      if (minutes > 0) await sleep(ROUND_MS - GONE_MS);
    }
    over.abort();
    const count = await device;
    await opened.sees(`entry ${count - 1}.`, '.rows');
    assert.deepEqual(
      (await readAll(opened)).map(({ text }) => /entry \d+/.exec(text)?.[0]),
      Array.from({ length: count }, (_, n) => `entry ${n}`),
    );
    radio.close();
    await product.box.stop();
  });
});

/** How many entries it made. */
async function talk({ box }: Product, over: AbortSignal): Promise<number> {
  let count = 0;
  for (; !over.aborted; count += 1) {
    await logRaw(box, `entry ${count}.`);
    await sleep(ENTRY_MS);
  }
  return count;
}

/** In the way of every connection to the box; what is silent stays open and passes nothing on, until the radio is well again. */
async function openRadio(target: number) {
  let state: Radio = 'well';
  const sockets = new Set<Socket>();
  const server = createServer((phone) => {
    const box = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [phone, box],
      [box, phone],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes) => void (state === 'well' && to.write(bytes)));
      from.on('error', () => undefined);
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    if (state === 'refused') phone.resetAndDestroy();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    /** A connection that lost bytes while it was silent ends with them. */
    become(next: Radio): void {
      if (state === 'silent' || next === 'refused') cut();
      state = next;
    },
    close(): void {
      server.close();
      cut();
    },
  };
}
