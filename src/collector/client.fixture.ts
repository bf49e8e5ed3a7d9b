/** A collector of a test's own, and boxes that push to it. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ClientError, Status } from 'nice-grpc';
import { openCollector } from '../hub/upstream/collector-channel.ts';
import { makeCa, signed } from '../shared/base/certificates.fixture.ts';
import { type Clock, systemClock } from '../shared/base/clock.ts';
import { type Logger, silentLogger } from '../shared/base/logger.ts';
import { until } from '../shared/base/wait.fixture.ts';
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

export type Client = ReturnType<typeof connect>;

/** `ca`: of the authority to trust over TLS; undefined: no TLS. */
export function connect(t: TestContext, port: number, token = '', ca?: Buffer, gzip = false) {
  const channel = openCollector(`localhost:${port}`, { isPlain: ca === undefined, ca, token }, gzip);
  t.after(() => channel.close());
  const options = { metadata: channel.metadata(token) };
  const push = async (batches: AsyncIterable<Uint8Array>): Promise<number> =>
    (await channel.client.push(batches, options)).throughId.toNumber();
  return {
    push,
    /** All at once, and the end. */
    pushed: (...batches: readonly (BatchLike | Uint8Array)[]) =>
      push(all(batches.map((one) => (one instanceof Uint8Array ? one : encoded(one))))),
    position: async (deviceId = 'box-1', logId = 'log-1') =>
      (await channel.client.getPosition({ deviceId, logId }, options)).throughId.toNumber(),
  };
}

async function* all(batches: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* batches;
}

/** A push that continues until end(). */
export class Pushing {
  readonly ended: Promise<number>;
  #next = Promise.withResolvers<Uint8Array | undefined>();

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
