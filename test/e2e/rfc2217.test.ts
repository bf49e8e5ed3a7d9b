/** `lineside rfc2217` with programs that somebody else wrote (pyserial), strangers, and a box that goes away. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { settingsOf } from '../../src/line/port/linux/termios.ts';
import { getTermios } from '../../src/line/port/linux/tty-ioctl.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, MAIN, NODE, startProcess } from './daemon.ts';
import { type Box, everythingAfter, openPort, startBox, startEchoBox } from './faults.ts';
import { startSeeing } from './python.ts';

const ended: (() => void)[] = [];
after(() => {
  for (const end of ended) end();
});

/** The command, when it listens. */
async function serve({ daemon }: Box, ...more: readonly string[]) {
  const args = [MAIN, 'rfc2217', '--config', daemon.configFile, '--listen', ':0', ...more];
  const child = startProcess(NODE, args, environment());
  ended.push(() => child.kill('SIGKILL'));
  if (child.stdout === null || child.stderr === null) throw new Error('no pipes');
  const [out, err]: string[][] = [[], []];
  createInterface({ input: child.stdout }).on('line', (line) => out?.push(line));
  createInterface({ input: child.stderr }).on('line', (line) => err?.push(line));
  const line = await until('it listens', () => out?.[0] ?? (err?.length ? `refused ${err[0]}` : undefined));
  const port = Number(/:(\d+)$/.exec(line)?.[1]);
  return { child, port, said: err ?? [] };
}

/** termios(3). */
const PARMRK = 0o10;

const WILL_COM_PORT = Buffer.from([255, 251, 44]);

async function dial(port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

function closed(socket: Socket): Promise<unknown> {
  // The end comes behind what was not read.
  socket.resume();
  return until('it is hung up', () => socket.closed);
}

test('pyserial on rfc2217: every byte, settings in place, purge, modem lines; a hang-up when the box is gone', async () => {
  const box = await startEchoBox();
  const { child, port, said } = await serve(box);
  const program = startSeeing('rfc2217_client.py', `rfc2217://127.0.0.1:${port}`);
  assert.deepEqual(await program.seen(0), {
    echo: true,
    after: 'after the change',
    purged: 0,
    modem: [false, false, false, false],
  });
  // The PTY keeps the speed alone of the settings.
  assert.equal(settingsOf(getTermios(box.pty.masterFd), false).baudRate, 57_600);
  const { holder, effective } = await box.daemon.client.line.getStatus({});
  assert.equal(holder?.name, 'local');
  assert.deepEqual([effective?.dataBits, effective?.parity, effective?.stopBits], [7, 1, 2]);
  const second = await dial(port);
  await closed(second);
  await box.daemon.kill();
  program.child.stdin?.end();
  assert.equal((await program.seen(1))['end'], 'hang-up');
  await until('it says so', () => said.some((line) => /ended: /.test(line)));
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('line states: the box marks line errors while a program asks for them, and no longer', async () => {
  const box = await startEchoBox();
  const { child, port } = await serve(box);
  const marks = (): boolean => (getTermios(box.pty.masterFd).iflag & PARMRK) !== 0;
  const program = await dial(port);
  const got: Buffer[] = [];
  program.on('data', (bytes: Buffer) => void got.push(bytes));
  const says = (what: Buffer): Promise<unknown> => until('its answer', () => Buffer.concat(got).includes(what));
  program.write(WILL_COM_PORT);
  const mask = (code: number, value: number): Buffer => Buffer.from([255, 250, 44, code, value, 255, 240]);
  program.write(mask(10, 0x1e));
  await says(mask(110, 0x1e));
  assert.equal(marks(), true);
  // The byte FF, doubled by telnet here and by the kernel there.
  program.write(Buffer.from([1, 255, 255, 2]));
  await says(Buffer.from([1, 255, 255, 2]));
  program.write(mask(10, 0));
  await says(mask(110, 0));
  assert.equal(marks(), false);
  program.write(mask(10, 0x1e));
  await until('they are marked', marks);
  program.destroy();
  await until('its end', () => !marks());
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('nothing goes to the line before telnet was answered: a web page that posts to the port is hung up on', async () => {
  const box = await startEchoBox();
  const { port, said } = await serve(box);
  const stranger = await dial(port);
  stranger.write('POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nOPEN');
  await closed(stranger);
  await until('it says so', () => said.some((line) => /does not speak telnet/.test(line)));
  assert.equal((await everythingAfter(box.daemon.client, 0)).length, 0);
  assert.ok(!box.daemon.logLines.some((line) => line.includes('line held')), 'nor was the line taken');
  // The line is free again, with the settings that it had.
  await openPort(box.daemon.client, box.pty.portName);
  await box.daemon.stop();
});

test('somebody else holds the line: the program is hung up on, and the reason names the holder', async () => {
  const box = await startBox();
  const first = await serve(box);
  const holder = await dial(first.port);
  holder.write(WILL_COM_PORT);
  await until('the line is held', async () => (await box.daemon.client.line.getStatus({})).holder?.name === 'local');
  const second = await serve(box);
  const refused = await dial(second.port);
  refused.write(WILL_COM_PORT);
  await closed(refused);
  await until('it names the holder', () => second.said.some((line) => /held by local since \d\d:\d\d UTC/.test(line)));
  holder.destroy();
  await until('the hold has ended', async () => (await box.daemon.client.line.getStatus({})).holder === null);
  await box.daemon.stop();
});

test('it refuses to listen where other machines can connect, unless asked to', async () => {
  const box = await startBox();
  const { said } = await serve(box, '--listen', '0.0.0.0:0').catch((error: unknown) => ({ said: [String(error)] }));
  assert.match(said.join(' '), /can be reached by other machines/);
  const { port } = await serve(box, '--listen', '0.0.0.0:0', '--beyond-loopback');
  assert.ok(port > 0);
  await box.daemon.stop();
});
