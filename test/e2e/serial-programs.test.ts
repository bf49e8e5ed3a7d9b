/** Programs that people use on serial ports, as Debian has them, on a box's line: picocom, minicom, a Modbus master with pymodbus. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { settingsOf } from '../../src/line/port/linux/termios.ts';
import { getTermios } from '../../src/line/port/linux/tty-ioctl.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from './daemon.ts';
import { type Box, startBox, startEchoBox, wasSent } from './faults.ts';
import { startSlave } from './modbus-slave.ts';
import { startSeeing } from './python.ts';
import { startCli } from './run-cli.ts';
import { inTerminal } from './tmux.ts';

const lockFile = (link: string): string => join('/var/lock', `LCK..${basename(link)}`);

const speedOf = ({ pty }: Box): number => settingsOf(getTermios(pty.masterFd), false).baudRate;

async function attach({ daemon }: Box, link: string) {
  const running = startCli(['attach', '--config', daemon.configFile, '--link', link]);
  await until('it is attached', () => running.stdout().includes(link) || assert.equal(running.stderr(), ''));
  return running;
}

test('picocom: the speed of its option and its keys, its init string, a clean end; its status 1 when the box is gone', async () => {
  const box = await startEchoBox();
  const link = join(temporaryDirectory(), 'ttyBOX');
  const attached = await attach(box, link);
  const first = await inTerminal(`picocom --baud 57600 --initstring AT ${link}`);
  await first.shows(/Terminal ready\s+AT/);
  assert.equal(speedOf(box), 57_600);
  first.keys('hello');
  await first.shows(/AThello/);
  first.keys('C-a', 'C-u');
  await until('the speed follows its keys', () => speedOf(box) === 115_200);
  first.keys('C-a', 'C-q');
  await first.shows(/status 0/);
  assert.equal(await wasSent(box), 'AThello');
  const second = await inTerminal(`picocom --quiet ${link}`);
  second.keys('again');
  await second.shows(/again/);
  await box.daemon.kill();
  await second.shows(/FATAL: read zero bytes from port[\s\S]*status 1/);
  await until('the command has ended', () => attached.process.exitCode === 3);
});

test('minicom: nothing is sent but what is typed, its lock file ends with it, and it waits for a port that is hung up', async () => {
  const box = await startEchoBox();
  const link = join(temporaryDirectory(), `tty${process.pid}`);
  const attached = await attach(box, link);
  const minicom = await inTerminal(`minicom --device ${link} --baudrate 19200`);
  await minicom.shows(/Welcome to minicom/);
  minicom.keys('typed');
  await minicom.shows(/typed/);
  assert.equal(speedOf(box), 19_200);
  assert.equal(await wasSent(box), 'typed');
  assert.ok(existsSync(lockFile(link)));
  assert.equal(await attached.end(), 0);
  await minicom.shows(/Cannot open/);
  await attach(box, link);
  await until('it goes on', async () => {
    minicom.keys('more');
    return (await wasSent(box)).endsWith('more');
  });
  await minicom.shows(/more/);
  minicom.keys('C-a', 'q');
  await minicom.shows(/Leave without reset/);
  minicom.keys('Enter');
  await minicom.shows(/status 0/);
  assert.equal(existsSync(lockFile(link)), false);
  await box.daemon.stop();
});

/** Of which one has to be without a fault. */
const MODBUS_RUNS = 3;

test('a Modbus master at 9,600 and 115,200: every answer of a run is right, no request is cut, over attach and over rfc2217', async () => {
  const box = await startBox({}, undefined, false);
  const slave = startSlave(box.pty);
  const link = join(temporaryDirectory(), 'ttyBOX');
  const count = 20;
  const ask = async (port: string): Promise<void> => {
    for (const baud of ['9600', '115200']) {
      // pymodbus takes 10 ms without a byte for the end of an answer: a busy machine makes such pauses.
      let right: unknown;
      for (let run = 1; run <= MODBUS_RUNS && right !== count; run++) {
        const seen = await startSeeing('modbus_master.py', port, baud, String(count)).seen(0);
        right = seen['right'];
        process.stderr.write(`${port.slice(0, 7)} ${baud}: ${String(right)} right, p50 ${String(seen['p50'])} ms\n`);
      }
      assert.equal(right, count, JSON.stringify(slave));
    }
  };
  const attached = await attach(box, link);
  await ask(link);
  assert.equal(await attached.end(), 0);
  const serving = startCli(['rfc2217', '--config', box.daemon.configFile, '--listen', ':0']);
  await ask(await until('it listens', () => /rfc2217:\S+/.exec(serving.stdout())?.[0]));
  assert.deepEqual(slave.faults, []);
  for (const baud of [9_600, 115_200]) assert.ok((slave.answered[baud] ?? 0) >= 2 * count, JSON.stringify(slave));
  await serving.end();
  await box.daemon.stop();
});
