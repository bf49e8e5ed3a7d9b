/** The configuration file shown, checked, changed and put back, by the commands that the console uses too. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { run } from '../../cli/drive.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { checkText, loadText } from '../../shared/config/load.ts';
import { addConfigCommands } from './commands.ts';

const before = `# line 7
[log]
commit_ms = 1000
[kafka]
password = "hunter2"
`;
/** Without what the checker would refuse. */
const good = '[log]\ncommit_ms = 1000\n';

function start(t: TestContext, text: string | null = good) {
  const dir = temporaryDirectory(t);
  const file = join(dir, 'lineside.toml');
  if (text !== null) writeFileSync(file, text);
  const command = async (argv: readonly string[], stdin = '') => {
    const local = (...args: Parameters<typeof addConfigCommands>): void => addConfigCommands(...args);
    const { status, stdout, stderr } = await run(['config', ...argv, '--config', file], { local, stdin });
    return { status, stdout, stderr };
  };
  const json = async (argv: readonly string[], stdin = '') => {
    const { status, stdout, stderr } = await command([...argv, '--json'], stdin);
    return { status, answer: JSON.parse(stdout || stderr) as Readonly<Record<string, unknown>> };
  };
  const read = (): string => readFileSync(file, 'utf8');
  return { dir, file, command, json, read };
}

test('a change is checked, written whole with owner and mode, and named by what it takes to apply', async (t) => {
  const { dir, file, command, json, read } = start(t);
  const isRoot = process.getuid?.() === 0;
  chmodSync(file, 0o640);
  if (isRoot) chownSync(file, 4_242, 4_243);
  const text = '[log]\ncommit_ms = 20\nqueue_bytes = "1MiB"\n[kafka]\npartitions = 4\n';
  const plan = { live: ['log.commit_ms'], hub: ['kafka.partitions'], restart: ['log.queue_bytes'], unused: [] };
  const { answer: dry } = await json(['change', '--dry-run', '-'], text);
  assert.equal(read(), good);
  const { answer, status } = await json(['change', '-'], text);
  assert.equal(status, 0);
  assert.deepEqual(answer, { ...dry, isReloaded: false });
  const { hash } = (await json(['show'])).answer;
  assert.deepEqual(answer, { file, hash, isChanged: true, faults: [], warnings: [], ...plan, isReloaded: false });
  assert.equal(read(), text);
  for (const name of ['lineside.toml', 'lineside.toml.previous']) {
    const { mode, uid, gid } = statSync(join(dir, name));
    assert.deepEqual([mode & 0o7777, uid, gid], [0o640, isRoot ? 4_242 : uid, isRoot ? 4_243 : gid], name);
  }
  assert.deepEqual(readdirSync(dir).toSorted(), ['.lineside.toml.lock', 'lineside.toml', 'lineside.toml.previous']);

  const undone = (await json(['undo', '--dry-run'])).answer;
  assert.deepEqual([undone['isChanged'], undone['live'], read()], [true, ['log.commit_ms'], text]);
  const words = (await command(['undo'])).stdout;
  assert.match(words, /is changed\napplied by the reload: log\.commit_ms\n/);
  assert.match(
    words,
    /applied by "systemctl restart lineside": log\.queue_bytes\nnot reloaded: systemctl reload lineside\n/,
  );
  assert.equal(read(), good);
  await command(['undo']);
  assert.equal(read(), text);
  assert.match((await command(['change', '-'], text)).stdout, /nothing to change/);
  // Nothing was changed: what can be undone is what it was.
  await command(['undo']);
  assert.equal(read(), good);
});

test('a text with faults is not written: each fault has its line and key, and no value that may be a secret', async (t) => {
  const { json, command, read } = start(t);
  const text = '[log]\ncommit_ms = "soon"\nx\n[kafka]\npassword_file = "hunter2"\npartitons = 4\n';
  const { status, answer } = await json(['change', '--dry-run', '-'], text);
  assert.equal(status, 2);
  const [unread] = answer['faults'] as { message: string }[];
  assert.match(unread?.message ?? '', /^Invalid TOML document/);
  assert.deepEqual(answer['faults'], [
    { path: '', line: 3, message: unread?.message },
    { path: 'kafka.partitons', line: 6, message: 'no such key; did you mean kafka.partitions?' },
    { path: 'log.commit_ms', line: 2, message: 'must be a whole number from 10 to 60000, not "soon"' },
    { path: 'kafka.password_file', line: 5, message: 'must be an absolute path or "credential:NAME"' },
  ]);
  const { status: refused, stderr } = await command(['change', '-'], text);
  assert.equal(refused, 2);
  assert.match(
    stderr,
    /the new text has 4 faults\. Nothing was changed\.\n {2}line 3: .*\n {2}line 6: kafka\.partitons: no such key/,
  );
  assert.ok(!JSON.stringify([answer, stderr]).includes('hunter2'));
  const missing = '[kafka]\npassword_file = "/nonexistent/Hunter2!x"\nsecurity_protocol = "sasl_ssl"\nusername = "a"\n';
  assert.match(JSON.stringify((await json(['change', '--dry-run', '-'], missing)).answer), /cannot read <hidden>/);
  assert.equal(read(), good);
  const large = await json(['change', '-'], '#'.repeat(64 * 1_024 + 1));
  assert.equal((large.answer['error'] as { code: string }).code, 'TOO_LARGE');
});

test('what is hidden stays, whatever another writer does to it; a stale hash changes nothing', async (t) => {
  const { json, command, read, file } = start(t, before);
  const { text, hash, hidden, hasPrevious } = (await json(['show'])).answer as Record<string, string>;
  assert.deepEqual([text, hidden, hasPrevious], [before.replace('"hunter2"', '<hidden 1>'), 1, false]);
  assert.equal((await command(['show'])).stdout, text);
  writeFileSync(file, before.replace('hunter2', 'hunter3'));
  const edited = `${text}`.replace('password = <hidden 1>\n', '').replace('1000', '20');
  const { answer } = await json(['change', '--dry-run', '--if-hash', `${hash}`, '-'], `${text}`.replace('1000', '20'));
  assert.deepEqual(answer['faults'], [{ path: 'kafka.password', line: 5, message: 'no such key' }]);
  writeFileSync(file, `${before}# theirs\n`);
  const stale = await json(['change', '--if-hash', `${hash}`, '-'], edited);
  assert.deepEqual([stale.status, (stale.answer['error'] as { code: string }).code], [1, 'STALE_VERSION']);
  assert.equal(read(), `${before}# theirs\n`);
  assert.ok(!existsSync(`${file}.previous`));
  assert.equal((await json(['undo'])).status, 5);
});

test('keys that name places keep them with --keep-paths; others change', async (t) => {
  const own = '[data]\ndir = "/srv/line"\n[grpc]\nlisten = ["127.0.0.1:1", "unix:/run/a.sock"]\n';
  const { json, read } = start(t, own);
  const check = async (text: string): Promise<unknown> =>
    (
      (await json(['change', '--dry-run', '--keep-paths', '-'], text)).answer['faults'] as {
        path: string;
        line: unknown;
      }[]
    ).map(({ path, line }) => [path, line]);
  for (const [text, ...faults] of [
    [own.replace('/srv/line', '/srv/other'), ['data.dir', 2]],
    [own.replace('dir = "/srv/line"', ''), ['data.dir', null]],
    [own.replace('/run/a.sock', '/run/b.sock'), ['grpc.listen', 4]],
    [`${own}[serial]\nextra_ports = ["/dev/pts/7"]\n`, ['serial.extra_ports', 6]],
    [`${own}[auth]\ntokens_file = "/etc/passwd"\n`, ['auth.tokens_file', 6]],
    [`${own}[webhooks]\nkey_file = "credential:x"\n`, ['webhooks.key_file', 6]],
    [own.replace('127.0.0.1:1', '127.0.0.1:2')],
    [`${own}[serial.line]\nport = "/dev/ttyUSB0"\n`],
  ] as const)
    assert.deepEqual(await check(text), faults, text);
  const moved = own.replace('/srv/line', '/srv/other');
  assert.equal((await json(['change', '--keep-paths', '-'], moved)).status, 2);
  assert.equal(read(), own);
  assert.equal((await json(['change', '-'], moved)).status, 0);
  assert.equal((await json(['undo', '--keep-paths'])).status, 2);
  assert.equal(read(), moved);
});

test('a link is kept, and the file that it leads to is changed; what is no file is refused', async (t) => {
  const { dir, command, json } = start(t, null);
  mkdirSync(join(dir, 'real'));
  writeFileSync(join(dir, 'real/x.toml'), good);
  symlinkSync('real/x.toml', join(dir, 'lineside.toml'));
  const text = '[log]\ncommit_ms = 30\n';
  assert.equal((await command(['change', '-'], text)).status, 0);
  assert.ok(lstatSync(join(dir, 'lineside.toml')).isSymbolicLink());
  assert.equal(readFileSync(join(dir, 'real/x.toml'), 'utf8'), text);
  assert.equal(readFileSync(join(dir, 'real/x.toml.previous'), 'utf8'), good);
  const other = start(t, null);
  mkdirSync(other.file);
  assert.match((await other.command(['show'])).stderr, /it is no file/);
  // A file that is missing is an empty one; the new one can be read by the service.
  const fresh = start(t, null);
  assert.equal((await fresh.json(['show'])).answer['text'], '');
  assert.equal((await fresh.command(['change', '-'], text)).status, 0);
  assert.equal(statSync(fresh.file).mode & 0o777, 0o644);
  assert.equal((await json(['show'])).answer['hasPrevious'], true);
});

test('a text without a fault is one that the service takes, and no other', () => {
  const keys = fc.constantFrom(
    'commit_ms = 20',
    'commit_ms = "x"',
    'max_age_days = 3',
    'nothing = 1',
    'broken',
    'x = "',
  );
  const headers = fc.constantFrom('[log]', '[log', '[kafka]', '[serial.line]', 'stop_bits = "1.5"', 'username = "a"');
  fc.assert(
    fc.property(fc.array(fc.oneof(keys, headers), { maxLength: 6 }), (lines) => {
      const text = lines.join('\n');
      let isTaken = true;
      try {
        loadText({ file: 'x', text }, {}, 'check');
      } catch {
        isTaken = false;
      }
      assert.equal(checkText(text, {}).faults.length === 0, isTaken, text);
    }),
    { numRuns: 300 },
  );
});
