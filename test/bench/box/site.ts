/** A typical site around one box: the line's device and who polls it, webhook subscribers, changes, an open console. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { createServer, type RequestOptions, request as requestTls, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPty, type Pty } from '../../../src/line/port/simulated/simulated-line.ts';
import { makeCa, signed } from '../../../src/shared/base/certificates.fixture.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { serial } from '../../../src/shared/proto/services.ts';
import { type Client, temporaryDirectory } from '../../e2e/daemon.ts';
import { openPort } from '../../e2e/faults.ts';
import { type Both, startBoth } from '../../e2e/hub.ts';
import type { HubApi } from '../../e2e/hub-api.ts';
import { apiOf, create, drained, expect, outbox, sendBundle, update } from '../../e2e/hub-support.ts';
import { addToken } from '../../e2e/run-cli.ts';
import { writeEntries } from '../../e2e/upstream-support.ts';
import { DICTIONARY, dataOf, dictionary, keyOf } from '../outbox/samples.ts';
import { SECRET } from '../webhooks/settings.ts';

const BAUD = 9_600;
const REQUEST_BYTES = 8;
const ANSWER_BYTES = 45;
const POLL_MS = 1_000;
/** A UART hands over half its FIFO. */
const BURST_BYTES = 8;
const BURST_MS = (BURST_BYTES * 10 * 1_000) / BAUD;
const SUBSCRIBERS = 5;
const RECORDS = 1_000;
/** As the page does while its view of the line is shown. */
const CONSOLE_MS = 2_000;
const CONSOLE_ENTRIES = 500;
const DISK_BYTES = 4 * 1024 ** 3;
/** Somewhat more than the limit of either. */
const WAL_BYTES = 6 * 1024 ** 2;
const ENTRY_BYTES = 32 * 1024;
const WAL_CHANGES = 400;

export type Subscribers = Awaited<ReturnType<typeof startSubscribers>>;

export interface BoxOptions {
  readonly name: string;
  readonly commitMs: number;
  readonly bootstrap: string;
  readonly subscribers: Subscribers;
}

export type Site = Awaited<ReturnType<typeof startSite>>;

/** HTTPS on loopback, each on a port of its own; they accept everything. `host`: this machine's, as the box sees it. */
export async function startSubscribers(host = '127.0.0.1') {
  const dir = temporaryDirectory();
  makeCa(dir);
  signed(dir, 'subscriber', `IP:${host}`);
  const [cert, key] = ['pem', 'key'].map((ext) => readFileSync(join(dir, `subscriber.${ext}`)));
  let received = 0;
  const servers: Server[] = [];
  for (let n = 0; n < SUBSCRIBERS; n++) {
    const server = createServer({ cert, key }, (request, response) => {
      request.resume().once('end', () => response.writeHead(202, { 'content-length': 0 }).end());
      received++;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
  }
  return {
    urls: servers.map((server) => `https://${host}:${(server.address() as AddressInfo).port}/hook`),
    caFile: join(dir, 'ca.pem'),
    received: () => received,
    close(): void {
      for (const server of servers) {
        server.close();
        server.closeAllConnections();
      }
    },
  };
}

/** A box with its port open, its subscriptions, its records, and the broker connected. */
export async function startSite({ name, commitMs, bootstrap, subscribers }: BoxOptions) {
  const disk = ownDisk();
  const dir = join(disk?.dir ?? temporaryDirectory(), 'box');
  mkdirSync(dir);
  const pty = openPty();
  const config = {
    device: { id: name },
    serial: { extra_ports: [pty.slavePath] },
    log: { commit_ms: commitMs },
    kafka: { bootstrap, topic_prefix: `bench.${name}` },
    webhooks: { allow_cidrs: ['127.0.0.0/8'], ca_file: subscribers.caFile },
  };
  await prepare(await startBoth({ dir, config }));
  // Again, as after a power failure: the memory that the preparation took is not the site's.
  const both = await startBoth({ dir, config });
  const api = apiOf(both);
  await openPort(both.client, pty.slavePath, { baudRate: BAUD });
  await until('the broker is connected', async () => (await outbox(api)).broker.connected);
  await growLogs(both, api);
  await subscribe(api, subscribers);
  const token = await addToken(both.configFile, 'technician', 'operator');
  const [host, port] = both.address.split(':');
  answer(pty);
  return {
    both,
    /** On a file system of its own, if it could be made. */
    dir,
    hasOwnDisk: disk !== undefined,
    /** Polls, changes and reads the console until the signal fires. */
    busy: (changeMs: number, signal: AbortSignal): Promise<unknown> =>
      busy({ client: both.client, api, http: { host, port }, token }, changeMs, signal),
    async close(): Promise<void> {
      await both.stop();
      api.close();
      pty.close();
      disk?.close();
    },
  };
}

/** Ways to a box. */
interface SiteAccess {
  readonly client: Client;
  readonly api: HubApi;
  /** Of its HTTP interface, with `ca` if it has TLS. */
  readonly http: RequestOptions;
  readonly token: string;
}

/** A typical site's work on a box with its records, until the signal fires; a change every `changeMs`. */
export function busy(access: SiteAccess, changeMs: number, signal: AbortSignal): Promise<unknown> {
  return Promise.all([
    poll(access.client, signal),
    change(access.api, changeMs, signal),
    openConsole(access.http, access.token, signal),
  ]);
}

export async function subscribe(api: HubApi, { urls }: Subscribers): Promise<void> {
  for (const [n, url] of urls.entries())
    await expect(201, api.post('/api/v1/admin/webhooks/subscriptions', { name: `site ${n}`, url, secret: SECRET }));
}

/** Once, before the site's own time: its records. */
async function prepare(both: Both): Promise<void> {
  const api = apiOf(both);
  await makeRecords(api);
  await drained(api);
  await both.stop();
}

export async function makeRecords(api: HubApi): Promise<void> {
  await expect(201, api.post('/api/v1/dictionaries', dictionary));
  const records = Array.from({ length: RECORDS }, (_, n) => ({
    dictionary: DICTIONARY,
    businessKey: keyOf(n),
    data: dataOf(n),
  }));
  await expect(200, sendBundle(api, records));
}

/**
 * As a quarter of an hour after a start: both write-ahead logs have their full size and are written over. While a file grows, each
 * flush commits ext4's journal: 13 KB more for each.
 */
async function growLogs(both: Both, api: HubApi): Promise<void> {
  await writeEntries(both.client, WAL_BYTES / ENTRY_BYTES, ENTRY_BYTES);
  for (let n = 0; n < WAL_CHANGES; n++) await create(api, DICTIONARY, `before ${n}`, dataOf(n));
  await drained(api);
}

/** ext4 on a loop device: its statistics are this box's writes with the journal. Needs root. */
function ownDisk(): { readonly dir: string; close(): void } | undefined {
  const home = temporaryDirectory();
  const [image, dir] = [join(home, 'image'), join(home, 'disk')];
  mkdirSync(dir);
  const run = (command: string, ...args: readonly string[]): boolean => spawnSync(command, args).status === 0;
  // Nothing is left that the kernel would write later; mounted as the image mounts its data.
  const noLazyWrites = 'nodiscard,lazy_itable_init=0,lazy_journal_init=0';
  const isMounted =
    run('truncate', '-s', String(DISK_BYTES), image) &&
    run('mkfs.ext4', '-q', '-m', '1', '-E', noLazyWrites, image) &&
    run('mount', '-o', 'loop,noatime,nosuid,nodev', image, dir);
  if (!isMounted) return undefined;
  const close = (): void => void run('umount', '-l', dir);
  process.once('exit', close);
  return {
    dir,
    close() {
      process.removeListener('exit', close);
      close();
    },
  };
}

/** The device: a request of eight bytes is answered with 45, as fast as the line takes them. */
export function answer(device: Pick<Pty, 'onData'> & { write(bytes: Uint8Array): unknown }): void {
  const whole = Buffer.alloc(ANSWER_BYTES, 0x2a);
  let heard = 0;
  const send = async (): Promise<void> => {
    const begin = performance.now();
    for (let at = 0, n = 1; at < ANSWER_BYTES; at += BURST_BYTES, n++) {
      await sleep(Math.max(0, begin + n * BURST_MS - performance.now()));
      await device.write(whole.subarray(at, at + BURST_BYTES));
    }
  };
  device.onData((bytes) => {
    heard += bytes.length;
    if (heard < REQUEST_BYTES) return;
    heard = 0;
    void send();
  });
}

/** `act` every `everyMs` until the signal fires. */
async function repeat(everyMs: number, signal: AbortSignal, act: (n: number) => Promise<unknown>): Promise<void> {
  const begin = performance.now();
  for (let n = 1; !signal.aborted; n++) {
    await sleep(Math.max(0, begin + n * everyMs - performance.now()), undefined, { signal }).catch(() => {});
    if (!signal.aborted) await act(n);
  }
}

/** The site's application, over gRPC. */
function poll(client: Client, signal: AbortSignal): Promise<void> {
  const payload = Buffer.from([1, 3, 0, 0, 0, 20, 0x45, 0xc5]);
  return repeat(POLL_MS, signal, async () => {
    const { status, error } = await client.serial.sendPacket({ payload });
    if (status !== serial.StatusCode.OK) throw new Error(`SendPacket: ${error}`);
    let answered = 0;
    while (answered < ANSWER_BYTES && !signal.aborted) {
      await sleep(100);
      answered += (await client.serial.receivePacket({}).catch(() => undefined))?.payload.length ?? 0;
    }
  });
}

function change(api: HubApi, everyMs: number, signal: AbortSignal): Promise<void> {
  // Each time another record: scattered as a site's changes are.
  return repeat(everyMs, signal, (n) => {
    const at = (n * 379) % RECORDS;
    return update(api, DICTIONARY, keyOf(at), 1, dataOf(at, 2));
  });
}

/** The page's view of the line: its status every two seconds, and the log as it grows. */
async function openConsole(http: RequestOptions, token: string, signal: AbortSignal): Promise<void> {
  const get = async (path: string): Promise<IncomingMessage> => {
    const asked = (http.ca === undefined ? request : requestTls)({
      ...http,
      path,
      signal,
      headers: { authorization: `Bearer ${token}` },
    });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`);
    return response;
  };
  const follow = async (): Promise<void> => {
    for await (const _piece of await get(`/api/v1/line/log?last=${CONSOLE_ENTRIES}&follow=true`))
      if (signal.aborted) return;
  };
  const status = (): Promise<void> => repeat(CONSOLE_MS, signal, async () => text(await get('/api/v1/line')));
  const unlessOver = (error: unknown): void => {
    if (!signal.aborted) throw error;
  };
  await text(await get('/console/'));
  await text(await get('/api/v1/whoami'));
  await Promise.all([follow().catch(unlessOver), status().catch(unlessOver)]);
}
