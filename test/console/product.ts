/** The built product with its simulated line, and tokens of several roles, for the console's tests. */
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import Long from 'long';
import type { JsonObject } from '../../src/hub/outbox/event.ts';
import { addToken } from '../../src/shared/auth/token-file.ts';
import { type Role } from '../../src/shared/auth/tokens.ts';
import { type Toml, temporaryDirectory } from '../e2e/daemon.ts';
import { type Both, startBoth } from '../e2e/hub.ts';
import { answerJson, type Opened, openPage, type PageOptions } from './browser.ts';

export const people = {
  technician: ['operator'],
  watcher: ['viewer'],
  clerk: ['reader', 'writer'],
  reader: ['reader'],
  chief: ['admin', 'operator', 'refdata-internal'],
} as const satisfies Readonly<Record<string, readonly Role[]>>;
export type Person = keyof typeof people;

export interface Product {
  readonly box: Both;
  readonly url: string;
  readonly tokens: Readonly<Record<Person, string>>;
  /** A page that this person has signed in to, at a place such as "#/line". */
  enter(who: Person, place?: string, options?: PageOptions): Promise<Opened>;
}

export async function startProduct(config: Toml = {}, dir = temporaryDirectory()): Promise<Product> {
  mkdirSync(dir, { recursive: true });
  const tokens = Object.fromEntries(
    Object.entries(people).map(([name, roles]) => [name, addToken(join(dir, 'tokens.json'), name, roles, new Date())]),
  ) as Record<Person, string>;
  const box = await startBoth({
    dir,
    config: {
      serial: { simulate: true, at_start: 'closed' },
      device: { inventory: false, time_sync_file: '' },
      ...config,
    },
  });
  const url = `http://${box.address}/console/`;
  return {
    box,
    url,
    tokens,
    async enter(who, place = '', options = {}) {
      // As after a reload: the form to sign in has tests of its own.
      const opened = await openPage(`${url}${place}`, { ...options, tab: { 'lineside.token': tokens[who] } });
      await opened.find('button', 'Sign out');
      return opened;
    },
  };
}

export async function signIn(opened: Opened, token: string): Promise<void> {
  await opened.fill('Token', token);
  await opened.click('button', 'Sign in');
  await opened.find('button', 'Sign out');
}

/** The simulated line's port, opened as the technician's tools do it. */
export async function openSimulated(box: Both): Promise<string> {
  const { devices } = await box.client.serial.listDevices({});
  const portName = devices.find(({ description }) => /simulated/i.test(description))?.portName ?? '';
  const { error } = await box.client.serial.open({ portName, baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0 });
  if (error !== '') throw new Error(error);
  return portName;
}

/** An entry of the log, as LogRaw puts it there. */
export async function logRaw(
  box: Both,
  text: string,
  dir: 'rx' | 'tx' = 'rx',
  note = '',
  atMs = Date.now(),
): Promise<void> {
  await box.client.serial.logRaw({
    dir: dir === 'rx' ? 1 : 0,
    timestamp: Long.fromNumber(atMs, true),
    rawData: Buffer.from(text),
    note,
  });
}

export interface SeenRow {
  readonly id: number;
  readonly text: string;
}

/** Every row that the page has, from the first to the last, as they stand one below the other. */
export function readAll(opened: Opened): Promise<SeenRow[]> {
  return opened.page.evaluate(async () => {
    const list = document.querySelector<HTMLElement>('.rows');
    if (list === null) return [];
    const frame = (): Promise<unknown> => new Promise((resolve) => requestAnimationFrame(resolve));
    const seen = new Map<number, { top: number; text: string }>();
    for (let top = 0; top <= list.scrollHeight; top += list.clientHeight) {
      list.scrollTop = top;
      // One in which it is notified that it was scrolled, one in which it has drawn.
      for (let frames = 0; frames < 3; frames += 1) await frame();
      for (const row of list.querySelectorAll<HTMLElement>('.log-row:not(.event)')) {
        seen.set(Number(row.dataset['id']), { top: row.offsetTop, text: row.innerText });
      }
    }
    const inOrder = [...seen].sort(([, a], [, b]) => a.top - b.top);
    return inOrder.map(([id, { text }]) => ({ id, text }));
  });
}

/** From now on the page gets another state of the line than the box answers: one that the box cannot be brought to here. */
export function withStatus(opened: Opened, change: (status: JsonObject) => object): Promise<void> {
  return opened.intercept(/\/api\/v1\/line$/, async (request) => {
    const response = await fetch(request.url(), { headers: request.headers() });
    await answerJson(request, change((await response.json()) as JsonObject));
  });
}

/** What a process does not do while it is frozen. */
export async function whileFrozen(pid: number, look: () => Promise<void>): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  try {
    await look();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

/** For a hub that is started again: below the range from which the kernel takes those of everybody's connections. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
