/** The checks of files, on real ones: sound, and in each bad state. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import Database from 'better-sqlite3';
import { migrations } from '../line/log/store/schema.ts';
import { lasting, makeCa, signed } from '../shared/base/certificates.fixture.ts';
import { systemClock } from '../shared/base/clock.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { mountSmall } from '../shared/base/small-disk.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { openDatabase } from '../shared/storage/open.ts';
import { checkTarget, targetOf, writeBundle } from './bundle/bundle-target.ts';
import { fitted } from './bundle/support-bundle.ts';
import { type CheckContext, readContext } from './check-context.ts';
import { checkCertificates, checkTokens } from './checks/configuration.ts';
import { checkDatabases, checkDisk } from './checks/disk.ts';
import { checkConsole } from './checks/machine.ts';
import { checkPermissions } from './checks/permissions.ts';
import { checkService } from './checks/service.ts';
import { runChecks } from './run-checks.ts';
import { readSafely, runTool } from './safe-files.ts';
import { contextIn, put, rootsIn, said } from './table.fixture.ts';

function fifo(path: string): void {
  assert.equal(spawnSync('mkfifo', [path]).status, 0);
}

describe('a configuration', () => {
  it('is checked if it is a FIFO, too large, binary or missing, without waiting', async (t) => {
    const dir = temporaryDirectory(t);
    fifo(join(dir, 'fifo'));
    writeFileSync(join(dir, 'large'), Buffer.alloc(2 * 1024 * 1024, 0x23));
    writeFileSync(join(dir, 'binary'), Buffer.from([0, 255, 1, 2]));
    const kinds = { fifo: 'odd', large: 'odd', binary: 'unparsable', none: 'missing', '.': 'odd' };
    for (const [name, kind] of Object.entries(kinds)) {
      const context = await readContext({ named: join(dir, name), env: {}, clock: systemClock, version: '' });
      assert.deepEqual([context.configFile.kind, context.config], [kind, undefined], name);
    }
  });

  it('that is faulty is checked with the defaults of the faulty keys', async (t) => {
    const dir = temporaryDirectory(t);
    const { configFile, config } = await contextIn(
      dir,
      '[log]\nmax_bytes = "many"\n[kafka]\nbootstrap = "a:1"\nnone = 1',
    );
    assert.deepEqual(configFile.faults.map(({ path }) => path).sort(), ['kafka.none', 'log.max_bytes']);
    assert.equal(config?.kafka.bootstrap, 'a:1');
    assert.notEqual(config.device.id, '', 'the name that the service gives itself');
  });
});

describe('files that others made', () => {
  it('are read to a limit, and a FIFO that takes the place of one is not waited for', async (t) => {
    const dir = temporaryDirectory(t);
    writeFileSync(join(dir, 'a'), 'hello');
    fifo(join(dir, 'fifo'));
    const read = await readSafely(join(dir, 'a'), 3);
    assert.equal(read.kind === 'text' && `${read.bytes.toString()} ${read.whole}`, 'hel false');
    assert.deepEqual(await readSafely(join(dir, 'fifo')), { kind: 'odd', what: 'a FIFO' });
    assert.deepEqual(await readSafely(join(dir, 'a/b')), { kind: 'missing' });
    assert.equal((await readSafely('/proc/self/status')).kind, 'text');
  });
});

describe('the disk', () => {
  it('takes a file, and nothing of it stays', async (t) => {
    const dir = temporaryDirectory(t);
    mkdirSync(join(dir, 'data'));
    const context = await contextIn(dir, '[log]\nmax_bytes = 1048576\n[outbox]\nmax_bytes = 1048576');
    assert.match(await said(checkDisk, context), /a file was written and synced/);
    assert.deepEqual(readdirSync(join(dir, 'data')), []);
  });

  it('is said to be missing, or no directory', async (t) => {
    const dir = temporaryDirectory(t);
    const context = await contextIn(dir, '');
    assert.match(await said(checkDisk, context), /warning: the data directory .* is not there yet/);
    writeFileSync(join(dir, 'data'), '');
    assert.match(await said(checkDisk, context), /failed: data\.dir names no directory/);
  });

  it('that is mounted read-only is reported as such, whoever asks', async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'lineside-read-only-'));
    chmodSync(dir, 0o755);
    const isMounted = mountSmall(t, join(dir, 'data'), 'ro,size=1m,mode=0700');
    t.after(() => rmSync(dir, { recursive: true }));
    if (!isMounted) return;
    const context = await contextIn(dir, '');
    for (const uid of [0, 65_534]) {
      process.seteuid?.(uid);
      const findings = await said(checkDisk, context).finally(() => process.seteuid?.(0));
      assert.match(findings, /failed: \S+ is mounted read-only: nothing can be stored/, `user ${uid}`);
    }
  });
});

describe('the databases', () => {
  it('are read without making anything beside them', async (t) => {
    const dir = temporaryDirectory(t);
    const data = join(dir, 'data');
    mkdirSync(data);
    const context = await contextIn(dir, '');
    const log = openDatabase({
      path: join(data, 'log.db'),
      pageSize: 4096,
      migrations,
      cacheKib: 64,
      walLimitBytes: 0,
    });
    log.close();
    const before = readdirSync(data);
    const findings = await said(checkDatabases, context);
    assert.match(findings, /ok: log\.db: 0 MiB, readable/);
    assert.match(findings, /skipped: there is no refdata\.db yet/);
    assert.deepEqual(readdirSync(data), before);
  });

  it('are found damaged, cut short, empty, foreign, and left by a process that was killed', async (t) => {
    const dir = temporaryDirectory(t);
    const data = join(dir, 'data');
    mkdirSync(data);
    const context = await contextIn(dir, '');
    const path = join(data, 'log.db');
    const state = async (): Promise<string> => (await said(checkDatabases, context)).split('\n')[0] ?? '';
    writeFileSync(path, '');
    assert.match(await state(), /failed: log\.db is no SQLite database \(it is empty\)/);
    writeFileSync(path, 'x'.repeat(5000));
    assert.match(await state(), /failed: log\.db is no SQLite database/);
    const other = new Database(join(data, 'other.db'));
    other.exec('CREATE TABLE a (b)');
    other.close();
    writeFileSync(path, readFileSync(join(data, 'other.db')));
    assert.match(await state(), /failed: log\.db cannot be read: .*no such table/);
    writeFileSync(`${path}-wal`, Buffer.alloc(5000));
    assert.match(await state(), /ok: log\.db: .* taken in at the next start/);
    rmSync(path);
    fifo(path);
    assert.match(await state(), /failed: log\.db is no file/);
  });
});

describe('rights', () => {
  it('of secrets are checked, whatever lies there', async (t) => {
    const dir = temporaryDirectory(t);
    mkdirSync(join(dir, 'data'), { mode: 0o700 });
    const password = join(dir, 'password');
    const kafka = `[kafka]\nsecurity_protocol = "sasl_ssl"\nusername = "u"\nbootstrap = "a:1"\npassword_file = "${password}"`;
    const rights = async (): Promise<string> => said(checkPermissions, await contextIn(dir, kafka));
    writeFileSync(password, 'secret', { mode: 0o600 });
    assert.match(await rights(), /^ok: /);
    chmodSync(password, 0o644);
    assert.match(await rights(), /warning: the file of kafka\.password_file may be read by everybody/);
    rmSync(password);
    assert.match(await rights(), /failed: the file of kafka\.password_file is missing/);
    fifo(password);
    assert.match(await rights(), /failed: the file of kafka\.password_file is a FIFO/);
    fifo(join(dir, 'tokens.json'));
    assert.match(await said(checkTokens, await contextIn(dir, '')), /failed: the tokens file cannot be read: a FIFO/);
  });
});

describe('certificates', () => {
  const own = (dir: string, name: string, key = name): string =>
    `[tls]\ncert_file = "${dir}/${name}.pem"\nkey_file = "${dir}/${key}.key"\nclient_ca_file = "${dir}/ca.pem"`;
  const check = async (dir: string, ...names: [name: string, key?: string]): Promise<string> =>
    said(checkCertificates, await contextIn(dir, own(dir, ...names)));

  it('are distinguished: good, of another key, expired, not yet valid, of another machine, none', async (t) => {
    const dir = temporaryDirectory(t);
    makeCa(dir, 'ca', lasting);
    const names = `DNS:${hostname()},IP:127.0.0.1`;
    signed(dir, 'good', names, { valid: lasting });
    signed(dir, 'other', 'DNS:elsewhere.example', { valid: lasting });
    signed(dir, 'expired', names, { valid: { from: '20200101000000Z', to: '20210101000000Z' } });
    signed(dir, 'early', names, { valid: { from: '20980101000000Z', to: '20990101000000Z' } });
    writeFileSync(join(dir, 'garbage.pem'), '-----BEGIN CERTIFICATE-----\nxxxx\n-----END CERTIFICATE-----\n');
    assert.match(
      await check(dir, 'good'),
      /^ok: the certificate of tls\.cert_file is valid until 2099-01-01, its key fits/,
    );
    assert.match(await check(dir, 'good'), /ok: the file of tls\.client_ca_file: 1 authority/);
    assert.match(await check(dir, 'good', 'other'), /failed: tls\.key_file holds the key of another certificate/);
    assert.match(await check(dir, 'expired'), /failed: .* has expired on 2021-01-01/);
    assert.match(await check(dir, 'early'), /failed: .* is not valid before 2098-01-01/);
    assert.match(await check(dir, 'other'), /warning: .* for no name and no address of this machine/);
    assert.match(await check(dir, 'garbage', 'good'), /failed: .* no certificate that can be read/);
    writeFileSync(join(dir, 'good.key'), 'no key');
    assert.match(await check(dir, 'good'), /failed: .* no private key that can be used/);
  });

  it('that end within a month are a warning, and authorities are checked alike', async (t) => {
    const dir = temporaryDirectory(t);
    makeCa(dir);
    signed(dir, 'soon', `DNS:${hostname()}`);
    assert.match(await check(dir, 'soon'), /warning: the certificate of tls\.cert_file ends within (1 day|2 days), on/);
    assert.match(
      await check(dir, 'soon'),
      /warning: the file of tls\.client_ca_file: certificates that end within 30 days: 1 of 1/,
    );
    writeFileSync(join(dir, 'ca.pem'), 'nothing');
    assert.match(await check(dir, 'soon'), /failed: the file of tls\.client_ca_file holds no certificate/);
  });

  it('are not waited for where a FIFO lies in their place, nor is the key', async (t) => {
    const dir = temporaryDirectory(t);
    makeCa(dir);
    signed(dir, 'box', `DNS:${hostname()}`);
    for (const [file, key] of [
      ['ca.pem', 'client_ca_file'],
      ['box.key', 'key_file'],
      ['box.pem', 'cert_file'],
    ] as const) {
      rmSync(join(dir, file));
      fifo(join(dir, file));
      assert.match(await check(dir, 'box'), new RegExp(`^failed: .*tls\\.${key} .*a FIFO`, 'm'));
    }
  });
});

describe('a console', () => {
  it('is found in the files of the kernel and of the firmware', async (t) => {
    const root = temporaryDirectory(t);
    put(root, 'proc/cmdline', 'console=serial0,115200 root=/dev/mmcblk0p2\n');
    put(root, 'proc/77/comm', 'agetty\n');
    put(root, 'proc/77/cmdline', '/sbin/agetty\0-o\0-p\0--keep-baud\0ttyAMA0\0');
    put(root, 'sys/devices/platform/fe201000.serial/tty/ttyAMA0/type', '32\n');
    put(root, 'dev/ttyAMA0', '');
    mkdirSync(join(root, 'sys/class/tty'), { recursive: true });
    symlinkSync('../../../..', join(root, 'sys/devices/platform/fe201000.serial/tty/ttyAMA0/device'));
    symlinkSync('../../devices/platform/fe201000.serial/tty/ttyAMA0', join(root, 'sys/class/tty/ttyAMA0'));
    symlinkSync('ttyAMA0', join(root, 'dev/serial0'));
    const findings = await said(checkConsole, await contextIn(root, '', { roots: rootsIn(root) }));
    assert.match(findings, /the kernel has its console on ttyAMA0/);
    assert.match(findings, /a login waits on ttyAMA0/);
  });
});

describe('the end of a check', () => {
  const context = { clock: new FakeClock() } as unknown as CheckContext & { clock: FakeClock };

  it('comes at its limit, and the others are shown all the same, in order', async () => {
    const never = new Promise<never>(() => undefined);
    const shown: string[] = [];
    const all = [
      { name: 'a', title: 'a', limitMs: 10, run: async () => [{ state: 'ok', found: '1', todo: '' }] as const },
      { name: 'b', title: 'b', limitMs: 20, run: () => never },
      { name: 'c', title: 'c', limitMs: 10, run: () => Promise.reject(new Error('token=abcdefgh')) },
    ];
    const running = runChecks(
      context,
      ({ name, state, findings }) => void shown.push(`${name} ${state} ${findings[0]?.found}`),
      all,
    );
    await new Promise((resolve) => setImmediate(resolve));
    context.clock.advance(20);
    await running;
    assert.deepEqual(shown, [
      'a ok 1',
      'b failed this did not end within 0.02 s',
      'c failed this could not be checked: token=[removed]',
    ]);
  });

  it('comes for a program that does not end, and its output is cut at a line', async () => {
    const limits = { limitMs: 60_000, limitBytes: 20 };
    const { kind, stdout, cut } = await runTool(
      systemClock,
      'sh',
      ['-c', 'echo aaaaaaaaaaaaaaaa; echo bbbbbbbb; echo cc'],
      limits,
    );
    assert.deepEqual([kind, stdout, cut], ['done', 'bbbbbbbb\ncc\n', true]);
    const clock = new FakeClock();
    const stuck = runTool(clock, 'sleep', ['1000'], limits);
    clock.advance(60_000);
    assert.equal((await stuck).kind, 'late');
    assert.equal((await runTool(systemClock, 'no-such-program-here', [], limits)).kind, 'missing');
  });
});

describe('the file of a bundle', () => {
  it('is for its owner alone, and replaces nothing that is there', (t) => {
    const dir = temporaryDirectory(t);
    const target = targetOf(join(dir, 'b.tar.gz'), false, 0);
    checkTarget(target);
    writeBundle(target, Buffer.from('one'));
    assert.equal(statSync(target.output).mode & 0o777, 0o600);
    const isTaken = (error: unknown): boolean => error instanceof LinesideError && error.code === 'CONFLICT';
    assert.throws(() => checkTarget(target), isTaken);
    assert.throws(() => writeBundle(target, Buffer.from('two')), isTaken);
    assert.deepEqual([readdirSync(dir), readFileSync(target.output, 'utf8')], [['b.tar.gz'], 'one']);
    writeBundle({ ...target, force: true }, Buffer.from('two'));
    assert.deepEqual([readdirSync(dir), readFileSync(target.output, 'utf8')], [['b.tar.gz'], 'two']);
  });

  it('is refused early where it cannot be', (t) => {
    const dir = temporaryDirectory(t);
    assert.throws(() => checkTarget(targetOf(join(dir, 'no/b'), false, 0)), /there is no directory/);
    assert.throws(() => checkTarget(targetOf(dir, true, 0)), /is there, and is no file/);
  });

  it('loses the oldest where it would be too large', () => {
    const line = (n: number): string => `line ${n}\n`;
    const content = Buffer.from(Array.from({ length: 100 }, (_, n) => line(n)).join(''));
    const { files, cut } = fitted(
      [
        { name: 'a', content },
        { name: 'journal', content },
      ],
      300,
      50,
    );
    assert.deepEqual(
      files.map((file) => file.content.length <= 250),
      [true, true],
    );
    assert.ok(
      files.every((file) => file.content.toString().endsWith(line(99)) && file.content.toString().startsWith('line ')),
    );
    assert.deepEqual(
      cut.map(({ what }) => /^the first \d+ bytes of (a|journal)$/.test(what)),
      [true, true],
    );
  });
});

/** A box with systemd's units, by trees of files as the kernel shows them. */
async function box(t: TestContext, config = ''): Promise<{ root: string; context: CheckContext }> {
  const root = temporaryDirectory(t);
  return { root, context: await contextIn(root, config, { isUnits: true, roots: rootsIn(root) }) };
}

it('no connection is made to the sockets of a unit that does not run: systemd would start it', async (t) => {
  const { root, context } = await box(t);
  mkdirSync(join(root, 'run'));
  put(root, 'sys/fs/cgroup/system.slice/lineside-hub.service/cgroup.procs', '');
  let callers = 0;
  for (const name of ['grpc.sock', 'http.sock']) {
    const server = createServer((socket) => {
      callers++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(join(root, 'run', name), resolve));
    t.after(() => server.close());
  }
  const findings = await said(checkService, context);
  assert.match(findings, /failed: lineside\.service does not run[^\n]*\nfailed: lineside-hub\.service does not run/);
  assert.equal(callers, 0);
  // The same sockets, had the units run.
  for (const unit of ['lineside', 'lineside-hub'])
    put(root, `sys/fs/cgroup/system.slice/${unit}.service/cgroup.procs`, '77\n');
  assert.match(await said(checkService, context), /ok: lineside\.service and lineside-hub\.service run/);
  assert.ok(callers > 0);
});

it("rights are judged for the units' own users, whether they run or not", async (t) => {
  const { root, context } = await box(t, '[kafka]\nca_file = "/dev/null"');
  mkdirSync(join(root, 'data'), { mode: 0o700 });
  put(
    root,
    'etc/passwd',
    'root:x:0:0::/:/bin/sh\nlineside:x:990:991::/:/bin/false\nlineside-hub:x:989:988::/:/bin/false\n',
  );
  put(root, 'etc/group', 'dialout:x:20:\nlineside:x:991:\nadm:x:4:lineside\n');
  const owner = `owner ${process.getuid?.()}`;
  assert.match(
    await said(checkPermissions, context),
    new RegExp(`failed: the service \\(user 990\\) may not write in data\\.dir \\(${owner}`),
  );
  // One that runs as another user.
  put(root, 'sys/fs/cgroup/system.slice/lineside.service/cgroup.procs', '77\n');
  put(root, 'proc/77/status', 'Name:\tnode\nUid:\t1234\t1234\t1234\t1234\nGid:\t5\t5\t5\t5\nGroups:\t20 \n');
  assert.match(await said(checkPermissions, context), /failed: the service \(user 1234\) may not write in data\.dir/);
});

it('a fresh box has no identity, which is no failure until it is on the network', async (t) => {
  const tls = '[tls]\ncert_file = "/nowhere/server.crt"\nkey_file = "credential:tls.key"\n';
  const fresh = await box(t, tls);
  assert.match(await said(checkCertificates, fresh.context), /^skipped: tls\.cert_file names no file yet/);
  assert.doesNotMatch(await said(checkPermissions, fresh.context), /failed: the file of tls/);
  const exposed = await box(t, `[grpc]\nlisten = ["0.0.0.0:50051", "unix:grpc.sock"]\n${tls}`);
  assert.match(await said(checkCertificates, exposed.context), /^failed: the file of tls\.cert_file cannot be read/);
  assert.match(exposed.context.configFile.faults.map(({ path }) => path).join(' '), /grpc\.listen/);
});
