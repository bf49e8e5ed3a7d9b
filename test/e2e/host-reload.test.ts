/** systemctl reload as the compiled daemon takes it: SIGHUP with a port open under traffic, with a faulty file, with a hub. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'smol-toml';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { openNotifySocket } from '../../src/shared/host/notify-socket.fixture.ts';
import { serial } from '../../src/shared/proto/services.ts';
import { environment, MAIN, NODE, startDaemon, type Toml, temporaryDirectory, writeConfig } from './daemon.ts';
import { openPort } from './faults.ts';
import { type Both, ownLog, startBoth, startHub } from './hub.ts';
import { LiveReader } from './live-reader.ts';
import { namedPty } from './pty.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

const { OK, INVALID_ARGUMENT } = serial.StatusCode;
/** Some 20 writes between two reads of the log: a port that was closed for a moment would lose some. */
const WRITE_EVERY_MS = 2;

/** Sections over what the file has. */
function change(file: string, sections: Readonly<Record<string, Toml>>): void {
  const now = parse(readFileSync(file, 'utf8')) as Record<string, Toml>;
  for (const [name, keys] of Object.entries(sections)) now[name] = { ...now[name], ...keys };
  replace(file, stringify(now));
}

/** In one step: the hub may still be reading the file of the reload before. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

const TAKEN = / info configuration reloaded/;
const REFUSED = / error the configuration is faulty/;

async function reload(both: Both, pattern: RegExp): Promise<void> {
  const from = both.logLines.length;
  process.kill(both.linePid, 'SIGHUP');
  await both.waitFor(pattern, from);
}

test('with a port open under traffic: no byte is lost, live keys count, others are named, a faulty file is refused', async (t) => {
  const socket = await openNotifySocket(t, join(temporaryDirectory(), 'notify'));
  const ports = temporaryDirectory();
  const pty = namedPty(ports);
  const config = { serial: { extra_ports: [`${ports}/*`], max_payload_bytes: 1_000 } };
  const daemon = await startDaemon({ env: { NOTIFY_SOCKET: socket.name }, config });
  const { client, configFile } = daemon;
  await openPort(client, pty.portName, { baudRate: 115_200 });
  const openedMs = performance.now();
  const tail = await LiveReader.start(client);
  let sent = '';
  let isOn = true;
  const traffic = (async () => {
    for (let i = 0; isOn; i++) {
      const piece = `${i}.`;
      await pty.write(Buffer.from(piece));
      sent += piece;
      await sleep(WRITE_EVERY_MS);
    }
  })();
  const flows = async (): Promise<void> => {
    const before = tail.rxBytes;
    await until('traffic', () => tail.rxBytes > before + 100);
  };
  const reload = async (pattern: RegExp): Promise<string> => {
    const [from, before] = [daemon.logLines.length, socket.messages.length];
    process.kill(daemon.pid, 'SIGHUP');
    const line = await daemon.waitFor(pattern, from);
    await socket.waitFor(({ fields }) => fields['READY'] === '1', before);
    const names = socket.messages.slice(before).flatMap(({ fields }) => Object.keys(fields));
    assert.deepEqual(names.slice(0, 3), ['RELOADING', 'MONOTONIC_USEC', 'READY']);
    await flows();
    return line;
  };
  const status = (): string => socket.messages.findLast(({ fields }) => 'STATUS' in fields)?.fields['STATUS'] ?? '';
  const send = (bytes: number) => client.serial.sendPacket({ payload: Buffer.alloc(bytes, 'x') });

  await flows();
  assert.equal((await send(900)).status, OK);
  change(configFile, {
    serial: { max_payload_bytes: 800 },
    log: { max_age_days: 3, queue_bytes: 1_000_000 },
    kafka: { bootstrap: 'geheim.example:9092' },
  });
  assert.match(await reload(/ info configuration reloaded /), /taken="serial\.max_payload_bytes log\.max_age_days"/);
  assert.match(daemon.logLines.at(-1) ?? '', /warn changed keys need a restart of the service keys=log\.queue_bytes$/);
  assert.match(status(), /^RESTART NEEDED for log\.queue_bytes; open /);
  assert.equal((await send(900)).status, INVALID_ARGUMENT);
  assert.equal((await send(800)).status, OK);

  const good = readFileSync(configFile, 'utf8');
  change(configFile, { serial: { max_payload_bytes: 0 }, log: { max_age_days: 5, commit_ms: 1 } });
  await reload(/ error the configuration is faulty: the old one stays in use/);
  const faults = daemon.logLines.flatMap((line) => /configuration fault fault="([a-z_.]+):/.exec(line)?.[1] ?? []);
  assert.deepEqual(faults, ['serial.max_payload_bytes', 'log.commit_ms']);
  assert.match(status(), /^CONFIGURATION FAULTY \(see the journal\), the old one is in use; open /);
  assert.equal((await send(800)).status, OK);

  replace(configFile, 'this is no TOML');
  await reload(/ error the configuration is faulty/);

  replace(configFile, good);
  change(configFile, { log: { queue_bytes: 16_777_216 } });
  await reload(/ info configuration reloaded$/);
  assert.match(status(), /^open /);
  isOn = false;
  await traffic;
  await until('every byte in the log', () => tail.rxBytes >= sent.length);
  assert.equal(tail.received().toString(), sent);
  await tail.stop();
  const openMs = performance.now() - openedMs;
  assert.ok(Number((await client.line.getStatus({})).portStateAgeMs) >= Math.floor(openMs), 'open all along');
  const log = daemon.logLines.join('\n');
  assert.equal(log.match(/ info .*open.*\/dev\/pts/g)?.length, 1, `opened once:\n${log}`);
  assert.doesNotMatch(log, /geheim/);
});

test('a hub starts itself again for what is its own, and for nothing else', async () => {
  const both = await startBoth();
  const first = both.pid();
  change(both.configFile, { log: { max_age_days: 3 } });
  await reload(both, TAKEN);
  const from = both.logLines.length;
  change(both.configFile, { outbox: { keep_published_days: 3 } });
  await reload(both, TAKEN);
  await both.waitFor(/ info hub stopping why="the configuration has changed: outbox\.keep_published_days"/, from);
  await both.waitFor(/ info the hub ended and is started again how="exit status 0"/, from);
  await both.waitFor(/ info hub ready /, from);
  assert.notEqual(both.pid(), first);
  assert.equal((await both.http('GET', '/healthz')).status, 200);
  const started = both.logLines.filter((line) => / info hub started /.test(line)).length;
  assert.equal(started, 2, 'not for the key of the line');
  assert.doesNotMatch(ownLog(both.logLines), / (warn|error) /);

  const second = both.pid();
  change(both.configFile, { kafka: { compression: 'none at all' } });
  await reload(both, REFUSED);
  assert.equal(both.pid(), second);
  assert.equal(await both.stop(), 0);
});

test('beside a faulty file every command works that does not need it, and the refusal is an alert and a line of the status', async () => {
  const both = await startBoth();
  const { configFile } = both;
  const cli = (...args: string[]): Promise<CliOutcome> => runCli([...args, '--config', configFile]);
  const good = readFileSync(configFile, 'utf8');
  for (const name of ['one', 'two']) assert.equal((await cli('token', 'add', name, '--role', 'viewer')).status, 0);
  for (const [name, fault, warning, shown] of [
    ['one', '\n[nonsense]\nkey = 1\n', /nonsense: no such section/, /nonsense/],
    ['two', '\nthis is no TOML\n', /line \d+: /, /line \d+/],
  ] as const) {
    replace(configFile, `${good}${fault}`);
    await reload(both, REFUSED);
    await until('the alert', async () => /ConfigurationRefused/.test((await cli('alerts')).stdout) || undefined);
    const status = await cli('status');
    assert.match(status.stdout, new RegExp(`^Configuration +REFUSED at the last reload.*${shown.source}`, 'm'));
    const outcomes = [status, await cli('log'), await cli('outbox'), await cli('token', 'revoke', name)];
    for (const { status: exit, stderr } of outcomes) {
      assert.equal(exit, 0, stderr);
      assert.match(stderr, /^lineside: warning: the configuration /);
      assert.match(stderr, warning);
    }
    assert.doesNotMatch((await cli('token', 'list')).stdout, new RegExp(`^${name}\t`, 'm'));
  }
  replace(configFile, good);
  await reload(both, TAKEN);
  const { stdout, stderr } = await cli('status');
  assert.deepEqual([/REFUSED/.test(stdout), stderr], [false, '']);
  assert.equal(await both.stop(), 0);
});

test('a file that the hub alone refuses, and a certificate that leaves addresses unserved: alerts and lines of the status', async () => {
  const dir = temporaryDirectory();
  const broken = join(dir, 'server.crt');
  writeFileSync(broken, 'no certificate');
  const tls = { cert_file: broken, key_file: broken };
  const configFile = writeConfig(dir, { tls, grpc: { listen: ['unix:grpc.sock', '0.0.0.0:0'] } });
  const cli = (...args: string[]): Promise<CliOutcome> => runCli([...args, '--config', configFile]);
  assert.equal((await cli('token', 'add', 'one', '--role', 'viewer')).status, 0);
  // As the units run them: each process checks what it needs itself.
  const line = await startDaemon({ dir });
  const hub = await startHub({ dir });
  const faulty = /TLS CERTIFICATE FAULTY \(see the journal\), other machines are not served/.source;
  assert.match((await cli('status')).stdout, new RegExp(`^Listeners +not all are served: ${faulty}$`, 'm'));
  assert.match(String((await hub.http('GET', '/metrics')).body), /^lineside_line_listener_fault 1$/m);

  change(configFile, { kafka: { password_file: join(dir, 'none') } });
  for (const pid of [line.pid, hub.pid()]) process.kill(pid, 'SIGHUP');
  await line.waitFor(/ info configuration reloaded/);
  await hub.waitFor(/ error hub the configuration is faulty/);
  const alerted = await until('the alert', async () => {
    const { stdout } = await cli('alerts');
    return /ConfigurationRefused/.test(stdout) ? stdout : undefined;
  });
  assert.match(alerted, /kafka\.password_file/);
  assert.match(
    (await cli('status')).stdout,
    /^Configuration +REFUSED by the hub at the last reload.*: kafka\.password_file$/m,
  );
  assert.equal(await hub.stop(), 0);
  assert.equal(await line.stop(), 0);
});

test('in a terminal a hangup ends it, as the terminal does when it is closed', async () => {
  const dir = temporaryDirectory();
  const terminal = namedPty(dir, 'terminal');
  const stderr = openSync(terminal.slavePath, constants.O_RDWR | constants.O_NOCTTY);
  const args = [MAIN, 'serve', '--role', 'line', '--config', writeConfig(dir)];
  const child = spawn(NODE, args, { stdio: ['ignore', 'ignore', stderr], env: environment() });
  closeSync(stderr);
  const ended = once(child, 'exit');
  const shown = (): string => terminal.received().toString();
  try {
    await until('ready', () => / info ready /.test(shown()));
    child.kill('SIGHUP');
    assert.deepEqual(await within('the end', ended), [0, null]);
    await until('why', () => / info stopping why=SIGHUP/.test(shown()));
  } finally {
    child.kill('SIGKILL');
  }
});
