import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ServerError, Status } from 'nice-grpc';
import { until } from '../../shared/base/wait.fixture.ts';
import { drivesTerminal, run, start, testFiles } from '../drive.fixture.ts';
import { service, serviceForEach, socket } from './fake-service.fixture.ts';
import { Keys, LineSplitter, type Typed } from './keys.ts';
import { Terminal } from './terminal.fixture.ts';

const files = testFiles();
const { at, file } = files;
serviceForEach(files, {
  portState: 3,
  requested: { portName: '/dev/x', baudRate: 9600, dataBits: 8 },
  log: { logId: 'log-1' },
});
const monitor = (...options: string[]): Terminal => new Terminal(['monitor', ...options]);

async function ready(terminal: Terminal): Promise<void> {
  await terminal.shows('Ctrl-] leaves');
  await until('the session stands', () => service.receivers > 0);
}

const sent = (): string => Buffer.concat(service.sent.map(({ payload }) => payload)).toString('latin1');

describe('monitor on a terminal', () => {
  it('sends keys, Ctrl-C among them, shows the line, and leaves on Ctrl-] with the terminal restored', async () => {
    const terminal = monitor();
    await ready(terminal);
    terminal.type('AT\r\x03');
    await until('the keys arrived', () => sent() === 'AT\r\x03');
    service.log(1, 'OK\r\n');
    // The terminal adds a CR to each LF.
    await terminal.shows('OK\r\r\n');
    service.receive('no pause yet');
    await terminal.shows('OK\r\r\nno pause yet');
    terminal.type('last\x1dnever');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.equal(sent(), 'AT\r\x03last');
    assert.doesNotMatch(terminal.screen, /AT|OK[^]*OK/);
  });

  it('lets nothing from the line drive the terminal', async () => {
    const terminal = monitor('--echo', '--enter', 'crlf');
    await ready(terminal);
    service.log(1, Buffer.from('\x1b]0;owned\x07\x1b[2J\x9b31m\x00', 'latin1'));
    await terminal.shows('^[]0;owned^G^[[2J\\x9b31m^@');
    terminal.type('x\r');
    await terminal.shows('x\r\r\n');
    await until('the keys arrived', () => sent() === 'x\r\n');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.ok(!drivesTerminal(terminal.screen.replace(/[\r\n]/g, '')));
  });

  it('says that the connection is lost, drops keys meanwhile, and resumes', async () => {
    const terminal = monitor();
    await ready(terminal);
    service.stop();
    await terminal.shows('[lineside: connection lost');
    terminal.type('lost');
    await terminal.shows('[lineside: not sent: there is no connection]');
    service.log(1, 'meanwhile ');
    await service.listen(`unix:${socket}`);
    await terminal.shows('[lineside: connected again]');
    await terminal.shows('meanwhile');
    terminal.type('back');
    await until('the keys arrived', () => sent() === 'back');
    service.patchStatus({ portState: 4, portError: 'unplugged' });
    await terminal.shows('[lineside: the port is lost: unplugged]');
    service.patchStatus({ portState: 3, portError: '' });
    await terminal.shows('[lineside: the port is open again]');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
  });

  it('restores the terminal when it is killed, and when it crashes', async () => {
    const killed = monitor();
    const crashed = monitor('--hex');
    await Promise.all([killed.shows('Ctrl-] leaves'), crashed.shows('Ctrl-] leaves')]);
    await until('both stand', () => service.receivers === 2);
    service.log(1, 'A');
    await crashed.shows('41');
    killed.kill('SIGTERM');
    crashed.kill('SIGUSR2');
    assert.equal(await killed.end(), 'status 143 restored');
    assert.match(await crashed.end(), /^status (1|7) restored$/);
  });
});

describe('the keys of the session', () => {
  it('list themselves, send break, toggle DTR and RTS, and say what a port without wires refuses', async () => {
    const terminal = monitor();
    await ready(terminal);
    terminal.type('x\x14?');
    await terminal.shows('Ctrl-T z  send a file by ZMODEM');
    terminal.type('\x14b');
    await terminal.shows('[lineside: break of 250 ms sent]');
    assert.deepEqual(service.breaks, [250]);
    terminal.type('\x14d\x14r');
    await terminal.shows('[lineside: DTR off]');
    await terminal.shows('[lineside: RTS off]');
    assert.deepEqual([service.modem.dtr, service.modem.rts], [false, false]);
    service.refusal = new ServerError(Status.UNIMPLEMENTED, 'a pseudo-terminal has no modem lines');
    terminal.type('\x14d\x14!');
    await terminal.shows('[lineside: cannot toggle DTR: a pseudo-terminal has no modem lines]');
    await terminal.shows('[lineside: no such key');
    terminal.type('\x14q');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.equal(sent(), 'x');
  });

  it('change what is shown and what Enter sends', async () => {
    const terminal = monitor();
    await ready(terminal);
    terminal.type('\x14t\x14o\r');
    await terminal.shows('[lineside: timestamps on]');
    await terminal.shows('[lineside: Enter sends lf]');
    await until('LF arrived', () => sent() === '\n');
    service.log(1, 'one\r\ntw');
    service.log(1, 'o\r\n');
    await until('both lines', () => /\[\d\d:\d\d:\d\d\.\d{3}\] one\r+\n\[[\d:.]{12}\] two\r/.test(terminal.screen));
    terminal.type('\x14t\x14n');
    await terminal.shows('[lineside: line ends: cr]');
    service.log(1, 'three\r');
    service.log(1, '\nfour\rfive');
    await terminal.shows('three\r\nfour\r\nfive');
    terminal.type('\x14h\x14e');
    await terminal.shows('[lineside: hex on]');
    await terminal.shows('[lineside: echo on]');
    terminal.type('A');
    await until('the key in hex', () => /TX 41 +\|A\|/.test(terminal.screen));
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
  });

  it('log to a file what the line shows, and end that', async () => {
    const terminal = monitor();
    const copy = file('copy.txt', 'before\n');
    await ready(terminal);
    terminal.type(`\x14l${copy}\r`);
    await terminal.shows(`[lineside: logging to ${copy}]`);
    service.log(1, 'kept\r\n');
    await terminal.shows('kept');
    terminal.type('\x14l');
    await terminal.shows('[lineside: logging ended]');
    service.log(1, 'other\r\n');
    await terminal.shows('other');
    terminal.type('\x14l/nonexistent/x\r');
    await terminal.shows('[lineside: cannot log to /nonexistent/x: there is no such file or directory]');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.equal(readFileSync(copy, 'utf8'), 'before\nkept\r\n');
  });

  it('send a file as it is, or say why not', async () => {
    const terminal = monitor();
    const content = randomBytes(3000);
    await ready(terminal);
    terminal.type(`\x14f${file('firmware.bin', content)}\r`);
    await terminal.shows('[lineside: sent 3,000 bytes]');
    assert.ok(Buffer.concat(service.sent.map(({ payload }) => payload)).equals(content));
    terminal.type('\x14f/nonexistent\r');
    await terminal.shows('[lineside: cannot send /nonexistent: there is no such file or directory]');
    terminal.type('\x14f\x03x');
    await until('the key arrived', () => sent().endsWith('x'));
    service.answer = { status: 4, error: 'the port is lost' };
    terminal.type(`\x14f${at('firmware.bin')}\r`);
    await terminal.shows('firmware.bin: the port is lost]');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
  });

  const missing = spawnSync('rz', ['--version']).error === undefined ? false : 'needs lrzsz';
  for (const [key, ...receiver] of [
    ['z', '--zmodem', '--overwrite'],
    ['y', '--ymodem', '--overwrite'],
  ] as const)
    it(`send a file by lrzsz: ${receiver[0]}`, { skip: missing }, async () => {
      const content = randomBytes(20_480);
      const path = file('image.bin', content);
      const into = mkdtempSync(at('received-'));
      const rz = spawn('rz', ['--binary', '--quiet', ...receiver], { cwd: into });
      rz.stdin.on('error', () => undefined);
      service.onSent = (payload) => void rz.stdin.write(payload);
      const terminal = monitor();
      await ready(terminal);
      rz.stdout.on('data', (data: Buffer) => service.log(1, data));
      terminal.type(`\x14${key}${path}\r`);
      await terminal.shows('[lineside: sent]');
      await until('the receiver has ended', () => rz.exitCode !== null);
      assert.ok(readFileSync(join(into, 'image.bin')).equals(content));
      service.log(1, 'shown again');
      await terminal.shows('shown again');
      terminal.type('\x1d');
      assert.equal(await terminal.end(), 'status 0 restored');
    });

  it('cancel a file with Ctrl-C, and leave with one in flight', { skip: missing }, async () => {
    const terminal = monitor();
    await ready(terminal);
    terminal.type(`\x14z${file('image.bin', randomBytes(1000))}\r`);
    await until('sz speaks', () => sent().includes('rz\r'));
    terminal.type('y\x03');
    await terminal.shows('image.bin: cancelled]');
    assert.ok(!sent().includes('y'));
    await until('the device is told', () => sent().includes('\x18\x18\x18'));
    terminal.type(`\x14z${at('image.bin')}\r`);
    await until('sz speaks again', () => sent().split('rz\r').length > 2);
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
  });
});

describe('monitor with other input', () => {
  it('sends lines and shows what comes until the wait is over', async () => {
    const running = start(['monitor', '--enter', 'crlf', '--wait', '1'], { socket, stdin: 'ATI\nAT+CSQ\r\nlast' });
    await until('all lines arrived', () => sent() === 'ATI\r\nAT+CSQ\r\nlast\r\n');
    service.log(1, 'answer\r\n');
    const { status, stdout, stderr } = await running.done;
    assert.deepEqual([status, stdout, stderr], [0, 'answer\r\n', '']);
    assert.equal(service.sent.length, 3);
  });

  it('fills packets where the port has a packet size, and says what was left over', async () => {
    service.patchStatus({ requested: { portName: '/dev/x', packetSize: 4 } });
    const outcome = await run(['monitor', '--wait', '0'], { socket, stdin: 'abcdef\n' });
    assert.deepEqual(
      service.sent.map(({ payload }) => payload.toString()),
      ['abcd'],
    );
    assert.match(outcome.stderr, /3 bytes did not fill a packet/);
  });

  it('says that no port is open, and what the service refused', async () => {
    service.answer = { status: 4, error: 'the port is lost' };
    const refused = await run(['monitor', '--wait', '0'], { socket, stdin: 'x\n' });
    assert.deepEqual([refused.status, refused.stderr], [1, '[lineside: not sent: the port is lost]\n']);
    service.setStatus({ portState: 1 });
    const closed = await run(['monitor'], { socket, stdin: '' });
    assert.equal(closed.status, 6);
    assert.match(closed.stderr, /no port is open\. Open one: lineside open PORT/);
    assert.equal((await run(['monitor', '--hex', '--raw'], { socket })).status, 2);
  });
});

describe('keys and lines', () => {
  const read = (keys: Keys, text: string): string[] => [...keys.read(Buffer.from(text, 'latin1'))].map(shown);
  const shown = (typed: Typed): string => {
    if (typed.kind === 'bytes') return typed.bytes.toString('latin1');
    return typed.kind === 'command' ? `<${typed.key}>` : typed.kind === 'answer' ? `answer ${typed.text}` : 'edit';
  };

  it('translates Enter, leaves at Ctrl-] and finds commands after Ctrl-T, however the keys are cut', () => {
    const keys = new Keys(Buffer.from('\r\n'));
    assert.deepEqual(read(keys, 'a\rb\r\x03\x1b[A'), ['a\r\nb\r\n\x03\x1b[A']);
    assert.deepEqual(read(keys, 'ab\x1dcd'), ['ab', '<q>', 'cd']);
    assert.deepEqual(read(keys, 'a\x14'), ['a']);
    assert.deepEqual(read(keys, 'Bc\x14\x14\x14?'), ['<b>', 'c\x14', '<?>']);
    assert.deepEqual(read(keys, '\x14\x1d'), ['<q>']);
  });

  it('takes an answer up to Enter, with corrections, and none after Ctrl-C or Escape', () => {
    const keys = new Keys(Buffer.from('\r'));
    keys.ask();
    const typed = read(keys, 'x\x7f\x7f/tmp/\xc3\xa9\x08\x00b\rnext');
    assert.deepEqual(typed.slice(-2), ['answer /tmp/b', 'next']);
    for (const cancel of ['\x03', '\x1b[A', '\x1d']) {
      keys.ask();
      assert.equal(read(keys, `/tmp${cancel}`).at(-1), 'answer ');
      assert.deepEqual(read(keys, 'y'), ['y']);
    }
  });

  it('finds the same lines however the input is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b\n', 'c\r\n', '\n', 'd\r')), (parts) => {
        const lines = new LineSplitter();
        const found = [...parts.flatMap((part) => lines.push(Buffer.from(part))), ...lines.end()].map(String);
        const whole = new LineSplitter();
        assert.deepEqual(found, [...whole.push(Buffer.from(parts.join(''))), ...whole.end()].map(String));
      }),
    );
  });
});
