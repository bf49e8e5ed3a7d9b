/** A collector of a test's own, and boxes that push to it. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Channel, ChannelCredentials, compressionAlgorithms } from '@grpc/grpc-js';
import { ClientError, createClient, Metadata, Status } from 'nice-grpc';
import { makeCa, signed } from '../shared/base/certificates.fixture.ts';
import { type Clock, systemClock } from '../shared/base/clock.ts';
import { type Logger, silentLogger } from '../shared/base/logger.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { CollectorServiceDefinition } from '../shared/proto/services.ts';
import { type BatchLike, encoded, temporaryDirectory } from './batches.fixture.ts';
import { type Collector, type CollectorOptions, startCollector } from './server.ts';
import { type Disk, realDisk } from './stored-log.ts';

export interface Started extends Collector {
  readonly dir: string;
}

export interface More extends Partial<CollectorOptions> {
  readonly clock?: Clock;
  readonly disk?: Disk;
  readonly logger?: Logger;
}

export async function start(
  t: TestContext,
  { clock = systemClock, disk = realDisk, logger = silentLogger, ...more }: More = {},
): Promise<Started> {
  const dir = more.dir ?? join(temporaryDirectory(), 'logs');
  const usual = { host: '127.0.0.1', port: 0, tlsCert: '', tlsKey: '', tokens: '', insecure: false };
  const collector = await startCollector({ ...usual, ...more, dir }, clock, logger, disk);
  t.after(() => collector.stop().catch(() => undefined));
  return { ...collector, dir };
}

const Encoded = {
  ...CollectorServiceDefinition,
  push: { ...CollectorServiceDefinition.push, requestSerialize: (batch: Uint8Array): Uint8Array => batch },
} as const;

export interface Client {
  push(batches: AsyncIterable<Uint8Array>): Promise<number>;
  /** All at once, and the end. */
  pushed(...batches: readonly (BatchLike | Uint8Array)[]): Promise<number>;
  position(deviceId?: string, logId?: string): Promise<number>;
}

export function connect(
  t: TestContext,
  port: number,
  token = '',
  credentials = ChannelCredentials.createInsecure(),
  gzip = false,
): Client {
  const channel = new Channel(`dns:localhost:${port}`, credentials, {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_send_message_length': -1,
    ...(gzip && { 'grpc.default_compression_algorithm': compressionAlgorithms.gzip }),
  });
  t.after(() => channel.close());
  const metadata = Metadata(token === '' ? {} : { authorization: `Bearer ${token}` });
  const client = createClient(Encoded, channel, { '*': { metadata } });
  const push = async (batches: AsyncIterable<Uint8Array>): Promise<number> =>
    (await client.push(batches)).throughId.toNumber();
  return {
    push,
    pushed: (...batches) => push(all(batches.map((one) => (one instanceof Uint8Array ? one : encoded(one))))),
    position: async (deviceId = 'box-1', logId = 'log-1') =>
      (await client.getPosition({ deviceId, logId })).throughId.toNumber(),
  };
}

async function* all(batches: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* batches;
}

/** A push that continues until end(). */
export class Pushing {
  readonly ended: Promise<number>;
  #next = Promise.withResolvers<Uint8Array | undefined>();
  taken = 0;

  constructor(client: Client) {
    this.ended = client.push(this.#batches());
    this.ended.catch(() => undefined);
  }

  give(like: BatchLike): void {
    this.#next.resolve(encoded(like));
  }

  end(): Promise<number> {
    this.#next.resolve(undefined);
    return this.ended;
  }

  async *#batches(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const batch = await this.#next.promise;
      if (batch === undefined) return;
      this.#next = Promise.withResolvers();
      this.taken += 1;
      yield batch;
    }
  }
}

export async function refused(call: Promise<unknown>, code: Status, details: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof ClientError, String(error));
    assert.equal(Status[error.code], Status[code], error.details);
    assert.match(error.details, details);
    return true;
  });
}

/** Until a number has been the same for a second. */
export async function settled(look: () => number): Promise<void> {
  let before = -1;
  let sinceMs = performance.now();
  await until('it stays the same', () => {
    const now = look();
    if (now !== before) sinceMs = performance.now();
    before = now;
    return performance.now() - sinceMs > 1_000;
  });
}

/** A collector on "localhost" with TLS and a file of tokens. */
export async function startTls(t: TestContext, more: More = {}) {
  const files = temporaryDirectory();
  makeCa(files);
  signed(files, 'collector', 'DNS:localhost');
  const tokens = join(files, 'tokens');
  writeFileSync(tokens, '');
  const tls = { tokens, tlsCert: join(files, 'collector.pem'), tlsKey: join(files, 'collector.key') };
  return { ...(await start(t, { ...tls, ...more })), files, tokens, caFile: join(files, 'ca.pem') };
}
