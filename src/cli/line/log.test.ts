import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import Long from 'long';
import { ServerError, Status } from 'nice-grpc';
import { until } from '../../shared/base/wait.fixture.ts';
import { type DriveOptions, start, testFiles } from '../drive.fixture.ts';
import { cli, service, serviceForEach, socket } from './fake-service.fixture.ts';

const files = testFiles();
const { at, dir, file } = files;
serviceForEach(files);
const begin = (argv: string[], options: DriveOptions = {}) => start(argv, { socket, ...options });
const ids = (text: string): number[] =>
  text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { id: number }).id);

describe('log', () => {
  it('shows the last 50 by default, and any range asked for', async () => {
    for (let n = 1; n <= 60; n += 1) service.log(n % 2 === 0 ? 0 : 1, `${n}`);
    const shown = await cli('log', '--json');
    assert.deepEqual([shown.status, ids(shown.stdout).length, ids(shown.stdout)[0]], [0, 50, 11]);
    assert.deepEqual(ids((await cli('log', '--json', '--last', '2')).stdout), [59, 60]);
    assert.deepEqual(ids((await cli('log', '--json', '--after', '57', '--dir', 'rx')).stdout), [59]);
    assert.deepEqual(ids((await cli('log', '--json', '--after', '58', '--last', '5')).stdout), [59, 60]);
    assert.deepEqual(ids((await cli('log', '--json', '--after', '2', '--last', '2')).stdout), [59, 60]);
    assert.equal(ids((await cli('log', '--json', '--from-start')).stdout).length, 60);
    await cli('log', '--since', '10m', '--until', '2030-01-01T00:00:00Z', '--hex');
    const [last] = service.reads.slice(-1);
    assert.equal(last?.untilMs.toNumber(), Date.UTC(2030, 0, 1));
    assert.ok(Math.abs((last?.sinceMs.toNumber() ?? 0) - (Date.now() - 600_000)) < 60_000);
    assert.deepEqual([last?.last, last?.follow], [false, false]);
    assert.match((await cli('log', '--last', '1', '--text', '--ids')).stdout, /^\S+ \S+ 60 TX 60\n$/);
    for (const argv of [
      ['--after', '1', '--from-start'],
      ['--last', '1', '--from-start'],
      ['--hex', '--text'],
      ['--last', '100001'],
      ['--since', 'x'],
      ['--dir', 'up'],
    ]) {
      assert.equal((await cli('log', ...argv)).status, 2, argv.join(' '));
    }
  });

  it('shows the entries that a search finds, page by page, and each once', async () => {
    for (let n = 1; n <= 2_500; n += 1) service.log(n % 2 === 0 ? 0 : 1, n % 2 === 0 ? `ERROR ${n}` : 'fine');
    const found = await cli('log', '--json', '--grep', 'ERROR', '-i');
    assert.deepEqual([found.status, ids(found.stdout).length, ids(found.stdout)[0]], [0, 1_250, 2]);
    assert.deepEqual(
      service.searches.map(({ afterId, ignoreCase }) => [afterId.toNumber(), ignoreCase]),
      [
        [0, true],
        [2_000, true],
      ],
    );
    const none = await cli('log', '--grep', 'nowhere', '--after', '7', '--dir', 'rx');
    assert.deepEqual([none.status, none.stdout], [5, '']);
    assert.deepEqual([service.searches.at(-1)?.afterId.toNumber(), service.searches.at(-1)?.dirs], [7, [1]]);
    for (const argv of [
      ['--grep', 'a', '--regex', 'a'],
      ['--hex-pattern', '00', '-i'],
      ['-i'],
      ['--grep', 'a', '--follow'],
      ['--regex', 'a', '--last', '5'],
    ]) {
      assert.equal((await cli('log', ...argv)).status, 2, argv.join(' '));
    }
  });

  it('follows over a restart of the service without a gap or a repeat, and ends with 0 on Ctrl-C', async () => {
    service.log(1, 'one');
    const follower = begin(['log', '--follow', '--json']);
    await until('one is shown', () => follower.stdout().includes('"id":1'));
    service.log(1, 'two');
    await until('two is shown', () => follower.stdout().includes('"id":2'));
    service.stop();
    await until('the loss is said', () => follower.stderr().includes('connection lost'));
    service.log(0, 'three');
    await service.listen(`unix:${socket}`);
    await until('three is shown', () => follower.stdout().includes('"id":3'));
    assert.match(follower.stderr(), /^lineside: connection lost: .*\. Trying again\.\nlineside: connected again\.\n$/);
    follower.signal('SIGINT');
    const { status, stdout } = await follower.done;
    assert.equal(status, 0);
    assert.deepEqual(ids(stdout), [1, 2, 3]);
  });

  it('resumes after a break in the middle of the replay, and fails if it does not follow', async () => {
    for (let n = 1; n <= 9; n += 1) service.log(1, `${n}`);
    service.breakReading = { after: 2, error: new ServerError(Status.UNAVAILABLE, 'stopping') };
    const follower = begin(['log', '--follow', '--json', '--last', '7']);
    await until('all are shown', () => follower.stdout().includes('"id":9'));
    follower.signal('SIGINT');
    assert.deepEqual(ids((await follower.done).stdout), [3, 4, 5, 6, 7, 8, 9]);
    service.breakReading = { after: 1, error: new ServerError(Status.UNAVAILABLE, 'stopping') };
    assert.equal((await cli('log', '--from-start')).status, 3);
  });

  it('says that entries are gone: status 7 at once, or at the end of following', async () => {
    for (let n = 1; n <= 4; n += 1) service.log(1, `${n}`);
    service.breakReading = { after: 0, error: new ServerError(Status.DATA_LOSS, '12 entries were removed') };
    const once = await cli('log', '--from-start');
    assert.equal(once.status, 7);
    assert.match(once.stderr, /12 entries were removed/);
    service.breakReading = { after: 0, error: new ServerError(Status.DATA_LOSS, '12 entries were removed') };
    const follower = begin(['log', '--follow', '--from-start', '--json']);
    await until('it resumes', () => follower.stdout().includes('"id":4'));
    follower.signal('SIGINT');
    assert.equal((await follower.done).status, 7);
  });

  it('reads a replaced log from its start while following', async () => {
    service.log(1, 'old');
    const follower = begin(['log', '--follow', '--json']);
    await until('old is shown', () => follower.stdout().includes('"id":1'));
    service.logId = 'log-2';
    service.entries = [];
    await service.restart();
    service.log(1, 'new');
    await until('new is shown', () => follower.stdout().includes('6e6577'));
    follower.signal('SIGINT');
    assert.equal((await follower.done).status, 7);
  });

  it('keeps its place in a file', async () => {
    const place = at('position');
    service.log(1, 'a');
    service.log(1, 'b');
    assert.deepEqual(ids((await cli('log', '--json', '--resume', place)).stdout), [1, 2]);
    assert.deepEqual(JSON.parse(await readFile(place, 'utf8')), { afterId: 2, logId: 'log-1' });
    assert.equal((await cli('log', '--json', '--resume', place)).stdout, '');
    service.log(1, 'c');
    assert.deepEqual(ids((await cli('log', '--json', '--resume', place)).stdout), [3]);
    service.logId = 'log-2';
    assert.equal((await cli('log', '--json', '--resume', place)).status, 7);
    file('position', 'nonsense');
    assert.equal((await cli('log', '--resume', place)).status, 1);
  });

  it('shows gaps in their place', async () => {
    service.log(1, 'a');
    service.log(1, 'b');
    for (const entry of service.entries.slice(1)) entry.id = 7;
    service.gaps = [gap(2)];
    const { stdout } = await cli('log', '--text');
    assert.match(stdout, /RX a\n-- 5 entries \(50 bytes\) not stored: disk full, .* --\n.*RX b\n$/);
    assert.match((await cli('log', '--json')).stdout, /\n\{"gap":\{"firstId":2,.*"reason":"disk full"\}\}\n/);
  });
});

const u64 = (value: number): Long => Long.fromNumber(value, true);
/** Five entries of 50 bytes that share an id. */
const gap = (id: number) => ({
  firstId: u64(id),
  lastId: u64(id),
  entries: u64(5),
  bytes: u64(50),
  fromMs: u64(1_700_000_000_500),
  toMs: u64(1_700_000_000_900),
  reason: 'disk full',
});

describe('log export', () => {
  it('writes raw bytes or text of one direction or both, in order, up to a time', async () => {
    for (const [to, text] of [
      [0, 'ask'],
      [1, '\x00\xff'],
      [1, '!'],
    ] as const)
      service.log(to, Buffer.from(text, 'latin1'));
    assert.deepEqual((await cli('log', 'export', '--format', 'raw')).bytes, Buffer.from('ask\x00\xff!', 'latin1'));
    const file = at('received.bin');
    assert.equal((await cli('log', 'export', '--format', 'raw', '--dir', 'rx', '-o', file)).status, 0);
    assert.deepEqual(await readFile(file), Buffer.from('\x00\xff!', 'latin1'));
    assert.equal((await cli('log', 'export')).status, 2);
    const text = await cli('log', 'export', '--format', 'text', '--until', '2023-11-14T22:13:20.003Z');
    assert.match(text.stdout, /^2023-11-1\S+ TX ask\n2023-11-1\S+ RX \\x00\\xff\n/);
    assert.equal(service.reads.at(-1)?.untilMs.toNumber(), 1_700_000_000_003);
    const terminal = await begin(['log', 'export', '--format', 'raw'], { tty: { columns: 80 } }).done;
    assert.deepEqual([terminal.status, terminal.stdout], [2, '']);
  });

  it('leaves the path of before, and no other, when it fails', async () => {
    const path = file('log.jsonl', 'before');
    for (let n = 1; n <= 9; n += 1) service.log(1, `${n}`);
    service.breakReading = { after: 1, error: new ServerError(Status.DATA_LOSS, 'gone') };
    const failed = await cli('log', 'export', '--format', 'jsonl', '-o', path);
    assert.equal(failed.status, 7);
    assert.equal(await readFile(path, 'utf8'), 'before');
    assert.deepEqual(
      (await readdir(dir)).filter((name) => name.endsWith('.part')),
      [],
    );
    service.breakReading = { after: 1, error: new ServerError(Status.UNAVAILABLE, 'restarting') };
    assert.equal((await cli('log', 'export', '--format', 'jsonl', '-o', path)).status, 0);
    assert.deepEqual(ids(await readFile(path, 'utf8')), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.equal((await cli('log', 'export', '--format', 'jsonl', '-o', at('no/file'))).status, 1);
    assert.equal((await cli('log', 'export', '--format', 'jsonl', '-o', '/dev/null')).status, 0);
    if (process.getuid?.() === 0)
      assert.match((await cli('log', 'export', '--format', 'jsonl', '-o', '/dev/full')).stderr, /no space left/);
  });

  it('says that retention removed what was before the first entry, where the export begins with that', async () => {
    service.patchStatus({ log: {} });
    for (let n = 1; n <= 3; n += 1) service.log(1, `${n}`);
    assert.equal((await cli('log', 'export', '--format', 'raw')).stderr, '');
    service.entries.shift();
    const said = /the log begins with entry 2: retention removed what was before/;
    assert.match((await cli('log', 'export', '--format', 'raw')).stderr, said);
    assert.equal((await cli('log', 'export', '--format', 'raw', '--after', '2')).stderr, '');
  });

  it('writes a capture that Wireshark reads: packets, direction, bytes, time and comments', async () => {
    const big = Buffer.alloc(600_000, 0x5a);
    service.log(0, Buffer.from([1, 3, 0, 10]), 'poll');
    service.log(1, Buffer.from([0xff, 0, 0x80, 7, 9]));
    service.log(1, '', 'only a note');
    service.log(1, big);
    for (const entry of service.entries.slice(3)) entry.id = 9;
    service.gaps = [gap(4)];
    const file = at('line.pcapng');
    const exported = await cli('log', 'export', '--format', 'pcapng', '-o', file);
    assert.equal(exported.status, 0);
    assert.match(exported.stderr, /5 entries of this range could never be stored/);
    const rows = tshark(file, [
      'frame.packet_flags_direction',
      'frame.time_epoch',
      'frame.len',
      'rtacser.eventtype',
      'frame.comment',
      'data.data',
    ]);
    assert.equal(rows.length, 4 + 1 + 2);
    const fields = rows.map((row) => row.split('|'));
    assert.deepEqual(fields[0], ['0x00000002', '1700000000.001000000', '16', '0x01', 'poll', '0103000a']);
    assert.deepEqual(fields[1], ['0x00000001', '1700000000.002000000', '17', '0x02', '', 'ff00800709']);
    assert.deepEqual(fields[2]?.slice(0, 5), ['0x00000001', '1700000000.003000000', '12', '0x00', 'only a note']);
    assert.match(fields[3]?.join('|') ?? '', /\|12\|0x05\|5 entries \(50 bytes\) not stored: disk full/);
    const parts = fields.slice(4);
    assert.equal(
      parts.reduce((sum, part) => sum + Number(part[2]) - 12, 0),
      big.length,
    );
    assert.deepEqual(
      parts.map((part) => part[4]),
      [1, 2, 3].map((part) => `part ${part} of 3 of one entry`),
    );
  });
});

function tshark(file: string, fields: readonly string[]): string[] {
  const wanted = fields.flatMap((field) => ['-e', field]);
  try {
    const text = execFileSync('tshark', ['-r', file, '-T', 'fields', '-E', 'separator=|', ...wanted], {
      encoding: 'utf8',
      maxBuffer: 16_000_000,
      stdio: 'pipe',
    });
    return text.trimEnd().split('\n');
  } catch (error) {
    throw new Error(
      'tshark could not read the capture. Where it is missing: apt-get install -y --no-install-recommends tshark',
      { cause: error },
    );
  }
}
