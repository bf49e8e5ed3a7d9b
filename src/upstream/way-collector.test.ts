/** The way to a collector, against the real one in this process. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it, type TestContext } from 'node:test';
import Long from 'long';
import { makeCa, signed } from '../base/certificates.fixture.ts';
import { systemClock } from '../base/clock.ts';
import { type Logger, silentLogger } from '../base/logger.ts';
import { type Collector, type CollectorOptions as ServerOptions, startCollector } from '../collector/server.ts';
import { addDeviceToken, revokeDeviceTokens } from '../collector/tokens.ts';
import { lineside, serial } from '../proto/services.ts';
import type { About, SendOutcome, Way } from './face.ts';
import { type CollectorOptions, createCollectorWay } from './way-collector.ts';

const dirs = new Set<string>();
after(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

function directory(): string {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-way-'));
  dirs.add(dir);
  return dir;
}

const never = new AbortController().signal;
const u64 = (value: number): Long => Long.fromNumber(value, true);

async function collector(t: TestContext, more: Partial<ServerOptions> = {}): Promise<Collector> {
  const options = { host: '127.0.0.1', port: 0, dir: join(directory(), 'logs'), tlsCert: '', tlsKey: '', tokens: '' };
  const started = await startCollector({ ...options, insecure: false, ...more }, systemClock, silentLogger);
  t.after(() => started.stop());
  return started;
}

function way(t: TestContext, port: number, more: Partial<CollectorOptions> = {}, logger: Logger = silentLogger): Way {
  const address = `127.0.0.1:${port}`;
  const options = { address, deviceId: 'box-1', tokenFile: '', caFile: '', insecure: false, compresses: true, ...more };
  const made = createCollectorWay(options, systemClock, logger);
  made.start(() => undefined);
  t.after(() => made.stop(0));
  return made;
}

/** Entries of the ids from afterId + 1 to throughId, with so many bytes each. */
function batch(
  afterId: number,
  throughId: number,
  bytes = 10,
  deviceId = 'box-1',
): { encoded: Uint8Array; about: About } {
  const entries = Array.from({ length: throughId - afterId }, (_, at) => ({
    id: u64(afterId + 1 + at),
    clock: lineside.v1.EntryClock.ENTRY_CLOCK_KNOWN,
    entry: {
      dir: serial.SerialLogEntry.Direction.RX,
      timestamp: u64(1_700_000_000_000 + at),
      rawData: Buffer.alloc(bytes, at),
    },
  }));
  const encoded = lineside.v1.UpstreamBatch.encode({
    schemaVersion: 1,
    deviceId,
    logId: 'log-1',
    afterId: u64(afterId),
    throughId: u64(throughId),
    entries,
  }).finish();
  return { encoded, about: { logId: 'log-1', afterId, throughId } };
}

function send(to: Way, { encoded, about }: ReturnType<typeof batch>, signal = never): Promise<SendOutcome> {
  return to.send(encoded, about, signal);
}

describe('the way to a collector', () => {
  it('says that a batch is stored once the collector has it, and asks where to go on', async (t) => {
    const { port } = await collector(t);
    const to = way(t, port);
    assert.equal(await to.position('log-1', never), 0);
    const one = batch(0, 100);
    assert.deepEqual(await send(to, one), { kind: 'stored', wireBytes: to.cost(one.encoded) });
    assert.equal(await to.position('log-1', never), 100);
    assert.equal((await send(to, batch(100, 200))).kind, 'stored');
    assert.equal(await to.position('log-1', never), 200);
    assert.deepEqual(to.state(), { connected: true, reason: '' });
  });
});
