/** What the tests of the serial log's way to the central side share: boxes that send it, entries, and how far it has come. */
import { randomBytes } from 'node:crypto';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { TestBroker } from '../kafka/broker.ts';
import type { Client, Toml } from './daemon.ts';
import { RX } from './faults.ts';
import type { Both } from './hub.ts';
import { DELIVERED_MS } from './hub-support.ts';

export const DEVICE = 'gate-7';

/** Of a box that sends its log; `upstream`: where to. */
export function sender(upstream: Toml, more: Toml = {}): Toml {
  const device = { id: DEVICE, inventory: false };
  const log = { commit_ms: 50 };
  return { device, serial: { simulate: true }, log, upstream: { linger_ms: 100, ...upstream }, ...more };
}

export function config(broker: TestBroker, topic: string, upstream: Toml = {}, more: Toml = {}): Toml {
  return sender({ to: 'kafka', topic, ...upstream }, { kafka: { bootstrap: broker.plain }, ...more });
}

/** Entries of a size, some at a time, so that many share a commit. */
export async function writeEntries(client: Client, count: number, bytes = 200, from = 0): Promise<void> {
  const together = 100;
  for (let n = 0; n < count; n += together) {
    const some = Array.from({ length: Math.min(together, count - n) }, (_, i) =>
      client.serial.logRaw({ dir: RX, rawData: randomBytes(bytes), note: `entry ${from + n + i}` }),
    );
    await Promise.all(some);
  }
}

/** A figure of the shipper, as Prometheus gets it; not a number while the hub is unreachable. */
export async function figure(hub: Both, name: string): Promise<number> {
  const { body } = await hub.http('GET', '/metrics').catch(() => ({ body: '' }));
  return Number(new RegExp(`^lineside_upstream_${name} (\\S+)$`, 'm').exec(String(body))?.[1] ?? Number.NaN);
}

/** All that is stored now is with the broker. */
export async function shipped(hub: Both): Promise<void> {
  const { log } = await hub.client.line.getStatus({});
  const last = Number(log?.lastId ?? 0);
  await until(`the position is ${last}`, async () => (await figure(hub, 'position')) >= last, DELIVERED_MS);
}
