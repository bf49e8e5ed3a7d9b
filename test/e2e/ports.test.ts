/** One daemon, real pseudo-terminals: who holds the port, whose turn it is, and what a line that takes nothing costs. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { serial } from '../../src/shared/proto/services.ts';
import { type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { type NamedPty, namedPty } from './pty.ts';
import { tailLog } from './tail.ts';

const { OK, INTERNAL_ERROR } = serial.StatusCode;
const NOBODY = 65_534;
const usual = { baudRate: 115_200, dataBits: 8 };

let dir: string;
let daemon: Daemon;
let pty: NamedPty;

before(async () => {
  dir = temporaryDirectory();
  pty = namedPty(dir, 'port0');
  daemon = await startDaemon({
    config: {
      serial: { extra_ports: [`${dir}/port?`], rx_gap_ms: 200, rx_buffer_bytes: 4_096, write_timeout_ms: 1_500 },
    },
  });
});
after(async () => {
  assert.equal(await daemon.stop(), 0);
});

/** Tries to open a path for reading as a user without privileges, and says what happened: "opened" or the error's name. */
function openAsNobody(path: string): string {
  const code = [
    'import errno, os, sys',
    'try:',
    '    os.close(os.open(sys.argv[1], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)); print("opened")',
    'except OSError as error:',
    '    print(errno.errorcode[error.errno])',
  ].join('\n');
  const user = ['--reuid', String(NOBODY), '--regid', String(NOBODY), '--clear-groups'];
  return spawnSync('setpriv', [...user, '/usr/bin/python3', '-c', code, path], { encoding: 'utf8' }).stdout.trim();
}

test('another program cannot open the port while it is held here, and can afterwards', async () => {
  chmodSync(pty.slavePath, 0o666);
  assert.equal(openAsNobody(pty.slavePath), 'opened', 'nothing else stands in its way');
  await openPort(daemon.client, pty.portName);
  assert.equal(openAsNobody(pty.slavePath), 'EBUSY');
  await daemon.client.serial.close({});
  assert.equal(openAsNobody(pty.slavePath), 'opened');
});

test('refused Opens disturb no byte that is on its way', async () => {
  await openPort(daemon.client, pty.portName, { packetSize: 0 });
  const tail = await tailLog(daemon.client);
  const before = pty.received().length;
  const sent = Buffer.from(Array.from({ length: 20_000 }, (_, i) => i % 251));
  let done = false;
  const traffic = (async () => {
    for (let at = 0; at < sent.length; at += 500) {
      await pty.write(sent.subarray(at, at + 500));
      const answer = await daemon.client.serial.sendPacket({ payload: sent.subarray(at, at + 500) });
      assert.equal(answer.status, OK, answer.error);
    }
    done = true;
  })();
  let refusals = 0;
  while (!done) {
    for (const wrong of [{ baudRate: 0 }, { stopBits: 1 }, { portName: '/dev/null' }, { portName: `${dir}/port9` }]) {
      const answer = await daemon.client.serial.open({ ...usual, portName: pty.portName, ...wrong });
      assert.notEqual(answer.status, OK);
      refusals += 1;
    }
  }
  await traffic;
  await until('all bytes at the device', () => pty.received().length - before >= sent.length);
  await until('all bytes in the log', () => tail.bytes('RX').length >= sent.length);
  assert.ok(refusals >= 4);
  assert.deepEqual(pty.received().subarray(before), sent);
  assert.deepEqual(tail.bytes('RX'), sent);
  await tail.end();
  await daemon.client.serial.close({});
});

test('a peer that never reads stalls what is sent, not what is received', async () => {
  const stalled = namedPty(dir, 'port4', false);
  // Fast, so that write_timeout_ms and not the time on the wire decides.
  await openPort(daemon.client, stalled.portName, { baudRate: 4_000_000 });
  const tail = await tailLog(daemon.client);
  const send = () => daemon.client.serial.sendPacket({ payload: Buffer.alloc(65_536, 1) });
  let answer = await send();
  while (answer.status === OK) answer = await send();
  const stuck = send();
  await stalled.write(Buffer.from('heard while stuck'));
  await until('what the device says', () => tail.bytes('RX').toString() === 'heard while stuck');
  assert.equal((await stuck).status, INTERNAL_ERROR);
  await tail.end();
  await daemon.client.serial.close({});
  stalled.close();
});

test('a receive buffer that overflows says so in the status and in the log of the service', async () => {
  await openPort(daemon.client, pty.portName, { packetSize: 512 });
  const before = (await daemon.client.line.getStatus({})).counters;
  const tail = await tailLog(daemon.client);
  for (let i = 0; i < 11; i++) await pty.write(Buffer.alloc(512, i));
  await until('everything', () => tail.bytes('RX').length === 11 * 512);
  // Said at once, then at most once a minute: an earlier test may have been the first.
  await daemon.waitFor(/warn receive buffer full: oldest packets dropped.*packets=\d+/);
  const { counters } = await daemon.client.line.getStatus({});
  assert.equal(Number(counters?.rxDroppedPackets) - Number(before?.rxDroppedPackets), 3);
  assert.equal(Number(counters?.rxDroppedBytes) - Number(before?.rxDroppedBytes), 3 * 512);
  await tail.end();
  await daemon.client.serial.close({});
});
