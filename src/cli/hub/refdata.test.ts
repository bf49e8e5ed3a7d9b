import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { until } from '../../shared/base/wait.fixture.ts';
import { drivesTerminal, run, start, testFiles } from '../drive.fixture.ts';
import { cli, httpSocket, hub, hubForEach } from './fake-hub.fixture.ts';

const files = testFiles();
const { dir, file } = files;
hubForEach(files);

describe('dict', () => {
  it('asks nothing of the hub when the command line is wrong', async () => {
    for (const argv of [
      ['dict'],
      ['dict', 'create', 'pumps'],
      ['dict', 'create', 'pumps', '--title', 'x', '--scope', 'secret'],
      ['dict', 'update', 'pumps'],
      ['dict', 'draft', 'approve', 'pumps', 'x'],
      ['record', 'update', 'pumps', 'P-1', '{}', '--version', '0'],
      ['record', 'get', 'pumps', 'P-1', '--at', 'yesterday'],
      ['outbox', 'dead-letters', 'discard', '1'],
      ['import'],
      ['import', 'x', '--format', 'csv'],
      ['import', file('ok', '{}'), '--reason', 'two\nlines'],
    ]) {
      const outcome = await cli(...argv);
      assert.deepEqual([outcome.status, outcome.stdout], [2, ''], argv.join(' '));
      assert.notEqual(outcome.stderr, '', argv.join(' '));
    }
    assert.deepEqual(hub.asked, []);
  });
});

describe('a file with a schema', () => {
  it('that is none is refused with a hint for files', async () => {
    const { status, stderr } = await cli('dict', 'update', 'pumps', '--schema', file('list.json', '[1]'));
    assert.equal(status, 1);
    assert.match(stderr, /it is no JSON object\. Nothing was sent\. Name a file that holds one JSON object/);
  });
});

describe('record', () => {
  it('takes DATA as text, from a file and from standard input, and keeps every character of keys', async () => {
    const keys = ['P-1', '..', '.', 'a/b?c#d', 'größe %2F', '--', '\u{1f6e2}'];
    for (const key of keys) {
      const made = await cli('record', 'create', 'pumps', '--', key, '{"kw": 7.5}');
      assert.deepEqual([made.status, made.stderr], [0, ''], key);
      const got = await cli('record', 'get', 'pumps', '--json', '--', key);
      const record = JSON.parse(got.stdout) as { businessKey: string; data: unknown };
      assert.deepEqual([record.businessKey, record.data], [key, { kw: 7.5 }]);
    }
    const path = file('data.json', '{"from":"file"}');
    assert.equal((await cli('record', 'update', 'pumps', 'P-1', `@${path}`)).status, 0);
    assert.match((await cli('record', 'get', 'pumps', 'P-1')).stdout, /"from": "file"/);
    const piped = await run(['record', 'update', 'pumps', 'P-1', '-'], { httpSocket, stdin: '{"from":"stdin"}' });
    assert.equal(piped.stdout, 'updated P-1: version 3, after version 2\n');
  });

  it('refuses DATA that is none, or that would not be kept exactly, before anything is sent', async () => {
    const path = file('bad.json', Buffer.from([0x7b, 0xff]));
    const cases: readonly [data: string, stdin: string, text: RegExp][] = [
      ['[1]', '', /cannot use DATA: it is no JSON object/],
      ['{"a":', '', /cannot use DATA: it is not JSON/],
      ['{"n": 9007199254740993}', '', /\/n the number 9007199254740993 cannot be kept exactly/],
      ['{"a": 1, "a": 2}', '', /\/a is there twice/],
      ['-', '', /cannot use standard input: there is nothing in it/],
      ['-', 'x'.repeat(1024 * 1024 + 1), /it has more than 1 MiB/],
      [`@${path}`, '', /it is not UTF-8/],
      [`@${path}.none`, '', /there is no such file/],
      [`@${dir}`, '', /it is a directory/],
    ];
    for (const [data, stdin, text] of cases) {
      const outcome = await run(['record', 'create', 'pumps', 'P-1', data], { httpSocket, stdin });
      assert.equal(outcome.status, 1, outcome.stderr);
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(hub.asked, []);
  });

  it('writes over the version that is there now, and says which', async () => {
    hub.write('pumps', 'P-1', 'created', { data: { kw: 1 } });
    const updated = await cli('record', 'update', 'pumps', 'P-1', '{"kw": 2}', '--reason', 'new motor');
    assert.equal(updated.stdout, 'updated P-1: version 2, after version 1\n');
    assert.match(
      (await cli('record', 'get', 'pumps', 'P-1')).stdout,
      /Version +2, updated by local at .*: new motor\n/,
    );
    assert.equal((await cli('record', 'close', 'pumps', 'P-1')).stdout, 'closed P-1: version 3, after version 2\n');
    assert.match((await cli('record', 'get', 'pumps', 'P-1')).stdout, /Valid +from .* to /);
  });

  it('names the newest version, also where that one waits for its time, and says that it is overtaken', async () => {
    hub.write('pumps', 'P-1', 'created', { data: { kw: 1 } });
    hub.write('pumps', 'P-1', 'updated', { data: { kw: 2 }, validFrom: '2999-01-01T00:00:00+00:00' });
    const updated = await cli('record', 'update', 'pumps', 'P-1', '{"kw": 3}');
    assert.match(
      updated.stdout,
      /^updated P-1: version 3, after version 2, which was to be valid from \d{4}-\S+ \S+ on/,
    );
    const none = await cli('record', 'close', 'pumps', 'P-9');
    assert.deepEqual(
      [none.status, none.stderr],
      [5, 'lineside: cannot close record P-9 of pumps: there is no record "P-9".\n'],
    );
  });

  it('says what changed meanwhile when the version is not the one that was meant', async () => {
    hub.write('pumps', 'P-1', 'created', { data: { kw: 1, name: 'A' } });
    hub.write('pumps', 'P-1', 'updated', { data: { name: 'A', kw: 2 } }, 'anna');
    hub.write('pumps', 'P-1', 'updated', { data: { kw: 2, name: 'B', place: {} }, changeReason: 'moved' }, 'bob');
    const stale = await cli('record', 'update', 'pumps', 'P-1', '{}', '--version', '1');
    assert.equal(stale.status, 1);
    const [head, ...reasons] = stale.stderr.trimEnd().split('\n');
    assert.match(
      head ?? '',
      /cannot update record P-1 of pumps: it is not at version 1 any more, but at 3\. .*--version 3\.$/,
    );
    assert.match(reasons[0] ?? '', /^ {2}version 3: updated by bob at .*: moved \(changed: name, place\)$/);
    assert.match(reasons[1] ?? '', /^ {2}version 2: updated by anna at .* \(changed: kw\)$/);
    // Another writer comes between reading the version and writing.
    hub.beforeWrite = () => {
      hub.beforeWrite = undefined;
      hub.write('pumps', 'P-1', 'updated', { data: {} }, 'carl');
    };
    const raced = await cli('record', 'close', 'pumps', 'P-1', '--json');
    const { error } = JSON.parse(raced.stderr) as { error: { code: string; reasons: string[] } };
    assert.deepEqual([raced.status, error.code, error.reasons.length], [1, 'STALE_VERSION', 1]);
    assert.match(error.reasons[0] ?? '', /version 4: updated by carl/);
    const future = await cli('record', 'close', 'pumps', 'P-1', '--version', '9');
    assert.match(future.stderr, /it never was at version 9; it is at 4/);
    assert.equal(hub.records.get('pumps\0P-1')?.length, 4);
  });

  it('hands times over whole: microseconds, offsets, ages', async () => {
    hub.write('pumps', 'P-1', 'created', {});
    const at = ['--at', '2026-03-01T10:30:00.123456+01:00'];
    await cli('record', 'get', 'pumps', 'P-1', ...at);
    assert.match(hub.asked[0] ?? '', /\?at=2026-03-01T09%3A30%3A00\.123456%2B00%3A00$/);
    await cli('record', 'list', 'pumps', '--at', '2h');
    const asked = decodeURIComponent(/at=([^&]+)/.exec(hub.asked[1] ?? '')?.[1] ?? '');
    assert.ok(Math.abs(Date.parse(asked) - (Date.now() - 7_200_000)) < 60_000, asked);
  });

  it('shows no character that would drive the terminal, and the same JSON all the same', async () => {
    const data = { 'na\x9bme': 'x\x1b[31m\u202e\u{e0041}y' };
    hub.write('pumps', 'P\x1b[2J', 'created', { data, changeReason: '\x1b]0;t\x07' }, 'm\x9b');
    for (const argv of [
      ['record', 'get', 'pumps', 'P\x1b[2J'],
      ['record', 'list', 'pumps'],
      ['record', 'history', 'pumps', 'P\x1b[2J'],
    ]) {
      const { stdout } = await cli(...argv);
      assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')), JSON.stringify(stdout));
    }
    for (const argv of [
      ['record', 'list', 'pumps', '--json'],
      ['record', 'history', 'pumps', 'P\x1b[2J', '--json'],
      ['dict', 'list', '--json'],
    ]) {
      const { stdout } = await cli(...argv);
      assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')), JSON.stringify(stdout));
      if (argv[0] === 'record') assert.deepEqual((JSON.parse(stdout) as { data: object }).data, data);
    }
    const shown = (await cli('record', 'get', 'pumps', 'P\x1b[2J')).stdout;
    assert.deepEqual(JSON.parse(shown.slice(shown.indexOf('{'))), data);
  });

  it('shows the history, newest first', async () => {
    hub.write('pumps', 'P-1', 'created', { data: { kw: 1 } });
    hub.write('pumps', 'P-1', 'closed', { data: { kw: 1 }, changeReason: 'scrapped' });
    const { stdout } = await cli('record', 'history', 'pumps', 'P-1');
    assert.match(stdout, /^VERSION .*\n2 +closed by local at .*: scrapped +from .* to .*\n1 +created .*\n$/);
  });

  it('ends with 130 on Ctrl-C while it waits for standard input', async () => {
    const { PassThrough } = await import('node:stream');
    const stdin = new PassThrough();
    const waiting = start(['record', 'create', 'pumps', 'P-1', '-'], { httpSocket, stdin });
    await until('it reads', () => stdin.listenerCount('readable') + stdin.listenerCount('data') > 0);
    waiting.signal('SIGINT');
    assert.deepEqual([(await waiting.done).status, hub.asked], [130, []]);
  });
});
