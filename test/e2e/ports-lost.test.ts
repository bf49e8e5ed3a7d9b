/** Ports that vanish and come back, or take nothing, and services that end and start again, with the compiled daemon. */
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import { type Daemon, startDaemon, type Toml, temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import { type NamedPty, namedPty, point } from './pty.ts';

const { OK, INTERNAL_ERROR, NOT_CONNECTED } = serial.StatusCode;
const { PORT_STATE_LOST, PORT_STATE_OPEN } = lineside.v1.PortState;
const settings = { baudRate: 19_200, dataBits: 7, parity: 1, stopBits: 2, packetSize: 4 };

function start(ports: string, serialSection: Toml = {}, dir?: string): Promise<Daemon> {
  const config = { serial: { extra_ports: [`${ports}/*`], ...serialSection } };
  return startDaemon(dir === undefined ? { config } : { config, dir });
}

async function isOpen(daemon: Daemon, portName: string): Promise<void> {
  await until('the port open', async () => {
    const config = await daemon.client.serial.getCurrentConfig({});
    return config.portName === portName && config.baudRate === settings.baudRate && config.packetSize === 4;
  });
}

async function isLost(daemon: Daemon): Promise<void> {
  await until('the port lost', async () => (await daemon.client.serial.getCurrentConfig({})).portName === '');
}

async function bytesFlow(daemon: Daemon, pty: NamedPty, text: string): Promise<void> {
  const before = pty.received().length;
  const answer = await daemon.client.serial.sendPacket({ payload: Buffer.from(text) });
  assert.equal(answer.status, OK, answer.error);
  await until(`${text} at the device`, () => pty.received().subarray(before).toString() === text);
  await pty.write(Buffer.from(text));
  const packet = await until(`${text} from the device`, () =>
    daemon.client.serial.receivePacket({}).catch(() => undefined),
  );
  assert.equal(Buffer.from(packet.payload).toString(), text);
}

test('a port that vanishes while open is not connected, and comes back under another node with the same settings', async () => {
  const ports = temporaryDirectory();
  let pty = namedPty(ports);
  const daemon = await start(ports);
  await openPort(daemon.client, pty.portName, settings);
  await bytesFlow(daemon, pty, 'one.');
  for (const [loss, text] of [
    [1, 'two.'],
    [2, 'thr.'],
  ] as const) {
    const former = pty.slavePath;
    // Opened before the old one goes: so it cannot get the same number.
    const next = namedPty(temporaryDirectory(), 'next');
    pty.close();
    await isLost(daemon);
    const answer = await daemon.client.serial.sendPacket({ payload: Buffer.from('lost') });
    assert.equal(answer.status, NOT_CONNECTED);
    await assert.rejects(daemon.client.serial.receivePacket({}), /FAILED_PRECONDITION: NOT_CONNECTED/);
    const lost = await daemon.client.line.getStatus({});
    assert.ok(lost.portState >= PORT_STATE_LOST, 'lost, or trying again just now');
    assert.notEqual(lost.portError, '');
    assert.equal(lost.requested?.portName, pty.portName, 'what is waited for');
    assert.notEqual(next.slavePath, former);
    point(pty.portName, next.slavePath);
    await isOpen(daemon, pty.portName);
    pty = { ...next, portName: pty.portName };
    await bytesFlow(daemon, pty, text);
    const back = await daemon.client.line.getStatus({});
    assert.equal(back.portState, PORT_STATE_OPEN);
    assert.deepEqual([Number(back.counters?.losses), Number(back.counters?.reopens)], [loss, loss]);
  }
  assert.equal(await daemon.stop(), 0);
});

test('a port that vanishes while a write is stalled fails that packet and those behind it, and then serves again', async () => {
  const ports = temporaryDirectory();
  const pty = namedPty(ports, 'port0', false);
  const daemon = await start(ports);
  await openPort(daemon.client, pty.portName);
  const tail = await LiveReader.start(daemon.client);
  const packets = Array.from({ length: 5 }, () =>
    daemon.client.serial.sendPacket({ payload: Buffer.alloc(65_536, 7) }),
  );
  await until('a stalled queue', async () => {
    const { counters } = await daemon.client.line.getStatus({});
    return Number(counters?.txQueuedPackets) >= 1;
  });
  pty.close();
  const answers = await within('every answer', Promise.all(packets));
  const failed = answers.filter(({ status }) => status !== OK);
  assert.ok(failed.length >= 2);
  for (const { status, error } of failed) {
    assert.ok([INTERNAL_ERROR, NOT_CONNECTED].includes(status), error);
    assert.notEqual(error, '');
  }
  // What reached the port of the cut packet is in the log, and says that it is not all.
  await until('the entry of the cut packet', () => tail.notes.some((note) => note.startsWith('incomplete: ')));
  const back = namedPty(ports);
  await until(
    'the port back',
    async () => (await daemon.client.serial.getCurrentConfig({})).portName === back.portName,
  );
  assert.equal((await daemon.client.serial.sendPacket({ payload: Buffer.from('again') })).status, OK);
  await until('only the new packet on the new line', () => back.received().toString() === 'again');
  await tail.stop();
  assert.equal(await daemon.stop(), 0);
});

for (const how of ['SIGTERM', 'kill -9'] as const) {
  test(`what was open is open again after ${how} and a start, as soon as it is there`, async () => {
    const ports = temporaryDirectory();
    let pty = namedPty(ports);
    const first = await start(ports, { at_start: 'resume' });
    await openPort(first.client, pty.portName, settings);
    await bytesFlow(first, pty, 'pre.');
    if (how === 'SIGTERM') assert.equal(await first.stop(), 0);
    else await first.kill();
    if (how === 'kill -9') pty.close();
    const second = await start(ports, { at_start: 'resume' }, first.dir);
    if (how === 'kill -9') pty = namedPty(ports);
    await isOpen(second, pty.portName);
    await bytesFlow(second, pty, 'post');
    assert.equal((await second.client.serial.close({})).status, OK);
    assert.equal(await second.stop(), 0);

    const third = await start(ports, { at_start: 'resume' }, first.dir);
    assert.equal((await third.client.line.getStatus({})).requested, null, 'closed is remembered too');
    assert.equal(await third.stop(), 0);
  });
}

test('at_start = "closed" starts closed, and "open" with [serial.line]', async () => {
  const ports = temporaryDirectory();
  const pty = namedPty(ports);
  const first = await start(ports, { at_start: 'resume' });
  await openPort(first.client, pty.portName, settings);
  assert.equal(await first.stop(), 0);

  const closed = await start(ports, { at_start: 'closed' }, first.dir);
  assert.equal((await closed.client.line.getStatus({})).requested, null);
  assert.equal(await closed.stop(), 0);

  const line = { port: pty.portName, baud_rate: 19_200, data_bits: 7, parity: 'even', stop_bits: '2', packet_size: 4 };
  const opened = await start(ports, { at_start: 'open', line }, first.dir);
  await isOpen(opened, pty.portName);
  assert.deepEqual(
    { ...(await opened.client.serial.getCurrentConfig({})) },
    { ...serial.SerialConfig.decode(serial.SerialConfig.encode({ ...settings, portName: pty.portName }).finish()) },
  );
  assert.equal(await opened.stop(), 0);
});

test('a damaged memory of what was open does not keep the service from starting', async () => {
  const ports = temporaryDirectory();
  const first = await start(ports, { at_start: 'resume' });
  assert.equal(await first.stop(), 0);
  // A link to a place that cannot be read as a file.
  symlinkSync('/proc/self', join(first.dataDir, 'line-state.json'));
  const second = await start(ports, { at_start: 'resume' }, first.dir);
  await second.waitFor(/error cannot read which port was open before/);
  assert.equal(await second.stop(), 0);
});

test('a peer that never reads stalls what is sent, not what is received', async () => {
  const ports = temporaryDirectory();
  const stalled = namedPty(ports, 'port0', false);
  const daemon = await start(ports, { rx_buffer_bytes: 4_096, write_timeout_ms: 1_500 });
  // Fast, so that write_timeout_ms and not the time on the wire decides.
  await openPort(daemon.client, stalled.portName, { baudRate: 4_000_000 });
  const reader = await LiveReader.start(daemon.client);
  const send = () => daemon.client.serial.sendPacket({ payload: Buffer.alloc(65_536, 1) });
  let answer = await send();
  while (answer.status === OK) answer = await send();
  const stuck = send();
  // More than the receive buffer holds, which the status and the log of the service report.
  for (let i = 0; i < 11; i++) await stalled.write(Buffer.alloc(512, i));
  await reader.has(11 * 512);
  assert.equal((await stuck).status, INTERNAL_ERROR);
  await daemon.waitFor(/warn receive buffer full: oldest packets dropped.*packets=\d+/);
  await until('what the buffer has no room for is counted', async () => {
    const { counters } = await daemon.client.line.getStatus({});
    return Number(counters?.rxDroppedPackets) > 0 && Number(counters?.rxDroppedBytes) >= 11 * 512 - 4_096;
  });
  await reader.stop();
  assert.equal(await daemon.stop(), 0);
});
