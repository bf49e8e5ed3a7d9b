/**
 * A caller that is gone before the port took the first byte of its packet has sent nothing. The bytes that the device at the
 * far end reads when a stalled line drains are the proof.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { Metadata } from 'nice-grpc';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { serial } from '../../src/shared/proto/services.ts';
import { type Client, connectTo, signalPid, temporaryDirectory } from './daemon.ts';
import { everythingAfter, openPort, TX } from './faults.ts';
import { type Both, startBoth } from './hub.ts';
import { type NamedPty, namedPty } from './pty.ts';
import { startCli } from './run-cli.ts';

const { OK, INTERNAL_ERROR } = serial.StatusCode;
/** Fills the terminal; no packet of a test has this byte. */
const FILLER = 0x2e;
const FILLER_BYTES = 65_536;
/** What the device must read at the end, and nothing beside it. */
const LAST = 'the last packet';
/** nice-grpc has no deadline of its own; the header is what every gRPC client sends. */
const fillerDeadline = new Metadata({ 'grpc-timeout': '700m' });

let dir: string;
let box: Both;
let ports = 0;

before(async () => {
  dir = temporaryDirectory();
  box = await startBoth({
    dir,
    config: { serial: { extra_ports: [`${dir}/line*`], write_timeout_ms: 600_000 }, log: { commit_ms: 50 } },
  });
});
after(async () => {
  assert.equal(await box.stop(), 0);
});

interface StalledLine {
  readonly pty: NamedPty;
  readonly client: Client;
  /** Packets that wait behind the one that is first in line. */
  queued(): Promise<number>;
  /** Packets that failed since the line stalled. */
  failed(): Promise<number>;
  /** The device reads on; gives what it has read. */
  read(): () => Buffer;
  /** The device reads on; gives all that it has read when the last packet has come, without the filler. */
  drain(): Promise<string>;
}

/** A port whose terminal takes no byte more. */
async function stalledLine(): Promise<StalledLine> {
  ports += 1;
  const pty = namedPty(dir, `line${ports}`, false);
  const client = connectTo(`unix:${box.dir}/run/grpc.sock`);
  // Fast, so that the time on the wire adds nothing to the limits.
  await openPort(client, pty.portName, { baudRate: 4_000_000 });
  const before = Number((await client.line.getStatus({})).log?.headId);
  const payload = Buffer.alloc(FILLER_BYTES, FILLER);
  // On a busy machine gRPC's own end of the deadline may come before the answer.
  const answer = await client.serial.sendPacket({ payload }, { metadata: fillerDeadline }).then(
    ({ error }) => error,
    (error: unknown) => String(error),
  );
  const filler = await until('the filler in the log', async () =>
    (await everythingAfter(client, before)).find(({ entry }) => entry?.dir === TX),
  );
  const accepted = filler.entry?.rawData?.length ?? 0;
  assert.ok(accepted > 0 && accepted < FILLER_BYTES, `${accepted}`);
  assert.match(answer, new RegExp(`${accepted} of ${FILLER_BYTES} bytes had reached the port|DEADLINE_EXCEEDED`));
  const counters = async (): Promise<{ queued: number; failed: number }> => {
    const { counters: now } = await client.line.getStatus({});
    return { queued: Number(now?.txQueuedPackets), failed: Number(now?.txFailedPackets) };
  };
  const { failed: failedBefore } = await counters();
  const parts: Buffer[] = [];
  const all = (): Buffer => Buffer.concat(parts);
  let reading = false;
  const read = (): (() => Buffer) => {
    if (!reading) pty.onData((bytes) => parts.push(Buffer.from(bytes)));
    reading = true;
    return all;
  };
  return {
    pty,
    client,
    queued: async () => (await counters()).queued,
    failed: async () => (await counters()).failed - failedBefore,
    read,
    async drain() {
      const last = client.serial.sendPacket({ payload: Buffer.from(LAST) });
      read();
      assert.equal((await within('the answer to the last packet', last)).status, OK);
      await until('the last packet at the device', () => all().includes(LAST));
      assert.equal(all().filter((byte) => byte === FILLER).length, accepted, 'what was accepted is in the log');
      await client.serial.close({});
      client.close();
      pty.close();
      return all()
        .filter((byte) => byte !== FILLER)
        .toString();
    },
  };
}

const BOTH = ['START MOTOR', 'STOP MOTOR'];
const overSocket = () => ({ LINESIDE_SOCKET: `${box.dir}/run/grpc.sock` });
const packet = (text: string) => ({ payload: Buffer.from(text) });
/** The call fails at the client that cancelled it; what happened at the line is asserted there. */
const ignore = (call: Promise<unknown>): void => void call.catch(() => {});

/** How a caller sends both packets; it answers how it disconnects. */
const callers: Readonly<Record<string, (client: Client) => () => void>> = {
  'SendPacket, cancelled by its client': (client) => {
    const cancel = new AbortController();
    for (const text of BOTH) ignore(client.serial.sendPacket(packet(text), { signal: cancel.signal }));
    return () => cancel.abort();
  },
  'SendPacket of a client that is killed': () => {
    const clients = BOTH.map((text) => startCli(['send', text, '--timeout', '600'], overSocket()));
    return () => {
      for (const { process } of clients) process.kill('SIGKILL');
    };
  },
  'a Session that its client cancels': (client) => {
    const cancel = new AbortController();
    async function* requests() {
      for (const text of BOTH) yield { send: packet(text) };
      await new Promise((done) => cancel.signal.addEventListener('abort', done, { once: true }));
    }
    ignore(client.line.session(requests(), { signal: cancel.signal })[Symbol.asyncIterator]().next());
    return () => cancel.abort();
  },
  'a Session whose client is killed': () => {
    const monitor = startCli(['monitor'], overSocket());
    monitor.process.stdin?.write(`${BOTH.join('\n')}\n`);
    return () => monitor.process.kill('SIGKILL');
  },
  'the HTTP send route, whose client closes its connection': () => {
    const clients = BOTH.map((text) => {
      const headers = { 'content-type': 'application/json' };
      const place = { socketPath: box.socket, method: 'POST', path: '/api/v1/line/send', agent: false, headers };
      const sent = request(place).on('error', () => {});
      return sent.end(JSON.stringify({ base64: Buffer.from(text).toString('base64') }));
    });
    return () => {
      for (const sent of clients) sent.destroy();
    };
  },
};
for (const [what, send] of Object.entries(callers)) {
  test(`${what}: neither the packet that is first in line nor the one behind it is sent`, async () => {
    const line = await stalledLine();
    const leave = send(line.client);
    await until('both packets are with the line', async () => (await line.queued()) === 1);
    leave();
    await until('both are abandoned', async () => (await line.failed()) === 2);
    assert.equal(await line.drain(), LAST);
  });
}

test('SendPacket whose deadline passes', async () => {
  const line = await stalledLine();
  const metadata = new Metadata({ 'grpc-timeout': '2S' });
  const sent = BOTH.map((text) => line.client.serial.sendPacket(packet(text), { metadata }));
  const [first, second] = await Promise.all(sent);
  assert.deepEqual([first?.status, second?.status], [INTERNAL_ERROR, INTERNAL_ERROR]);
  assert.match(first?.error ?? '', /deadline passed; 0 of 11 bytes had reached the port/);
  assert.equal(await line.drain(), LAST);
});

test('the process stalled while the client cancelled, the deadline passed and the line drained', async () => {
  const line = await stalledLine();
  const cancel = new AbortController();
  const metadata = new Metadata({ 'grpc-timeout': '2S' });
  ignore(line.client.serial.sendPacket(packet('START MOTOR'), { signal: cancel.signal }));
  ignore(line.client.serial.sendPacket(packet('STOP MOTOR'), { metadata }));
  await until('both packets are with the line', async () => (await line.queued()) === 1);
  signalPid(box.linePid, 'SIGSTOP');
  cancel.abort();
  ignore(line.client.serial.sendPacket(packet('OPEN VALVE'), { signal: AbortSignal.timeout(200) }));
  line.read();
  const resumeAt = performance.now() + 2_500;
  await until('the deadline has passed', () => performance.now() > resumeAt);
  signalPid(box.linePid, 'SIGCONT');
  assert.equal(await line.drain(), LAST);
});

test('a packet of which the port took a part is sent whole although its caller cancels, and the log has all of it', async () => {
  const line = await stalledLine();
  const { client, pty } = line;
  const cancel = new AbortController();
  const before = Number((await client.line.getStatus({})).log?.headId);
  const size = 60_000;
  ignore(client.serial.sendPacket({ payload: Buffer.alloc(size, 0x77) }, { signal: cancel.signal }));
  pty.onData((bytes) => {
    // A part of it has come: the rest is still with the line, which is stalled again.
    if (!cancel.signal.aborted && bytes.includes(0x77)) {
      pty.pause();
      cancel.abort();
    }
  });
  line.read();
  await until('a part of the packet', () => cancel.signal.aborted);
  await client.line.getStatus({});
  pty.resume();
  assert.equal(await line.drain(), `${'w'.repeat(size)}${LAST}`);
  const sent = (await everythingAfter(box.client, before)).filter(({ entry }) => entry?.dir === TX);
  assert.deepEqual(
    sent.map(({ entry }) => [entry?.rawData?.length, entry?.note]),
    [
      [size, ''],
      [LAST.length, ''],
    ],
  );
});
