/** The package for laptops, installed without a network, under the oldest Node that it promises, and the single executable: each command against a box. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, listening, ROOT, temporaryDirectory, writeConfig } from './daemon.ts';
import { echo, openPort } from './faults.ts';
import { type Both, startBoth } from './hub.ts';
import { namedPty } from './pty.ts';
import { PYTHON, startSeeing } from './python.ts';
import { addToken, type CliOutcome, runCli, startCli } from './run-cli.ts';

const OLDEST_NODE = join(ROOT, '.cache/node-oldest/bin/node');

describe('on a laptop', () => {
  const dir = temporaryDirectory();
  const home = { HOME: dir, XDG_CONFIG_HOME: join(dir, 'config') };
  let box: Both;
  let installed = '';
  let executable = '';

  before(async () => {
    [installed, executable] = packaged(dir);
    box = await startEchoBoxWithTls(dir);
    const address = listening(await box.waitFor(/ info ready /)).address.replace('0.0.0.0', '127.0.0.1');
    const trust = ['--fingerprint', fingerprint(dir), '--token-file', join(dir, 'token.txt')];
    const added = ['--host', address, '--http-port', box.address.split(':').at(-1) ?? '', ...trust];
    await succeeds(runCli(['profile', 'add', 'press-04', ...added], { env: home, cli: [executable] }));
    await succeeds(runCli(['profile', 'use', 'press-04'], { env: home, cli: [executable] }));
  });
  after(() => box.stop());

  for (const [where, cli] of [
    ['the npm package under Node 22', () => [OLDEST_NODE, installed]],
    ['the single executable', () => [executable]],
  ] as const) {
    const run = (...args: string[]) => runCli(args, { env: home, cli: cli() });

    test(`${where}: the line and its log`, async () => {
      assert.match(await succeeds(run('status')), /open/);
      assert.match(await succeeds(run('devices')), /\* .*port0/);
      await succeeds(run('send', where));
      const exchange = new RegExp(`TX ${where}\\n.* RX ${where}\\n`);
      await until('the log has both', async () => exchange.test(await succeeds(run('log', '--last', '2', '--text'))));
      const file = join(dir, 'line.jsonl');
      await succeeds(run('log', 'export', '--format', 'jsonl', '--output', file));
      assert.ok(readFileSync(file, 'utf8').includes(Buffer.from(where).toString('hex')));
      const terminal = startCli(['monitor'], home, [PYTHON, join(ROOT, 'src/cli/terminal-host.py'), ...cli()]);
      await until('it begins', () => terminal.stdout().includes('Ctrl-]'));
      terminal.process.stdin?.write('typed');
      await until('the echo', () => terminal.stdout().includes('typed'));
      terminal.process.stdin?.write('\x1d');
      await until('it has ended', () => /status 0 restored/.test(terminal.stderr()));
    });

    test(`${where}: the reference data`, async () => {
      const name = where.endsWith('executable') ? 'valves' : 'pumps';
      const schema = join(dir, 'schema.json');
      writeFileSync(schema, '{"type":"object"}');
      await succeeds(run('dict', 'create', name, '--title', name, '--scope', 'PUBLIC', '--schema', schema));
      await succeeds(run('record', 'create', name, 'P-1', '{"kw": 7.5}'));
      assert.match(await succeeds(run('record', 'get', name, 'P-1')), /7\.5/);
      await succeeds(run('outbox'));
    });

    test(`${where}: the line as a serial port`, async () => {
      const link = join(dir, 'ttyBOX');
      const attached = startCli(['attach', '--link', link], home, cli());
      await until('it is attached', () => attached.stdout().includes(link) || assert.equal(attached.stderr(), ''));
      const expected = { echo: true, after: 'after the change' };
      assert.deepEqual(await startSeeing('attach_client.py', link).seen(0), expected);
      assert.equal(await attached.end(), 0);
      const serving = startCli(['rfc2217', '--listen', ':0'], home, cli());
      const url = await until('it listens', () => /rfc2217:\S+/.exec(serving.stdout())?.[0]);
      const modem = [false, false, false, false];
      const seen = await startSeeing('rfc2217_client.py', url).seen(0);
      assert.deepEqual(seen, { ...expected, purged: 0, modem });
      assert.equal(await serving.end(), 0);
    });

    test(`${where}: discover, and what the program says of itself`, async () => {
      const { status, stdout } = await run('discover', '--timeout', '1', '--json');
      assert.equal(status, JSON.parse(stdout).boxes.length === 0 ? 5 : 0);
      assert.match(await succeeds(run('version')), /^\d+\.\d+\.\d+\n$/);
      assert.match(await succeeds(run('licences')), /@grpc\/grpc-js[\s\S]*Apache License/);
      const nowhere = await runCli(['status'], { env: { HOME: '/nonexistent' }, cli: cli() });
      assert.deepEqual([nowhere.status, nowhere.stdout], [2, '']);
      assert.match(nowhere.stderr, /no box is named\. Give --host or --profile/);
    });
  }

  test('without the optional package attach says what is missing, and the other commands run', async () => {
    const alone = installedIn(join(dir, 'alone'), join(dir, 'out'));
    await succeeds(runCli(['status'], { env: home, cli: [OLDEST_NODE, alone] }));
    const { status, stderr } = await runCli(['attach'], { env: home, cli: [OLDEST_NODE, alone] });
    assert.equal(status, 1);
    assert.match(stderr, /cannot attach the line: Cannot find module '@koromix\/koffi-.*use lineside rfc2217/);
  });
});

async function succeeds(run: Promise<CliOutcome>): Promise<string> {
  const { status, stdout, stderr } = await run;
  assert.deepEqual([status, stderr], [0, '']);
  return stdout;
}

function packaged(dir: string): [program: string, executable: string] {
  const out = join(dir, 'out');
  const printed = execFileSync(join(ROOT, 'scripts/package'), ['client', out], { encoding: 'utf8' });
  const koffi = join(ROOT, `node_modules/@koromix/koffi-linux-${process.arch}`);
  return [installedIn(join(dir, 'laptop'), out, koffi), printed.trim().split('\n')[1] ?? ''];
}

/** The program's file. */
function installedIn(prefix: string, out: string, ...more: readonly string[]): string {
  mkdirSync(prefix);
  const tarball = execFileSync('sh', ['-c', 'echo "$1"/*.tgz', 'sh', out], { encoding: 'utf8' }).trim();
  const args = ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', prefix];
  execFileSync('npm', [...args, tarball, ...more], { env: environment({ npm_config_cache: join(prefix, 'cache') }) });
  return join(prefix, 'node_modules/.bin/lineside');
}

async function startEchoBoxWithTls(dir: string): Promise<Both> {
  const authority = new Authority(dir, 'ca');
  const server = authority.issue('server', '/CN=box');
  writeFileSync(join(dir, 'chain.pem'), Buffer.concat([server.cert, authority.root.cert]));
  const pty = namedPty(dir, 'port0', false);
  echo(pty);
  const configFile = writeConfig(dir, {
    serial: { extra_ports: [pty.portName] },
    log: { commit_ms: 50 },
    grpc: { listen: ['0.0.0.0:0', 'unix:grpc.sock'] },
    http: { listen: ['0.0.0.0:0', 'unix:http.sock'] },
    tls: { cert_file: join(dir, 'chain.pem'), key_file: server.keyFile },
  });
  writeFileSync(join(dir, 'token.txt'), await addToken(configFile, 'ada', 'admin', 'operator'), { mode: 0o600 });
  const box = await startBoth({ dir });
  await openPort(box.client, pty.portName);
  return box;
}

function fingerprint(dir: string): string {
  return new X509Certificate(readFileSync(join(dir, 'ca.pem'))).fingerprint256;
}
