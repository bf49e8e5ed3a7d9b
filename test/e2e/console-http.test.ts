/** The log of the line by HTTP, as a browser reads it from the built product. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Daemon, startDaemon, type Toml, temporaryDirectory, writeConfig } from './daemon.ts';
import { openPort } from './faults.ts';
import { residentBytes } from './flood.ts';
import { type HttpAnswer, type Hub, startHub } from './hub.ts';
import { type LogReader, lines, readLog } from './log-stream.ts';
import { type NamedPty, namedPty } from './pty.ts';
import { addToken } from './run-cli.ts';

/** The line may be started again. */
const LONG_MS = 60_000;
const MIB = 1_048_576;

const dir = temporaryDirectory();
let pty: NamedPty;
let line: Daemon;
let hub: Hub;
const tokens: Record<string, string> = {};

before(async () => {
  pty = namedPty(dir);
  const config: Toml = {
    serial: { simulate: true, extra_ports: [pty.portName], at_start: 'resume' },
    log: { max_bytes: 256 * MIB },
  };
  const configFile = writeConfig(dir, config);
  for (const role of ['viewer', 'operator']) tokens[role] = await addToken(configFile, role, role);
  // Two processes of their own: either may be killed without the other.
  line = await startDaemon({ dir });
  hub = await startHub({ dir });
});
after(async () => {
  await hub.stop();
  await line.stop();
});

const get = (path: string): Promise<HttpAnswer> => hub.http('GET', path, undefined, { token: tokens['viewer'] ?? '' });
const status = async (): Promise<Record<string, unknown>> =>
  (await get('/api/v1/line')).body as Record<string, unknown>;

const headId = async (): Promise<number> => ((await status())['log'] as { headId: number }).headId;

function place(): { host: string; port: number } {
  const { hostname: host, port } = new URL(`http://${hub.address}`);
  return { host, port: Number(port) };
}
const read = (query: string, token = tokens['viewer'], paused = false): Promise<LogReader> =>
  readLog(place(), query, { token, paused });

/** What was received, in the order of the entries. */
function received(reader: LogReader): Buffer {
  return Buffer.concat(
    reader
      .of('entry')
      .filter(({ dir: way }) => way === 'rx')
      .map(({ data }) => Buffer.from(data ?? '', 'base64')),
  );
}
function assertEachOnce(reader: LogReader): void {
  const ids = reader.of('entry').map(({ id }) => Number(id));
  for (const [i, id] of ids.entries())
    if (i > 0) assert.equal(id, Number(ids[i - 1]) + 1, `entry ${id} after ${ids[i - 1]}`);
}

describe('the line in a browser', { timeout: 240_000 }, () => {
  test('is followed from what is stored to what appears, every byte once and in order', async () => {
    await openPort(line.client, pty.portName);
    const from = await headId();
    const never = new AbortController().signal;
    const written = Buffer.alloc(512 * 1024);
    for (let i = 0; i < written.length; i += 4) written.writeUInt32BE(i, i);
    const half = written.length / 2;
    const step = 4_000;
    const write = async (begin: number, end: number): Promise<void> => {
      for (let at = begin; at < end; at += step) await pty.write(written.subarray(at, Math.min(end, at + step)), never);
    };
    await write(0, half);
    // Readers connect while it continues: each has its seam at another place.
    const writing = write(half, written.length);
    const readers: LogReader[] = [];
    for (let i = 0; i < 4; i += 1) readers.push(await read(`follow=true&after=${from}`));
    await writing;
    for (const reader of readers) {
      await until('all of it', () => received(reader).length >= written.length, LONG_MS);
      assert.ok(received(reader).equals(written), 'the bytes are those that were written');
      assertEachOnce(reader);
      assert.equal(reader.hasEnded(), false);
    }
    assert.equal((await get('/api/v1/line/log?follow=true')).status, 429);
    for (const reader of readers) reader.close();
    // A page continues at the position that the one before named.
    const pages: LogReader[] = [];
    for (let after = from; ; ) {
      const page = await read(`after=${after}&limit=50`);
      await until('the end of the page', () => page.hasEnded());
      if (page.of('entry').length === 0) break;
      pages.push(page);
      after = Number(page.of('position').at(-1)?.['nextAfterId']);
    }
    assert.ok(Buffer.concat(pages.map(received)).equals(written));
  });

  test('read slowly takes no memory of the hub, and is whole in the end', async () => {
    const from = await headId();
    const entry = Buffer.alloc(MIB - 1_024);
    const count = 64;
    for (let i = 0; i < count; i += 1) {
      entry.writeUInt32BE(i);
      await line.client.serial.logRaw({ dir: 1, rawData: entry });
    }
    const before = residentBytes(hub.pid());
    const slow = [];
    for (let i = 0; i < 4; i += 1) slow.push(await read(`after=${from}`, tokens['operator'], true));
    // Questions that are answered meanwhile: time enough to read ahead for who would.
    let most = 0;
    for (let asked = 0; asked < 100; asked += 1) {
      await status();
      most = Math.max(most, residentBytes(hub.pid()));
    }
    assert.ok(most - before < 100 * MIB, `${(most - before) / MIB} MiB more, for 4 readers of ${count} MiB each`);
    for (const reader of slow.slice(1)) reader.close();
    const [reader] = slow;
    assert.ok(reader !== undefined);
    reader.resume();
    const found = await lines(reader, 'entry', count, LONG_MS);
    assert.deepEqual(
      found.map(({ data }) => Buffer.from(data ?? '', 'base64').readUInt32BE()),
      Array.from({ length: count }, (_, i) => i),
    );
    await until('the end of the page', () => reader.hasEnded());
  });

  test('is 503 while the line is down, and resumes where it was when the line is back', async () => {
    const reader = await read('follow=true&last=1');
    await lines(reader, 'position', 1);
    await line.kill();
    await until('the stream ends', () => reader.hasEnded(), LONG_MS);
    assert.deepEqual([reader.lines.at(-1)?.type, reader.lines.at(-1)?.code], ['end', 'NOT_READY']);
    const unreachable = await get('/api/v1/line');
    assert.deepEqual([unreachable.status, (unreachable.body as { code: string }).code], [503, 'NOT_READY']);
    assert.ok(Number(unreachable.headers['retry-after']) > 0);
    assert.equal((await hub.http('GET', '/healthz')).status, 200, 'the hub does not mind');

    line = await startDaemon({ dir });
    await until('the line to be back', async () => (await get('/api/v1/line')).status === 200, LONG_MS);
    const after = Number(reader.of('position').at(-1)?.['nextAfterId']);
    await line.client.serial.logRaw({ dir: 1, rawData: Buffer.from('after the crash') });
    const again = await read(`follow=true&after=${after}`);
    await until('what came after the crash', () => received(again).includes('after the crash'), LONG_MS);
    assert.equal(again.of('log')[0]?.['logId'], reader.of('log')[0]?.['logId']);
    again.close();
  });
});
