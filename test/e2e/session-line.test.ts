/** The open port through a Session: received bytes, settings in place, purge, drain, exclusive use; on a real daemon and a PTY. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemotePort } from '../../src/cli/port/remote-port.ts';
import { u64 } from '../../src/line/grpc/encode.ts';
import { FlowControl } from '../../src/line/port/line-config.ts';
import { pattern } from '../../src/line/port/linux/pty-rig.fixture.ts';
import { settingsOf } from '../../src/line/port/linux/termios.ts';
import { getTermios } from '../../src/line/port/linux/tty-ioctl.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import { type Daemon, temporaryDirectory } from './daemon.ts';
import { everythingAfter, openPort, startBox } from './faults.ts';
import { startCli } from './run-cli.ts';

const { PORT_STATE_OPEN, PORT_STATE_LOST, PORT_STATE_CLOSED } = lineside.v1.PortState;

/** termios(3). */
const PARMRK = 0o10;

class Session {
  readonly received: Buffer[] = [];
  readonly events: lineside.v1.LineEvent[] = [];
  readonly port: RemotePort;

  constructor({ client }: Pick<Daemon, 'client'>) {
    this.port = new RemotePort(client.line, {
      received: (bytes) => void this.received.push(Buffer.from(bytes)),
      event: (event) => void this.events.push(event),
    });
    this.port.receive();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.received);
  }

  states(): (lineside.v1.PortState | undefined)[] {
    return this.events.flatMap(({ portState }) => (portState == null ? [] : [portState]));
  }

  stands(): Promise<unknown> {
    return until('the session stands', () => this.events.length > 0);
  }
}

test('received bytes come as they are read, beside every chunk in the log, and nothing else does', async () => {
  const { daemon, pty } = await startBox({ serial: { rx_gap_ms: 500 } });
  const session = new Session(daemon);
  await session.stands();
  assert.deepEqual(session.states(), [PORT_STATE_OPEN]);
  pty.write(Buffer.from('no pause yet'));
  await until('bytes of an unfinished chunk', () => session.bytes.toString() === 'no pause yet');
  assert.equal((await everythingAfter(daemon.client, 0)).length, 0, 'the log has whole chunks alone');
  await daemon.client.serial.logRaw({ dir: 1, rawData: Buffer.from('not from the line') });
  await daemon.client.serial.sendPacket({ payload: Buffer.from('of another caller') });
  const bytes = pattern(200_000);
  for (let at = 0; at < bytes.length; at += 2_000) {
    pty.write(bytes.subarray(at, at + 2_000));
    await until('they arrive', () => session.bytes.length >= Math.min(at + 2_000, bytes.length) + 12);
  }
  assert.deepEqual(session.bytes.subarray(12), bytes);
  await session.port.end();
  await daemon.stop();
});

/** The bytes of the line as one client gets them: in entries until the first event, then as received; and where later entries end. */
function followAfterLog({ client }: Pick<Daemon, 'client'>) {
  const got: Buffer[] = [];
  const seen = { bytes: () => Buffer.concat(got), isLive: false, entriesEnd: 0, isAhead: false };
  const port = new RemotePort(client.line, {
    received: (bytes) => void got.push(Buffer.from(bytes)),
    event: () => void (seen.isLive = true),
    log: async ({ entries }) => {
      const bytes = Buffer.concat(entries.map(({ entry }) => Buffer.from(entry?.rawData ?? [])));
      seen.entriesEnd += bytes.length;
      if (!seen.isLive) got.push(bytes);
      else seen.isAhead ||= seen.entriesEnd > seen.bytes().length;
    },
  });
  port.receive({ afterLog: true });
  port.followLog({ afterId: u64(0), logId: '' });
  return { port, seen };
}

test('the log, then what is received after it: at any moment each byte comes once, and an entry after its bytes', async () => {
  const { daemon, pty } = await startBox({ serial: { rx_gap_ms: 20 } });
  const sessions: ReturnType<typeof followAfterLog>[] = [];
  const bytes = pattern(300_000);
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const end = at + 1 + ((n * 7_919) % 3_000);
    await pty.write(bytes.subarray(at, end));
    at = end;
    if (n % 5 === 0) sessions.push(followAfterLog(daemon));
    // Chunks end by silence, by their length, and not at all meanwhile.
    await new Promise((resolve) => setTimeout(resolve, n % 10 === 0 ? 25 : n % 3));
  }
  assert.ok(sessions.length > 20);
  for (const { port, seen } of sessions) {
    await until('all is there', () => seen.entriesEnd >= bytes.length);
    assert.deepEqual([seen.bytes().equals(bytes), seen.isAhead], [true, false]);
    await port.end();
  }
  await daemon.stop();
});

test('a client that reads nothing gets what it lost counted, and the end of its stream', async () => {
  const { daemon, pty } = await startBox();
  const events: lineside.v1.LineEvent[] = [];
  let got = 0;
  const requests = (async function* () {
    yield { receive: {} };
    await new Promise(() => {});
  })();
  const stream = daemon.client.line.session(requests)[Symbol.asyncIterator]();
  await stream.next();
  let sent = 0;
  for (; sent < 2_000_000; sent += 4_000) {
    await pty.write(Buffer.alloc(4_000, 0x55), AbortSignal.timeout(10_000));
  }
  const end = await (async () => {
    for (;;) {
      const { done, value } = await stream.next();
      if (done) return 'ended';
      got += value.received?.length ?? 0;
      if (value.event != null) events.push(value.event);
    }
  })().catch((error: unknown) => error);
  assert.match(String(end), /DATA_LOSS/);
  const lost = Number(events.at(-1)?.lostBytes);
  assert.ok(lost > 0 && got + lost <= sent, `${got} taken, ${lost} lost of ${sent}`);
  await daemon.stop();
});

test('settings change in place and in order: for everybody, without a byte lost, until the hold ends', async () => {
  const { daemon, pty } = await startBox();
  const watched = () => settingsOf(getTermios(pty.masterFd), false);
  const session = new Session(daemon);
  await session.stands();
  assert.match(await session.port.hold(), /^[0-9a-f]{32}$/);
  pty.write(Buffer.from('before'));
  const sent = session.port.send(Buffer.from('at the old rate'));
  const changed = session.port.command({
    settings: { baudRate: 9_600, flowControl: FlowControl.xonxoff, drain: true },
  });
  await sent;
  const { effective } = await changed;
  assert.deepEqual([effective?.baudRate, effective?.flowControl], [9_600, FlowControl.xonxoff]);
  assert.equal(watched().baudRate, 9_600);
  assert.equal((await daemon.client.serial.getCurrentConfig({})).baudRate, 9_600);
  await until('all arrive', () => session.bytes.toString() === 'before');
  assert.equal(session.events.at(-1)?.settings?.baudRate, 9_600);
  await assert.rejects(session.port.command({ settings: { dataBits: 9 } }), /data_bits: 9 is not 5, 6, 7 or 8/);
  assert.equal(watched().baudRate, 9_600);
  await session.port.command({ release: {} });
  assert.equal(watched().baudRate, 115_200);
  assert.deepEqual(session.states(), [PORT_STATE_OPEN], 'the port was not opened again');
  await session.port.end();
  await daemon.stop();
});

test('Open with flow control: as Open of the contract, refused by the same, and without it there is none', async () => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  const flow = () => settingsOf(getTermios(pty.masterFd), false).flowControl;
  const config = { portName: pty.portName, baudRate: 9_600, dataBits: 8 };
  const opened = await client.line.open({ config, flowControl: FlowControl.xonxoff });
  assert.equal(opened.status, serial.StatusCode.OK, opened.error);
  assert.equal(flow(), FlowControl.xonxoff);
  assert.equal((await client.line.getStatus({})).effective?.flowControl, FlowControl.xonxoff);
  const refused = await client.line.open({ config: { ...config, dataBits: 9 }, flowControl: 7 as FlowControl });
  assert.equal(refused.status, serial.StatusCode.INVALID_ARGUMENT);
  assert.match(refused.error, /data_bits: 9 .*flow_control: 7 is no FlowControl/);
  assert.match((await client.line.open({})).error, /port_name: is empty/);
  assert.equal(flow(), FlowControl.xonxoff, 'a refused Open changes nothing');
  await openPort(client, pty.portName);
  assert.equal(flow(), FlowControl.none);
  await daemon.stop();
});

test('purge leaves out what was received and drops what was not sent', async () => {
  const { daemon, pty } = await startBox({}, temporaryDirectory(), false);
  const session = new Session(daemon);
  await session.stands();
  pty.write(Buffer.from('old'));
  await until('it arrives', () => session.bytes.length === 3);
  await session.port.command({ purge: { received: true } });
  pty.write(Buffer.from('new'));
  await until('it arrives', () => session.bytes.toString() === 'oldnew');
  // Nobody reads at the other end: the kernel takes some of it, the rest waits.
  const stuck = [1, 2, 3].map((n) => session.port.send(Buffer.alloc(60_000, n)));
  const outcomes = Promise.allSettled(stuck);
  await until(
    'it is stuck',
    async () => Number((await daemon.client.line.getStatus({})).counters?.txQueuedPackets) === 2,
  );
  await session.port.command({ purge: { transmit: true } });
  for (const outcome of await outcomes) assert.match(String(outcome.status === 'rejected' && outcome.reason), /purged/);
  assert.equal(Number((await daemon.client.line.getStatus({})).counters?.txQueuedPackets), 0);
  await assert.rejects(session.port.command({ break: true }), /has no break/);
  await session.port.command({ drain: {} });
  await session.port.end();
  await daemon.stop();
});

test('line errors: the kernel marks them while a session asks, and all that is received and logged stays as it was sent', async () => {
  const { daemon, pty } = await startBox();
  const marks = (): boolean => (getTermios(pty.masterFd).iflag & PARMRK) !== 0;
  const other = new Session(daemon);
  await other.stands();
  const session = new Session(daemon);
  await session.stands();
  const sent: Buffer[] = [];
  const line = async (): Promise<void> => {
    const bytes = Buffer.concat([Buffer.from([255, 0, 255, 255, 0, 0, 7, 255]), pattern(3_000), Buffer.from([255])]);
    sent.push(bytes);
    pty.write(bytes);
    const length = Buffer.concat(sent).length;
    await until('it arrives', () => session.bytes.length >= length && other.bytes.length >= length);
  };
  assert.equal(marks(), false);
  await line();
  await session.port.command({ lineErrors: true });
  assert.equal(marks(), true);
  await line();
  await other.port.command({ lineErrors: true });
  await session.port.command({ lineErrors: false });
  assert.equal(marks(), true, 'another one asks');
  await line();
  // Purged in the midst: what comes after is whole.
  pty.write(Buffer.alloc(50, 255));
  await until('it is there', () => session.bytes.length >= Buffer.concat(sent).length + 50);
  await session.port.command({ purge: { received: true } });
  await other.port.end();
  await until('none asks', () => !marks());
  assert.deepEqual(session.bytes, Buffer.concat([...sent, Buffer.alloc(50, 255)]));
  assert.deepEqual(other.bytes, session.bytes);
  const logged = async (): Promise<Buffer> =>
    Buffer.concat((await everythingAfter(daemon.client, 0)).map(({ entry }) => Buffer.from(entry?.rawData ?? [])));
  await until('it is logged', async () => (await logged()).length >= session.bytes.length);
  assert.deepEqual(await logged(), session.bytes);
  assert.ok(
    [...session.events, ...other.events].every(({ lineErrors }) => lineErrors == null),
    'a PTY has none',
  );
  await session.port.end();
  await daemon.stop();
});

test('a hold: others are refused by name, it outlives its connection with its ticket, and is released', async () => {
  const { daemon, pty } = await startBox();
  const first = new Session(daemon);
  await first.stands();
  const { ticket } = await first.port.command({ hold: {} });
  const { client } = daemon;
  const { status, error } = await client.serial.open({ portName: pty.portName, baudRate: 300, dataBits: 8 });
  assert.equal(status, serial.StatusCode.INTERNAL_ERROR);
  assert.match(error, /^the line is held by local since \d\d:\d\d UTC/);
  assert.match((await client.serial.close({})).error, /held by local/);
  assert.match((await client.serial.sendPacket({ payload: Buffer.from('x') })).error, /held by local/);
  const refused = [
    client.serial.receivePacket({}),
    client.serial.logRaw({ dir: 1, rawData: Buffer.from('x') }),
    client.line.setModemLines({ dtr: true }),
    client.line.sendBreak({ durationMs: 1 }),
  ];
  for (const call of refused) await assert.rejects(call, /FAILED_PRECONDITION.*held by local/);
  const second = new Session(daemon);
  await second.stands();
  await assert.rejects(second.port.send(Buffer.from('x')), /held by local/);
  await assert.rejects(second.port.command({ hold: {} }), /held by local/);
  await assert.rejects(second.port.command({ settings: { baudRate: 300 } }), /held by local/);
  await assert.rejects(second.port.command({ hold: { ticket: 'f'.repeat(32) } }), /has ended/);
  await first.port.send(Buffer.from('mine'));
  const { holder } = await client.line.getStatus({});
  assert.equal(holder?.name, 'local');
  // Lost, and taken up again by the ticket.
  await first.port.end();
  await assert.rejects(second.port.send(Buffer.from('x')), /held by local/);
  await second.port.hold(ticket);
  await second.port.send(Buffer.from(' again'));
  await until('it arrives', () => pty.received().toString() === 'mine again');
  await client.line.releaseHold({});
  await openPort(client, pty.portName);
  assert.equal((await client.line.getStatus({})).holder, null);
  await second.port.end();
  const { Kind } = lineside.v1.RecordedEvent;
  const happened = async (): Promise<string[]> =>
    (await client.line.listEvents({})).events.map(({ kind, by, detail }) => `${Kind[kind]} ${by}: ${detail}`);
  const opened = `OPENED local: ${pty.portName}, 115200 baud, 8N1`;
  const ended = 'HOLD_ENDED local: of local: released by local';
  await until('the events are stored', async () => (await happened()).length === 4);
  assert.deepEqual(await happened(), [opened, 'HOLD_BEGUN local: ', ended, opened]);
  const [third] = (await client.line.listEvents({ beforeId: u64(4), limit: 1 })).events;
  assert.equal(Number(third?.id), 3);
  await assert.rejects(client.line.listEvents({ limit: 1_001 }), /limit: 1001 is above 1000/);
  await daemon.stop();
});

test('a hold begins when nothing of others is under way: what waited is refused, the packet on the wire has ended', async () => {
  const { daemon, pty } = await startBox({}, temporaryDirectory(), false);
  const { client } = daemon;
  const session = new Session(daemon);
  await session.stands();
  // Nobody reads at the other end: the first is stuck, the others wait.
  const packets = [1, 2, 3].map((n) => client.serial.sendPacket({ payload: Buffer.alloc(30_000, n) }));
  await until('two wait', async () => Number((await client.line.getStatus({})).counters?.txQueuedPackets) === 2);
  const held = session.port.hold();
  const answers = await Promise.all(packets.slice(1));
  for (const { error } of answers) assert.match(error, /the line was taken by local/);
  const bytes: Buffer[] = [];
  pty.onData((part) => void bytes.push(Buffer.from(part)));
  await held;
  assert.equal((await packets[0])?.error, '');
  await session.port.send(Buffer.from('mine'));
  await until('all arrived', () => Buffer.concat(bytes).length === 30_004);
  assert.equal(Buffer.concat(bytes).subarray(30_000).toString(), 'mine');
  await session.port.end();
  await daemon.stop();
});

test('a lost port, and one that is closed, are events; a command says that nothing is open', async () => {
  const { daemon, pty } = await startBox();
  const session = new Session(daemon);
  await session.stands();
  pty.close();
  await until('the loss', () => session.states().includes(PORT_STATE_LOST));
  await assert.rejects(session.port.send(Buffer.from('x')), /no port is open/);
  await assert.rejects(session.port.command({ drain: {} }), /no port is open/);
  await daemon.client.serial.close({});
  await until('the close', () => session.states().at(-1) === PORT_STATE_CLOSED);
  await session.port.end();
  await daemon.stop();
});

test('monitor shows bytes of an unfinished chunk, and from the log what it did not take in time', async () => {
  const { daemon, pty } = await startBox({ serial: { rx_gap_ms: 500 } });
  const monitor = startCli(['monitor', '--config', daemon.configFile]);
  await until('it receives', async () => (await daemon.client.line.getStatus({})).subscribers > 0);
  pty.write(Buffer.from('no pause yet'));
  await until('the bytes are shown', () => monitor.stdout() === 'no pause yet');
  assert.equal((await everythingAfter(daemon.client, 0)).length, 0, 'the log has whole chunks alone');
  monitor.process.kill('SIGSTOP');
  const lines = Array.from({ length: 200_000 }, (_, n) => `line ${n}\n`);
  const bytes = Buffer.from(lines.join(''));
  for (let at = 0; at < bytes.length; at += 4_000)
    await pty.write(bytes.subarray(at, at + 4_000), AbortSignal.timeout(10_000));
  monitor.process.kill('SIGCONT');
  await until('the last line is shown', () => monitor.stdout().endsWith('line 199999\n'));
  assert.match(monitor.stderr(), /bytes were not shown in time/);
  const shown = new Set(monitor.stdout().split(/(?<=\n)/));
  assert.deepEqual(
    lines.filter((line, n) => n > 0 && !shown.has(line)),
    [],
  );
  assert.equal(await monitor.end(), 0);
  await daemon.stop();
});
