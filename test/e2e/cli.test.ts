/**
 * The technician's commands against the compiled daemon: what each does, its main failure, its exit status. Those of the port run
 * in this process, the others as the compiled command.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { run } from '../../src/cli/drive.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { type NamedPty, namedPty } from './pty.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

let dir: string;
let daemon: Daemon;
let pty: NamedPty;

before(async () => {
  dir = temporaryDirectory();
  pty = namedPty(dir);
  daemon = await startDaemon({ config: { serial: { extra_ports: [`${dir}/port*`], simulate: true, rx_gap_ms: 50 } } });
});
after(async () => {
  assert.equal(await daemon.stop(), 0);
});

const cli = (...args: string[]): Promise<CliOutcome> => runCli(args, { env: { LINESIDE_SOCKET: daemon.socket } });
const sim = (): string => join(daemon.dir, 'run', 'sim0');

async function ok(...args: string[]): Promise<CliOutcome> {
  const outcome = await cli(...args);
  assert.equal(outcome.status, 0, `lineside ${args.join(' ')}: ${outcome.stderr}`);
  assert.equal(outcome.stderr, '');
  return outcome;
}

/** One line, whose PTY is the name of the port. The error line says what failed and what to do, and with --json the same. */
async function does(line: string, status: number, text: RegExp): Promise<void> {
  const args = line.split(' ').map((word) => (word === 'PTY' ? pty.portName : word));
  const plain = await run(args, { socket: daemon.socket });
  assert.equal(plain.status, status, plain.stderr);
  assert.match(status === 0 ? plain.stdout : plain.stderr, text);
  if (status === 0 || args[0] === 'monitor') return;
  assert.match(plain.stderr, /^lineside: .*\n$/);
  const json = await run([...args, '--json'], { socket: daemon.socket });
  const { error } = JSON.parse(json.stderr) as { error: { exitStatus: number; message: string } };
  assert.deepEqual([json.status, error.exitStatus, error.message !== ''], [status, status, true]);
}

const parsed = (outcome: CliOutcome): Record<string, unknown> => JSON.parse(outcome.stdout) as Record<string, unknown>;

describe('the port', () => {
  const none = /no port is open.*lineside open/s;
  const noWires = /modem|break|pseudo|PTY|terminal/i;
  const open =
    '{"open":true,"portName":"PTY","baudRate":9600,"dataBits":7,"parity":"even","stopBits":2,"packetSize":4}\\n';
  const rows: readonly (readonly [line: string, status: number, says: RegExp | string])[] = [
    ['settings', 0, /^closed\n$/],
    ['settings --json', 0, /^\{"open":false\}\n$/],
    ['close', 0, /^closed\n$/],
    ...['send x', 'receive', 'modem', 'break', 'monitor'].map((line) => [line, 6, none] as const),
    ['status', 0, /closed/],
    ['status --json', 0, /"healthy":true/],
    ['status --json', 0, /"portState":"closed"/],
    ['open PTY 9600,7E2 --packet-size 4', 0, /^open: .* 9600,7E2 packets of 4 bytes\n$/],
    ['devices', 0, '^\\* +PTY$'],
    ['settings --json', 0, `^${open}$`],
    ['open /dev/ttyNOSUCH0', 5, /no serial port is called "\/dev\/ttyNOSUCH0"\. Name one of .*sim0/],
    ['open ttyNOSUCH0', 5, /no serial port is called "ttyNOSUCH0"\. Name one of /],
    ['open', 5, /the box has several ports\. Name one of .*sim0/],
    ['open 9600', 5, /the box has several ports/],
    ['open sim0 9600', 0, /^open: .*\/sim0 9600,8N1\n$/],
    ['open PTY 9600,7E2 --packet-size 4', 0, /^open: /],
    ['open PTY --baud 0', 1, /baud_rate/],
    ['open PTY 9600,8N1.5', 1, /stop_bits: 1\.5/],
    // The settings of before stay.
    ['settings --json', 0, `^${open}$`],
    ['close', 0, /^closed\n$/],
    ['settings', 0, /^closed\n$/],
    ['open PTY --packet-size 8', 0, /packets of 8 bytes/],
    ['send seven77', 1, /packet_size/],
    ['open PTY 115200', 0, /^open: /],
    ['receive', 5, /nothing was received/],
    ['modem', 1, noWires],
    ['break', 1, noWires],
    ['log --since 1m --until 2m', 2, /--since is after --until/],
    ['log export', 2, /--format/],
    ['log export --format raw -o /nonexistent/x', 1, /no such file or directory/],
    ['status --socket /nonexistent/none.sock', 3, /there is no such socket.*Is the service running/],
  ];
  for (const [line, status, says] of rows)
    test(`${line}: ${status}`, () =>
      does(line, status, typeof says === 'string' ? new RegExp(says.replaceAll('PTY', pty.portName), 'm') : says));

  test('devices lists the simulated line too', async () => {
    const listed = parsed(await ok('devices', '--json'))['devices'] as { portName: string; description: string }[];
    assert.equal(listed.find(({ portName }) => portName === sim())?.description, 'Simulated line');
  });
});

test('the log shows what was sent and what was received, to people and scripts', async () => {
  await ok('open', pty.portName);
  await ok('send', 'log me');
  await pty.write(Buffer.from('heard'));
  const shown = async (): Promise<boolean> => /TX.*log me[\s\S]*RX.*heard/.test((await ok('log', '--text')).stdout);
  await until('both in the stored log', shown);
  const [sent] = (await ok('log', '--json', '--last', '2')).stdout.split('\n');
  const { dir: way, hex } = JSON.parse(sent ?? '') as { dir: string; hex: string };
  assert.deepEqual([way, hex], ['tx', Buffer.from('log me').toString('hex')]);
});

describe('on this machine', () => {
  test('config check lists every key, and every fault with exit status 2', async () => {
    const good = await cli('config', 'check', '--config', daemon.configFile);
    assert.equal(good.status, 0, good.stderr);
    assert.match(good.stdout, /\n# OK\n$/);
    const changed = await cli('config', 'check', daemon.configFile, '--changed', '--json');
    const { file: named, keys } = parsed(changed) as { file: string; keys: { path: string; source: string }[] };
    assert.equal(named, daemon.configFile);
    assert.ok(
      keys.some(({ path }) => path === 'serial.simulate') && !keys.some(({ path }) => path === 'log.max_bytes'),
    );
    assert.match(good.stdout, /serial\.simulate = true {2}\(from file\)/);
    const file = join(dir, 'bad.toml');
    writeFileSync(file, '[serial]\nat_start = "never"\nsped = 1\n[log]\nmax_bytes = "much"\n');
    const bad = await cli('config', 'check', file);
    assert.equal(bad.status, 2);
    for (const path of ['serial.at_start', 'serial.sped', 'log.max_bytes']) assert.ok(bad.stderr.includes(path), path);
  });

  test('config schema takes numbers with a unit too', async () => {
    const schema = JSON.stringify(parsed(await ok('config', 'schema')));
    assert.match(
      schema,
      /"commit_ms":\{[^{}]*"anyOf":\[\{"type":"integer","minimum":10,[^{}]*\},\{"type":"string","pattern":/,
    );
  });

  test('token add, list and revoke', async () => {
    const config = ['--config', daemon.configFile];
    const none = await cli('token', 'list', ...config);
    const added = await cli('token', 'add', 'laptop', '--role', 'viewer', ...config);
    assert.match(none.stdout, /^no tokens: there is no .*tokens\.json\n$/);
    assert.match(added.stdout.trim().split('\n').at(-1) ?? '', /^lsd_[\w-]{43}$/);
    const listed = (await cli('token', 'list', ...config)).stdout;
    assert.match(listed, /^NAME +ROLES +CREATED\nlaptop +viewer +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n$/);
    const scripted = parsed(
      await cli('token', 'add', 'script', '--role', 'viewer', '--role', 'reader', '--json', ...config),
    );
    assert.deepEqual([scripted['name'], scripted['roles']], ['script', ['viewer', 'reader']]);
    assert.match(String(scripted['token']), /^lsd_/);
    const twice = await cli('token', 'add', 'laptop', '--role', 'viewer', ...config);
    assert.equal(twice.status, 2);
    assert.match(
      twice.stderr,
      /^lineside: cannot add token laptop: there is a token named "laptop" already\. Revoke it first/,
    );
    const unknown = await cli('token', 'add', 'b', '--role', 'boss', ...config);
    assert.equal(unknown.status, 2);
    assert.match(unknown.stderr, /^lineside: cannot add token b: no such role: "boss"\. One of viewer, /);
    assert.equal((await cli('token', 'revoke', 'laptop', ...config)).status, 0);
    assert.equal((await cli('token', 'revoke', 'laptop', ...config)).status, 2);
  });
});
