/** Readers that do not read or freeze: they cost the others nothing. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import { newEntry, optionsFor } from '../log/support.ts';
import {
  type Client,
  connectTo,
  type Daemon,
  environment,
  MAIN,
  NODE,
  ROOT,
  startDaemon,
  startProcess,
  temporaryDirectory,
} from './daemon.ts';
import { everythingAfter, RX, residentMiB, startBox } from './faults.ts';

const MIB = 1024 * 1024;
const READERS = 50;
const SLEEPERS = 50;
/** Streams of one connection: as a gateway that serves several people has them. */
const PER_CONNECTION = 10;
const FLOOD_BYTES = MIB;
/** A whole flood for each sleeper would be 50 MiB; what their connections hold in the kernel does not count here. */
const GROWTH_MIB = 30;

interface Reading {
  bytes: number;
  readonly sha256: ReturnType<typeof createHash>;
}

/** A StreamLog that is read to the end of the test, or (asleep) not at all. */
async function subscribe(client: Client, asleep: boolean, over: AbortSignal): Promise<Reading> {
  const reading: Reading = { bytes: 0, sha256: createHash('sha256') };
  const { promise: standing, resolve } = Promise.withResolvers<void>();
  const stream = client.serial.streamLog({}, { signal: over, onHeader: () => resolve() });
  const run = async (): Promise<void> => {
    for await (const { rawData } of stream) {
      reading.bytes += rawData.length;
      reading.sha256.update(rawData);
      if (asleep) await new Promise((done) => over.addEventListener('abort', done, { once: true }));
    }
  };
  // Ended by the signal.
  run().catch(() => {});
  await standing;
  return reading;
}

function connections(daemon: Daemon, count: number): Client[] {
  return Array.from({ length: count }, () => connectTo(`unix:${daemon.socket}`));
}

test('100 subscribers, half of which never read: the readers get every byte once, as the stored log has them, memory stays bounded', async (t) => {
  const { daemon, pty } = await startBox();
  const over = new AbortController();
  const flood = randomBytes(FLOOD_BYTES);
  const run = async (readings: readonly Reading[], from: number): Promise<number> => {
    const start = performance.now();
    await pty.write(flood);
    const all = from + FLOOD_BYTES;
    await until('every reader has it all', () => readings.every(({ bytes }) => bytes >= all), 60_000);
    return performance.now() - start;
  };
  const readers: Reading[] = [];
  for (const client of connections(daemon, READERS / PER_CONNECTION))
    for (let i = 0; i < PER_CONNECTION; i++) readers.push(await subscribe(client, false, over.signal));
  const alone = await run(readers, 0);
  const before = residentMiB(daemon.pid);
  for (const client of connections(daemon, SLEEPERS / PER_CONNECTION))
    for (let i = 0; i < PER_CONNECTION; i++) await subscribe(client, true, over.signal);
  assert.equal((await daemon.client.line.getStatus({})).subscribers, READERS + SLEEPERS);
  const beside = await run(readers, FLOOD_BYTES);
  const after = residentMiB(daemon.pid);
  t.diagnostic(`flood to ${READERS} readers: ${Math.round(alone)} ms alone, ${Math.round(beside)} ms beside sleepers`);
  t.diagnostic(`resident: ${Math.round(before)} MiB before, ${Math.round(after)} MiB after`);
  assert.ok(after < before + GROWTH_MIB);
  // Generous: two floods on a machine with other work.
  assert.ok(beside < 4 * alone + 1_000, 'sleepers slow no other reader down');
  const expected = createHash('sha256').update(flood).update(flood).digest('hex');
  for (const { sha256 } of readers) assert.equal(sha256.digest('hex'), expected);
  await daemon.client.serial.logRaw({ dir: RX, note: 'end' });
  const replay = createHash('sha256');
  for (const { entry } of await everythingAfter(daemon.client, 0)) replay.update(entry?.rawData ?? new Uint8Array());
  assert.equal(replay.digest('hex'), expected);
  const { counters, log } = await daemon.client.line.getStatus({});
  assert.deepEqual([Number(counters?.rxBytes), Number(log?.lostEntries), log?.error], [2 * FLOOD_BYTES, 0, '']);
  over.abort();
  await until('all are gone', async () => (await daemon.client.line.getStatus({})).subscribers === 0);
  assert.equal(await daemon.stop(), 0);
});

/** What 100 readers that take 1 KB/s at most may cost while they are there, and when they have left. */
const LAZY_GROWTH_MIB = 60;
const LEFT_GROWTH_MIB = 30;
const LOOK_MS = 10_000;
/** The line releases memory two seconds after they have left. */
const REST_MS = 4_000;
const LEFT_MS = 10_000;
const lazyReaders = {
  StreamLog: { path: '/serial.SerialService/StreamLog', request: serial.LogStreamRequest.encode({ fromStart: true }) },
  ReadLog: { path: '/lineside.v1.LineService/ReadLog', request: lineside.v1.ReadLogRequest.encode({ follow: true }) },
  Session: {
    path: '/lineside.v1.LineService/Session',
    request: lineside.v1.SessionRequest.encode({ log: { follow: true } }),
  },
} as const;
const logs = [
  { what: '60,000 tiny entries', count: 60_000, data: Buffer.from('x'), together: 500 },
  { what: '64 entries of 1 MiB', count: 64, data: randomBytes(MIB), together: 1 },
] as const;

// Each with a service of its own, and most of their time is rest.
describe('readers that take next to nothing', { concurrency: true }, () => {
  for (const { what, count, data, together } of logs) {
    test(`100 readers that take next to nothing of ${what}: bounded memory, and another reader gets all of it`, async (t) => {
      const dir = temporaryDirectory();
      mkdirSync(join(dir, 'data'));
      const log = await openSerialLog(optionsFor(join(dir, 'data')));
      for (let stored = 0; stored < count; stored += together)
        await Promise.all(Array.from({ length: together }, () => log.store(newEntry('', { data }))));
      await log.close();
      const daemon = await startDaemon({ dir });
      const readAll = async (): Promise<void> => {
        let next = 1;
        for await (const { entries } of daemon.client.line.readLog({}))
          for (const { id, entry } of entries) {
            assert.equal(Number(id), next);
            assert.equal(entry?.rawData?.length, data.length);
            next += 1;
          }
        assert.equal(next, count + 1);
      };
      // What every reader needs is there before the count begins: compiled code, the worker's pages.
      await readAll();
      let idle = 0;
      for (const [method, { path, request }] of Object.entries(lazyReaders)) {
        // Without the garbage of what was read before: the growth of these readers would hide in it.
        let atRest = residentMiB(daemon.pid);
        const settled = performance.now() + REST_MS;
        await until('earlier memory is given back', () => {
          atRest = Math.min(atRest, residentMiB(daemon.pid));
          return performance.now() > settled;
        });
        const before = atRest;
        idle ||= before;
        const left = before + LEFT_GROWTH_MIB;
        const hex = Buffer.from(request.finish()).toString('hex');
        const lazy = startProcess(NODE, [join(ROOT, 'test/e2e/lazy-readers.ts'), daemon.socket, '4', '25', path, hex]);
        if (lazy.stdout === null) throw new Error('no pipe');
        await within('all streams stand', once(lazy.stdout, 'data'));
        let peak = 0;
        // Small entries go past clients that take some: 65,535 bytes of each stream at once, then 1,024 a second.
        const end = performance.now() + LOOK_MS;
        await until('ten seconds of reading', () => {
          peak = Math.max(peak, residentMiB(daemon.pid));
          return performance.now() > end;
        });
        if (data.length < MIB) await readAll();
        assert.equal((await daemon.client.line.getStatus({})).subscribers, 100);
        lazy.kill('SIGKILL');
        await until('all are gone', async () => (await daemon.client.line.getStatus({})).subscribers === 0);
        // A release leaves some 15 MiB less than a process has that was never asked to release any.
        const most = Math.max(idle, before) + LAZY_GROWTH_MIB;
        assert.ok(peak < most, `${method}: ${peak} MiB with the readers, ${most} are allowed`);
        const leftMs = performance.now();
        await until(`${method}: less than ${left} MiB`, () => residentMiB(daemon.pid) < left, LEFT_MS);
        const [seconds, after] = [(performance.now() - leftMs) / 1_000, residentMiB(daemon.pid)].map(Math.round);
        t.diagnostic(
          `${method}: ${Math.round(atRest)} MiB before, at most ${Math.round(peak)}, ${after} after ${seconds} s`,
        );
      }
      await readAll();
      assert.equal(await daemon.stop(), 0);
    });
  }
});

test('a client that is frozen is noticed by keepalive and freed', async (t) => {
  const { daemon } = await startBox({ grpc: { keepalive_s: 1 } });
  // Shows history, then follows.
  const frozen = startProcess(NODE, [MAIN, 'log', '--follow'], environment({ LINESIDE_SOCKET: daemon.socket }));
  const subscribers = async (): Promise<number> => (await daemon.client.line.getStatus({})).subscribers;
  let shown = '';
  frozen.stdout?.setEncoding('utf8').on('data', (piece: string) => {
    shown += piece;
  });
  await daemon.client.serial.logRaw({ dir: RX, note: 'history' });
  await until('it shows what there is', () => shown.includes('history'));
  await daemon.client.serial.logRaw({ dir: RX, note: 'live' });
  await until('it follows', () => shown.includes('live'));
  assert.equal(await subscribers(), 1);
  frozen.kill('SIGSTOP');
  const from = performance.now();
  await until('it is freed', async () => (await subscribers()) === 0, 40_000);
  t.diagnostic(`after ${Math.round((performance.now() - from) / 1_000)} s`);
  frozen.kill('SIGKILL');
  assert.equal(await daemon.stop(), 0);
});
