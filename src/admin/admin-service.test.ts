/** The helper with programs that note how they were called: whatever is asked for, only the command lines of the list are run. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { revokeToken } from '../shared/auth/token-file.ts';
import { roles } from '../shared/auth/tokens.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { SENDING_LIMIT_MS } from './admin-service.ts';
import { answered, begin, codeOf, exchange, type Json, startHelper } from './helper.fixture.ts';
import { MAX_REQUEST_BYTES, MAX_UPLOAD_BYTES, REQUEST_LIMIT_MS, TURN_LIMIT_MS, type VerbName, verbs } from './verbs.ts';

const listLine = ['lineside', 'token', 'list', '--json'];

test('every command line that is run is one of the list, whatever verbs and arguments are asked for', async (t) => {
  const { ask, upload, calls, at, tokensFile } = await startHelper(t);
  writeFileSync(at('ends'), '');
  const content = Buffer.from('x');
  const sha256 = createHash('sha256').update(content).digest('hex');
  const before = readFileSync(tokensFile, 'utf8');
  // The whole list, written down a second time: a verb that is added here is seen.
  const allowed = [
    /^lineside token list --json$/,
    /^lineside token add --json( --role (viewer|operator|admin|writer|reader|refdata-internal|refdata-restricted)){1,7} -- [a-z0-9._-]{1,64}$/,
    /^lineside token revoke --json --keep-admin -- [a-z0-9._-]{1,64}$/,
    /^lineside update status --json$/,
    /^lineside update check --json \/\S+\/state\/upload$/,
    /^systemctl start lineside-admin-update\.service$/,
    /^lineside update try --json$/,
    /^lineside restore --show --json \/\S+\/state\/upload$/,
    /^systemctl start lineside-admin-restore\.service$/,
    /^systemctl --no-block restart lineside\.service$/,
    /^lineside doctor --json$/,
    /^lineside support-bundle --json --force --output \/\S+\/state\/files\/file$/,
    /^lineside backup --json --no-keys( --no-log)? \/\S+\/state\/files\/file$/,
    /^lineside config show --json$/,
    /^lineside config change --json( --dry-run)? --keep-paths --if-hash [0-9a-f]{64} -$/,
    /^lineside config undo --json --keep-paths --if-hash [0-9a-f]{64}$/,
  ];
  const odd = fc.oneof(
    fc.constantFrom(
      '--help',
      '-x',
      '--',
      '/etc/shadow',
      '../x',
      '; reboot',
      '$(reboot)',
      'a\nb',
      'a\0',
      '',
      'x'.repeat(65),
    ),
    fc.string(),
    fc.jsonValue(),
  );
  const name = fc.oneof(fc.stringMatching(/^[a-z0-9._-]{1,64}$/), odd);
  const args = fc.oneof(
    fc.constant({}),
    fc.record({ name }),
    fc.record({ bytes: fc.oneof(fc.constantFrom(1, 1, 0, MAX_UPLOAD_BYTES + 1), odd) }),
    fc.record({ sha256: fc.oneof(fc.constant(sha256), odd) }),
    fc.record({ sha256: fc.constant(sha256), confirm: fc.oneof(fc.constant('press-04'), odd) }),
    fc.record({ log: fc.oneof(fc.boolean(), odd) }),
    fc.record({
      limit: fc.oneof(fc.integer({ min: -1, max: 1_001 }), odd),
      reads: fc.oneof(fc.boolean(), odd),
      before: fc.oneof(fc.integer(), odd),
    }),
    fc.record(
      { hash: fc.oneof(fc.stringMatching(/^[0-9a-f]{64}$/), odd), text: fc.oneof(fc.string(), odd) },
      { requiredKeys: ['hash'] },
    ),
    fc.record({ name, roles: fc.oneof(fc.array(fc.oneof(fc.constantFrom(...roles), odd), { maxLength: 9 }), odd) }),
    fc.dictionary(fc.oneof(fc.constantFrom('name', 'roles', '--config', '__proto__', 'file'), fc.string()), odd),
    fc.jsonValue(),
  );
  const verb = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...Object.keys(verbs)) },
    fc.constantFrom('__proto__', 'constructor', 'toString', 'exec', 'tokens.list ', 'TOKENS.LIST', ''),
    fc.string(),
  );
  await fc.assert(
    fc.asyncProperty(verb, args, async (asked, given) => {
      const ran = calls().length;
      const isUpload = asked.endsWith('.upload');
      const answer = await (isUpload ? upload(asked, content, given) : ask(asked, given));
      const lines = calls()
        .slice(ran)
        .map((words) => words.join(' '));
      const runs = asked in verbs && 'command' in verbs[asked as VerbName] ? 1 : 0;
      const isFile = /support-bundle|backup/.test(lines[0] ?? '');
      assert.ok(lines.length === ('done' in answer || isFile ? runs : 0), JSON.stringify(answer));
      for (const line of lines)
        assert.ok(
          allowed.some((form) => form.test(line)),
          line,
        );
    }),
    { numRuns: 1_000 },
  );
  assert.ok(calls().length > 20, 'hardly anything was run: does the test ask for what there is?');
  assert.equal(readFileSync(tokensFile, 'utf8'), before);
  assert.deepEqual(
    readdirSync(at('state')).filter((name) => name !== 'upload'),
    ['audit.jsonl'],
  );
});

test('bytes that are no request are refused, and nothing is run', async (t) => {
  const { path, calls, admin } = await startHelper(t);
  const good = { verb: 'tokens.list', token: admin, args: {} };
  const rows: readonly (readonly [string | Buffer, string])[] = [
    ['\n', 'MALFORMED'],
    ['[]\n', 'MALFORMED'],
    ['{"verb":"tokens.list"}\n', 'MALFORMED'],
    [`${JSON.stringify({ ...good, path: '/etc' })}\n`, 'MALFORMED'],
    [`${JSON.stringify({ ...good, args: [] })}\n`, 'MALFORMED'],
    [`${JSON.stringify({ ...good, token: [admin] })}\n`, 'MALFORMED'],
    [`${JSON.stringify(good)}\n${JSON.stringify(good)}\n`, 'MALFORMED'],
    [Buffer.from([0xff, 0xfe, 0x0a]), 'MALFORMED'],
    ['x'.repeat(MAX_REQUEST_BYTES + 1), 'TOO_LARGE'],
  ];
  for (const [request, code] of rows)
    assert.equal(codeOf((await exchange(path, request)).answer), code, request.toString().slice(0, 80));
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
      const { answer } = await exchange(path, Buffer.concat([bytes, Buffer.from('\n')]));
      assert.equal(codeOf(answer), 'MALFORMED');
    }),
    { numRuns: 50 },
  );
  assert.deepEqual(calls(), []);
});

test('the token is checked here: unknown, revoked and without the role admin it opens nothing', async (t) => {
  const { ask, calls, token, tokensFile, lines, at } = await startHelper(t);
  const others = token('others', ...roles.filter((role) => role !== 'admin'));
  const gone = token('gone', 'admin');
  assert.equal(codeOf(await ask('tokens.list', {}, gone)), '');
  revokeToken(tokensFile, 'gone');
  assert.equal(codeOf(await ask('tokens.list', {}, others)), 'PERMISSION_DENIED');
  assert.equal(codeOf(await ask('tokens.list', {}, 'lsd_x')), 'UNAUTHENTICATED');
  await until(
    'the revoked one to be refused',
    async () => codeOf(await ask('tokens.list', {}, gone)) === 'UNAUTHENTICATED',
  );
  const ran = calls().length;
  writeFileSync(tokensFile, '{');
  await until(
    'a file that cannot be read to admit none',
    async () => codeOf(await ask('tokens.list')) === 'UNAUTHENTICATED',
  );
  assert.ok(calls().length >= ran);
  assert.ok(
    lines.some((line) => /refused a caller .*others/.test(line)),
    lines.join('\n'),
  );
  assert.ok(!readFileSync(at('state/audit.jsonl'), 'utf8').includes('others'));
});

test('the audit has the caller, the verb and its outcome; without it nothing is changed and nothing answered', async (t) => {
  const { ask, audit, at, calls, admin } = await startHelper(t);
  await ask('tokens.revoke', { name: 'ops' });
  writeFileSync(
    at('fails'),
    `lineside: warning: x\n${JSON.stringify({ error: { code: 'CONFLICT', message: 'it is the last', next: 'add one' } })}\n`,
  );
  assert.deepEqual(await ask('tokens.revoke', { name: 'ops' }), {
    error: { code: 'CONFLICT', message: 'it is the last', hint: 'add one', reasons: [] },
  });
  const shown = audit().map(({ caller, verb, args, outcome }) => [caller, verb, args, outcome]);
  const one = ['chief', 'tokens.revoke', { name: 'ops' }];
  assert.deepEqual(shown, [
    [...one, 'begun'],
    [...one, 'done'],
    [...one, 'begun'],
    [...one, 'failed: CONFLICT'],
  ]);
  assert.ok(!readFileSync(at('state/audit.jsonl'), 'utf8').includes(admin));
  await ask('tokens.list');
  const actions = async (args: object): Promise<unknown> => {
    const { done } = await ask('audit', { limit: 10, ...args });
    const { items, next } = done as { items: Json[]; next: unknown };
    return [items.map(({ id, verb, outcome }) => [id, verb, outcome]), next];
  };
  const [done, failed] = [
    [1, 'tokens.revoke', 'done'],
    [3, 'tokens.revoke', 'failed: CONFLICT'],
  ];
  assert.deepEqual(await actions({ reads: false }), [[failed, done], null]);
  assert.deepEqual(await actions({ reads: false, limit: 1 }), [[failed], 3]);
  assert.deepEqual(await actions({ reads: false, before: 3 }), [[done], null]);
  // Reading the audit is in it, a line each.
  const reads = [
    [8, 'audit', 'done'],
    [7, 'audit', 'done'],
    [6, 'audit', 'done'],
    [5, 'tokens.list', 'failed: CONFLICT'],
  ];
  assert.deepEqual(await actions({ reads: true }), [[...reads, failed, done], null]);
  const ran = calls().length;
  rmSync(at('state/audit.jsonl'));
  writeFileSync(at('victim'), 'kept');
  symlinkSync(at('victim'), at('state/audit.jsonl'));
  assert.equal(codeOf(await ask('tokens.revoke', { name: 'ops' })), 'STORAGE_FAILED');
  assert.equal(calls().length, ran);
  assert.equal(codeOf(await ask('tokens.list')), 'STORAGE_FAILED');
  assert.equal(codeOf(await ask('audit', { limit: 1, reads: true })), 'STORAGE_FAILED');
  assert.equal(readFileSync(at('victim'), 'utf8'), 'kept');
});

test('a text goes to the command by its standard input; the audit has the keys that changed and not the text', async (t) => {
  const { ask, audit, at, calls, path, admin } = await startHelper(t);
  const text = `"\u0001ü\ud800$(reboot)\n'`.repeat(4_000);
  const hash = 'a'.repeat(64);
  writeFileSync(at('says'), '{"live":["log.commit_ms"],"hub":[],"restart":["data.dir"]}');
  assert.ok('done' in (await ask('configuration.change', { hash, text })));
  assert.equal(readFileSync(at('input'), 'utf8'), text.toWellFormed());
  assert.deepEqual(calls(), [['lineside', 'config', 'change', '--json', '--keep-paths', '--if-hash', hash, '-']]);
  assert.deepEqual(
    audit().map(({ args, outcome }) => [args, outcome]),
    [
      [{ chars: text.length }, 'begun'],
      [{ chars: text.length }, 'done: log.commit_ms data.dir'],
    ],
  );
  assert.ok('done' in (await ask('configuration.check', { hash, text: '\u0001'.repeat(65_536) })));
  assert.equal(codeOf(await ask('configuration.check', { hash, text: 'x'.repeat(65_537) })), 'INVALID_ARGUMENT');
  const endless = `{"verb":"configuration.check","token":"${admin}","args":{"text":"${'x'.repeat(MAX_REQUEST_BYTES)}`;
  assert.equal(codeOf((await exchange(path, endless)).answer), 'TOO_LARGE');
  // An exit status that is an answer needs one.
  rmSync(at('says'));
  writeFileSync(at('fails'), JSON.stringify({ error: { code: 'STALE_VERSION', message: 'changed', next: '' } }));
  assert.equal(codeOf(await ask('configuration.undo', { hash })), 'STALE_VERSION');
});

test('a file that is taken slowly without end is not sent on, and the next one is', async (t) => {
  const clock = new FakeClock();
  const { path, at, admin, ask } = await startHelper(t, { clock });
  const large = Buffer.alloc(30_000_000);
  writeFileSync(at('file'), large);
  const slow = begin(path, `${JSON.stringify({ verb: 'support-bundle', token: admin, args: {} })}\n`).pause();
  await until('it to be sent', async () => codeOf(await ask('support-bundle')) === 'CONFLICT');
  clock.advance(SENDING_LIMIT_MS);
  await until('it to be over', async () => codeOf(await ask('support-bundle')) !== 'CONFLICT');
  assert.ok((await answered(slow)).rest.length < large.length);
});

test('who has the last byte of a file may ask for the next at once', async (t) => {
  const { path, at, admin } = await startHelper(t);
  const content = Buffer.alloc(100_000);
  writeFileSync(at('file'), content);
  const request = `${JSON.stringify({ verb: 'support-bundle', token: admin, args: {} })}\n`;
  const bytes = `${JSON.stringify({ done: null, bytes: content.length })}\n`.length + content.length;
  for (let n = 0; n < 20; n++) {
    let got = 0;
    for await (const piece of begin(path, request)) {
      got += (piece as Buffer).length;
      if (got === bytes) break;
    }
    assert.equal(got, bytes, `file ${n}`);
  }
});

test('a file is sent whole and nothing of it stays; a link in its place is not followed', async (t) => {
  const { path, at, admin, ask, audit } = await startHelper(t);
  const content = Buffer.alloc(300_000, 'abc\n');
  writeFileSync(at('file'), content);
  const request = `${JSON.stringify({ verb: 'support-bundle', token: admin, args: {} })}\n`;
  const { answer, rest } = await exchange(path, request);
  assert.deepEqual(answer, { done: null, bytes: content.length });
  assert.ok(rest.equals(content));
  assert.deepEqual(readdirSync(at('state')), ['audit.jsonl']);

  // One sending at a time; what is not a file goes on meanwhile.
  const large = Buffer.alloc(30_000_000);
  writeFileSync(at('file'), large);
  const slow = begin(path, request).pause();
  await until('it to be sent', async () => codeOf(await ask('support-bundle')) === 'CONFLICT');
  assert.deepEqual(await ask('tokens.list'), { done: [] });
  assert.equal((await answered(slow)).rest.length, large.length);

  // The caller goes away while the command writes: nothing of it stays, and it does not write on.
  writeFileSync(at('fills'), '');
  const leaving = begin(path, request);
  await until('it to write', () => existsSync(at('state/files/file')));
  leaving.destroy();
  await until('it to be removed', () => !existsSync(at('state/files')));
  await until('the audit', () => audit().at(-1)?.['outcome'] === 'aborted: the caller disconnected');
  assert.deepEqual(readdirSync(at('state')), ['audit.jsonl']);
  rmSync(at('fills'));

  mkdirSync(at('outside'));
  writeFileSync(at('outside/kept'), 'kept');
  symlinkSync(at('outside'), at('state/files'));
  rmSync(at('file'));
  writeFileSync(at('link'), 'secret');
  const { answer: refused, rest: none } = await exchange(path, request);
  assert.equal(codeOf(refused), 'INTERNAL');
  assert.equal(none.length, 0);
  assert.deepEqual(readdirSync(at('outside')), ['kept']);
});

test('one verb at a time: the next one waits, and is refused after its limit', async (t) => {
  const clock = new FakeClock();
  const { ask, calls, at } = await startHelper(t, { clock });
  writeFileSync(at('wait'), '');
  const first = ask('tokens.list');
  await until('the first to run', () => calls().length === 1);
  const second = ask('tokens.revoke', { name: 'ops' });
  await until('the second to wait', () => clock.nextMs === TURN_LIMIT_MS);
  clock.advance(TURN_LIMIT_MS);
  const refused = await second;
  assert.equal(codeOf(refused), 'CONFLICT');
  assert.match(JSON.stringify(refused), /another administrator's command is running: tokens\.list/);
  assert.deepEqual(calls(), [listLine]);
  const third = ask('tokens.revoke', { name: 'ops' });
  rmSync(at('wait'));
  assert.deepEqual(await first, { done: [] });
  assert.deepEqual(await third, { done: null });
  assert.equal(calls().length, 2);
});

test('a command that does not end is killed, also when its caller disconnects', async (t) => {
  const clock = new FakeClock();
  const { ask, calls, at, path, admin, audit } = await startHelper(t, { clock });
  const isGone = (): boolean => {
    try {
      process.kill(Number(readFileSync(at('pid'), 'utf8')), 0);
      return false;
    } catch {
      return true;
    }
  };
  writeFileSync(at('wait'), '');
  const late = ask('tokens.list');
  await until('it to run', () => calls().length === 1);
  clock.advance(verbs['tokens.list'].limitMs);
  assert.deepEqual(await late, {
    error: { code: 'NOT_READY', message: 'tokens.list did not end within 40 s', hint: '', reasons: [] },
  });
  await until('it to be killed', isGone);
  const socket = begin(path, `${JSON.stringify({ verb: 'tokens.list', token: admin, args: {} })}\n`);
  await until('it to run again', () => calls().length === 2 && !isGone());
  socket.destroy();
  await until('it to be killed again', isGone);
  await until('the audit', () => audit().at(-1)?.['outcome'] === 'aborted: the caller disconnected');
});

test('a change of the configuration is done whole also when its caller disconnects', async (t) => {
  const { calls, at, path, admin, audit } = await startHelper(t);
  writeFileSync(at('wait'), '');
  const args = { hash: 'a'.repeat(64) };
  const socket = begin(path, `${JSON.stringify({ verb: 'configuration.undo', token: admin, args })}\n`);
  await until('it to run', () => calls().length === 1);
  socket.destroy();
  await once(socket, 'close');
  writeFileSync(at('says'), '{"live":[],"hub":[],"restart":[],"unused":[]}');
  rmSync(at('wait'));
  await until('the audit', () => audit().at(-1)?.['outcome'] === 'done');
});

test('a request that does not arrive whole is refused after its limit', async (t) => {
  const clock = new FakeClock();
  const { path, calls } = await startHelper(t, { clock });
  const slow = begin(path, '{"verb":');
  await until('it to be read', () => clock.nextMs === REQUEST_LIMIT_MS);
  clock.advance(REQUEST_LIMIT_MS);
  assert.equal(codeOf((await answered(slow)).answer), 'REQUEST_TIMEOUT');
  assert.deepEqual(calls(), []);
});

test('it ends when nothing was asked for a while', async (t) => {
  const clock = new FakeClock();
  const { ask, ended, path } = await startHelper(t, { clock });
  await ask('tokens.list');
  await until('the connection to be closed', () => clock.pendingTimers > 0);
  clock.advance(30_000);
  await ended;
  assert.equal(existsSync(path), false);
});

const isRoot = process.getuid?.() === 0;

test("another user is refused by the kernel's word for it, even if the socket is open to all", {
  skip: !isRoot && 'needs root',
}, async (t) => {
  const { path, calls, dir, admin } = await startHelper(t, { group: 4_242 });
  chmodSync(dir, 0o755);
  chmodSync(path, 0o666);
  const request = JSON.stringify({ verb: 'tokens.list', token: admin, args: {} });
  const script = `import socket; s = socket.socket(socket.AF_UNIX); s.connect('${path}'); s.sendall(b'''${request}\\n'''); print(s.makefile().readline())`;
  const as = (...who: string[]): Promise<string> =>
    new Promise((resolve) => {
      const command = [...who, '/usr/bin/python3', '-c', script];
      execFile('setpriv', command, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
  const nobody = '--reuid=65534';
  assert.match(await as(nobody, '--regid=65534', '--clear-groups'), /PERMISSION_DENIED/);
  assert.match(
    await as(nobody, '--regid=65534', '--groups=4242'),
    /PERMISSION_DENIED/,
    'the hub has it as its own group',
  );
  assert.deepEqual(calls(), []);
  assert.match(await as(nobody, '--regid=4242', '--clear-groups'), /"done":\[\]/);
});
