/** The worst days of a program that has a box's line: the line is lost, the token revoked, the network gone for a minute. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, MAIN, NODE, startProcess, temporaryDirectory, writeConfig } from './daemon.ts';
import { echo, startEchoBox, wasSent } from './faults.ts';
import { makeIsland } from './island.ts';
import { namedPty } from './pty.ts';
import { startSeeing } from './python.ts';
import { addToken, type RunningCli, remember, runCli, startCli } from './run-cli.ts';

/** What attach prints, or the address of rfc2217. */
const ready = ({ stdout, stderr }: Pick<RunningCli, 'stdout' | 'stderr'>): Promise<string> =>
  until('it serves', () => {
    assert.equal(stderr(), '');
    return /rfc2217:\S+|\S*tty\S+(?= is )/.exec(stdout())?.[0];
  });

const linkIn = (dir = temporaryDirectory()): string => join(dir, 'ttyBOX');

test('the line is lost: with --wait what the program writes meanwhile is sent once; without, and on rfc2217, it is hung up on', async () => {
  const box = await startEchoBox();
  const { client, configFile, dir } = box.daemon;
  const waiting = startCli(['attach', '--config', configFile, '--link', linkIn(), '--wait']);
  const patient = startSeeing('attach_client.py', await ready(waiting));
  await patient.seen(0);
  box.pty.close();
  await until('it says so', () => waiting.stderr().includes('the port is not open any more: programs wait'));
  patient.child.stdin?.write('\n');
  const plugIn = () => {
    const pty = namedPty(dir, 'port0', false);
    echo(pty);
    return pty;
  };
  let pty = plugIn();
  assert.equal((await patient.seen(1))['end'], 'once');
  assert.equal((await wasSent(box)).split('once').length, 2);
  assert.equal((await client.line.getStatus({})).effective?.baudRate, 57_600);
  assert.equal(await waiting.end(), 0);

  const hungUpOn = async (serving: RunningCli, program: string): Promise<void> => {
    const { child, seen } = startSeeing(program, await ready(serving));
    await seen(0);
    pty.close();
    await until('it says so', () => serving.stderr().includes('the port is not open any more'));
    child.stdin?.end('\n');
    assert.equal((await seen(1))['end'], 'hang-up');
    pty = plugIn();
    await until('the port is open again', async () => (await client.serial.getCurrentConfig({})).baudRate > 0);
  };
  const plain = startCli(['attach', '--config', configFile, '--link', linkIn()]);
  await hungUpOn(plain, 'attach_client.py');
  await until('attach has ended', () => plain.process.exitCode !== null);
  assert.equal(plain.process.exitCode, 3);
  await hungUpOn(startCli(['rfc2217', '--config', configFile, '--listen', ':0']), 'rfc2217_client.py');
  await box.daemon.stop();
});

const files = temporaryDirectory();
const authority = new Authority(files, 'ca');
const server = authority.issue('server', '/CN=box');
const chain = join(files, 'chain.pem');
writeFileSync(chain, Buffer.concat([server.cert, authority.root.cert]));
const fingerprint = new X509Certificate(authority.root.cert).fingerprint256;

/** A box, and how commands reach it over the network: with TLS and a token. */
async function startBoxAt(host: string) {
  const dir = temporaryDirectory();
  const token = join(dir, 'token');
  const newToken = async () =>
    writeFileSync(token, await addToken(join(dir, 'lineside.toml'), 'laptop', 'operator'), { mode: 0o600 });
  writeConfig(dir);
  await newToken();
  const tls = { cert_file: chain, key_file: server.keyFile };
  const box = await startEchoBox({ tls, grpc: { listen: ['0.0.0.0:0', 'unix:grpc.sock'] } }, dir);
  const port = box.daemon.address.split(':').at(-1) ?? '';
  return { box, newToken, there: ['--host', `${host}:${port}`, '--fingerprint', fingerprint, '--token-file', token] };
}

test('the token is revoked: the program is hung up on within seconds, also with --wait, and on rfc2217', async () => {
  const { box, there, newToken } = await startBoxAt('127.0.0.1');
  for (const [command, program] of [
    [['attach', '--link', linkIn(), '--wait'], 'attach_client.py'],
    [['rfc2217', '--listen', ':0'], 'rfc2217_client.py'],
  ] as const) {
    const serving = startCli([...command, ...there]);
    const { child, seen } = startSeeing(program, await ready(serving));
    await seen(0);
    assert.equal((await runCli(['token', 'revoke', 'laptop', '--config', box.daemon.configFile])).status, 0);
    await until('it says so', () => /token/.test(serving.stderr()));
    child.stdin?.end('\n');
    assert.equal((await seen(1))['end'], 'hang-up');
    // For 30 s it could be taken up again.
    await box.daemon.client.line.releaseHold({});
    await newToken();
  }
  assert.ok(!(await wasSent(box)).includes('once'));
  await box.daemon.stop();
});

const laptop = makeIsland();
const OUTAGE_MS = 60_000;

test('the network is gone for a minute: hung up on, or what was written meanwhile is counted, and never sent twice', {
  skip: typeof laptop === 'string' && laptop,
}, async () => {
  assert.ok(typeof laptop !== 'string');
  laptop.plug();
  const start = async (...options: readonly string[]) => {
    const { box, there } = await startBoxAt(laptop.mainland);
    const args = [...laptop.wrapper.slice(1), NODE, MAIN, 'attach', '--link', linkIn(), ...options, ...there];
    const child = startProcess(laptop.wrapper[0] ?? '', args, environment());
    const [stdout, stderr] = [remember(child.stdout), remember(child.stderr)];
    const program = startSeeing('attach_lines.py', await ready({ stdout, stderr }));
    program.child.stdin?.write('one\n');
    assert.deepEqual(await program.seen(0), { read: 'one' });
    return { box, stderr, seen: program.seen, ask: (line: string) => void program.child.stdin?.write(`${line}\n`) };
  };
  const [waits, hangsUp] = [await start('--wait'), await start()];
  laptop.drop(laptop.mainland, true);
  const from = performance.now();
  waits.ask('two');
  await until('both notice it', () => waits.stderr().includes('programs wait') && hangsUp.stderr() !== '');
  hangsUp.ask('two');
  assert.deepEqual(await hangsUp.seen(1), { read: 'hang-up' });
  assert.match(waits.stderr(), /3 bytes did not reach the port, and are not sent again/);
  await sleep(OUTAGE_MS - (performance.now() - from));
  laptop.drop(laptop.mainland, false);
  await until('it is back', () => waits.stderr().includes('connected again'));
  assert.deepEqual(await waits.seen(1), { read: '' });
  waits.ask('three');
  assert.deepEqual(await waits.seen(2), { read: 'three' });
  assert.equal(await wasSent(waits.box), 'onethree');
  assert.equal(await wasSent(hangsUp.box), 'one');
  await waits.box.daemon.stop();
  await hangsUp.box.daemon.stop();
});
