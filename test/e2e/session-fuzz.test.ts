/**
 * Random messages in Sessions, and random telnet to `lineside rfc2217`: no process fails, memory stays, and the line works on. SOAK=COUNT
 * sends so many messages and bytes (`npm run soak -- session`); SEED replays them.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { type ClientDuplexStream, credentials, Client as RawClient, type ServiceError, status } from '@grpc/grpc-js';
import Long from 'long';
import { endsWithin, systemClock } from '../../src/shared/base/clock.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { LineServiceDefinition, lineside, serial } from '../../src/shared/proto/services.ts';
import { anyOf, chosenSeed, type Random, seeded } from '../soak/random.ts';
import { type Box, openPort, residentMiB, startBox } from './faults.ts';
import { startCli } from './run-cli.ts';

const { SessionRequest, SessionResponse } = lineside.v1;
const { OK } = serial.StatusCode;
const count = Number(process.env['SOAK'] ?? 10_000);
const seed = chosenSeed();
const timeout = Math.max(60_000, count);

/** Garbage collection moves the resident size; a leak of 100 bytes a message would show in a million. */
const GROWTH_MIB = 60;
const LONGEST_STREAM = 400;
const LANES = 4;
const TELNET_BYTES = Math.max(400_000, count);
const [IAC, WILL, SB, SE, COM_PORT] = [255, 251, 250, 240, 44];
/** A command that does nothing else has some 100. */
const MAX_CLIENT_MIB = 250;
/** A drain takes as long as 64 characters. */
const FAST = 3_000_000;
/** A stream that waits longer, such as for the drain of a line that a damaged message made slow, is cancelled. */
const CUT_MS = 2_000;

/** The device answers in printable bytes: XOFF would stop the line. */
async function startAnsweringBox(): Promise<Box> {
  const box = await startBox({ log: { max_bytes: 16 * 2 ** 20 } }, undefined, false);
  let answered: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  box.pty.onData(() => {
    if (waiting > 8) return;
    waiting += 1;
    answered = answered.then(() => box.pty.write(Buffer.from('answer'))).finally(() => (waiting -= 1));
  });
  return box;
}

/** The port works both ways, and nothing that the daemon logged is a defect. */
async function unharmed({ daemon, pty }: Box): Promise<void> {
  await daemon.client.line.releaseHold({});
  await openPort(daemon.client, pty.portName);
  assert.equal((await daemon.client.serial.sendPacket({ payload: Buffer.from('probe') })).status, OK);
  await until('the answer', async () => {
    const packet = await daemon.client.serial.receivePacket({}).catch(() => undefined);
    return packet !== undefined && packet.payload.length > 0;
  });
  assert.equal(await daemon.stop(), 0);
  assert.deepEqual(
    daemon.logLines.filter((line) => / error /.test(line) || /^\(node|Warning|^ {4}at /.test(line)),
    [],
  );
}

/** Memory once a quarter is done, when code is compiled and caches are full, against the end. */
class Memory {
  readonly #pid: number;
  #settled: number | undefined;

  constructor(pid: number) {
    this.#pid = pid;
  }

  look(done: number): void {
    if (done >= count / 4) this.#settled ??= residentMiB(this.#pid);
  }

  check(): void {
    const [before = 0, now] = [this.#settled, residentMiB(this.#pid)];
    assert.ok(now < before + GROWTH_MIB, `memory grew from ${before} to ${now} MiB`);
  }
}

test(`${count} random messages in Sessions, SEED=${seed}`, { timeout }, async () => {
  const box = await startAnsweringBox();
  const { client, socket, pid } = box.daemon;
  await openPort(client, box.pty.portName, { baudRate: FAST });
  const random = seeded(seed);
  const memory = new Memory(pid);
  const codes = new Map<string, number>();
  const answers = new Map<string, number>();
  let done = 0;
  const lane = async (): Promise<void> => {
    const own = { 'grpc.use_local_subchannel_pool': 1 };
    const raw = new RawClient(`unix:${socket}`, credentials.createInsecure(), own);
    while (done < count) {
      const messages = Array.from({ length: random.between(1, LONGEST_STREAM) }, () => message(random));
      const code = await session(raw, messages, (kind) => {
        answers.set(kind, (answers.get(kind) ?? 0) + 1);
        if (kind === 'sent' || kind === 'done') done += 1;
      });
      codes.set(code, (codes.get(code) ?? 0) + 1);
      await client.line.releaseHold({});
      assert.equal((await client.serial.getCurrentConfig({})).portName, box.pty.portName);
      memory.look(done);
    }
    raw.close();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  memory.check();
  const seen = [...codes, ...answers].map(([name, times]) => `${name}=${times}`).join(' ');
  assert.doesNotMatch(seen, /UNKNOWN|DEADLINE_EXCEEDED|UNAVAILABLE/);
  for (const kind of ['whole', 'sent', 'done', 'received', 'event', 'log'])
    assert.match(seen, new RegExp(`\\b${kind}=`));
  if (process.env['SOAK'] !== undefined) process.stdout.write(`${seen}\n`);
  await unharmed(box);
});

const number = (random: Random): number =>
  anyOf([0, 1, 2, 3, 7, 8, 9, 9_600, 115_200, 12_000_001, 4_294_967_295, random.between(0, 2 ** 31)], random);
const flag = (random: Random): boolean => random.between(0, 1) === 1;
const long = (random: Random): Long => Long.fromNumber(number(random), true);

/** No speed at which a drain takes long, but by damage. */
const settings = (random: Random): lineside.v1.ChangeSettings.$Properties => ({
  ...(flag(random) && { baudRate: anyOf([0, FAST, 12_000_000, 12_000_001, 4_294_967_295], random) }),
  ...(flag(random) && { dataBits: number(random) }),
  ...(flag(random) && { parity: number(random) }),
  ...(flag(random) && { stopBits: number(random) }),
  ...(flag(random) && { flowControl: number(random) }),
  drain: flag(random),
  purgeReceived: flag(random),
});

const commands: readonly ((random: Random) => lineside.v1.LineCommand.$Properties)[] = [
  (random) => ({ settings: settings(random) }),
  // Nothing is sent during a break, which may last 5 s.
  (random) => ({ break: random.between(1, 100) === 1 }),
  (random) => ({ modemLines: { ...(flag(random) && { dtr: flag(random) }), rts: flag(random) } }),
  (random) => ({ purge: { received: flag(random), transmit: flag(random) } }),
  () => ({ drain: {} }),
  (random) => ({ hold: { ticket: flag(random) ? '' : random.bytes(random.between(0, 40)).toString('latin1') } }),
  () => ({ release: {} }),
  (random) => ({ lineErrors: flag(random) }),
  () => ({}),
];

/** Packets and commands; of those that may come once, and a second time end the stream, few. */
function request(random: Random): lineside.v1.SessionRequest.$Properties {
  const which = random.between(1, 500);
  if (which === 1) return {};
  if (which === 2) return { receive: { modemLines: flag(random), afterLog: flag(random) } };
  if (which === 3)
    return {
      log: {
        afterId: long(random),
        follow: flag(random),
        liveOnly: flag(random),
        limit: long(random),
        last: flag(random),
      },
    };
  if (which < 250) return { command: anyOf(commands, random)(random) };
  const payload = random.bytes(anyOf([0, 1, 8, 64, random.between(0, 1_000)], random));
  return { send: { seqId: long(random), payload, tags: flag(random) ? {} : { [payload.toString('latin1')]: 'x' } } };
}

/** Few are damaged, or noise from the start: such a one may end its stream, and what is behind it is not read. */
function message(random: Random): Buffer {
  const whole = Buffer.from(SessionRequest.encode(request(random)).finish());
  if (random.between(1, 200) > 1) return whole;
  if (flag(random)) return random.bytes(random.between(0, 300));
  for (let n = random.between(1, 3); n > 0 && whole.length > 0; n--)
    whole[random.between(0, whole.length - 1)] = random.between(0, 255);
  return whole.subarray(0, flag(random) ? whole.length : random.between(0, whole.length));
}

const LAST = Long.fromString('18446744073709551615', true);
const last = Buffer.from(SessionRequest.encode({ send: { seqId: LAST, payload: Buffer.from('last') } }).finish());

/** 'whole': the last packet has its answer; 'cut'; or the status that ended the stream before. */
async function session(raw: RawClient, messages: readonly Buffer[], seen: (kind: string) => void): Promise<string> {
  const same = (bytes: Buffer): Buffer => bytes;
  const call: ClientDuplexStream<Buffer, Buffer> = raw.makeBidiStreamRequest(
    LineServiceDefinition.session.path,
    same,
    same,
  );
  const ended = new Promise<string>((resolve) => {
    call.on('data', (bytes: Buffer) => {
      const answer = SessionResponse.decode(bytes);
      seen(answer.response ?? 'none');
      if (answer.sent?.echoSeqId.equals(LAST)) resolve('whole');
    });
    call.on('error', ({ code }: ServiceError) => resolve(status[code] ?? String(code)));
    call.on('end', () => resolve('OK'));
  });
  for (const one of [...messages, last]) call.write(one);
  const code = (await endsWithin(systemClock, CUT_MS, ended)) ? await ended : 'cut';
  call.cancel();
  return code;
}

test(`${TELNET_BYTES} bytes of random telnet to lineside rfc2217, SEED=${seed}`, { timeout: 300_000 }, async () => {
  const box = await startAnsweringBox();
  const serving = startCli(['rfc2217', '--config', box.daemon.configFile, '--listen', ':0', '--replace']);
  const port = Number(await until('it listens', () => /rfc2217:\S+:(\d+)/.exec(serving.stdout())?.[1]));
  const random = seeded(seed);
  let programs = 0;
  for (let sent = 0; sent < TELNET_BYTES; programs++) {
    const socket = await dial(port);
    while (sent < TELNET_BYTES && !socket.destroyed) {
      const bytes = Buffer.concat(Array.from({ length: 100 }, () => telnet(random)));
      sent += bytes.length;
      if (!socket.write(bytes)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
    }
    // The kernel has taken more than the command.
    socket.end();
    await until('the command has read all', () => socket.closed, 240_000);
  }
  const { line } = box.daemon.client;
  const sentToLine = Number((await line.getStatus({})).counters?.txBytes);
  assert.ok(sentToLine > TELNET_BYTES / 10, `${sentToLine} bytes came to the line`);
  const resident = residentMiB(serving.process.pid ?? 0);
  assert.ok(resident < MAX_CLIENT_MIB, `${resident} MiB after ${programs} connections`);
  const next = await dial(port);
  await until('the next program is served', async () => (await line.getStatus({})).holder !== null);
  next.destroy();
  assert.equal(await serving.end(), 0);
  await unharmed(box);
});

/** A program that has answered in telnet. */
async function dial(port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {}).resume();
  await once(socket, 'connect');
  socket.write(Buffer.from([IAC, WILL, COM_PORT]));
  return socket;
}

/** Data, negotiations, options of the serial port with any value, and the same without their ends or with other bytes between. */
function telnet(random: Random): Buffer {
  const which = random.between(1, 20);
  if (which <= 4) return random.bytes(random.between(0, 200));
  if (which <= 7)
    return Buffer.from([
      IAC,
      random.between(WILL, WILL + 3),
      anyOf([0, 1, 3, COM_PORT, random.between(0, 255)], random),
    ]);
  if (which === 8) return Buffer.from([IAC, random.between(0, 255)]);
  const value = anyOf(
    [
      optionValue,
      (from: Random) => from.bytes(from.between(0, 5)),
      (from: Random) => from.bytes(from.between(200, 400)),
    ],
    random,
  );
  const sub = Buffer.concat([
    Buffer.from([IAC, SB, COM_PORT, random.between(0, 13)]),
    value(random),
    Buffer.from([IAC, SE]),
  ]);
  return which === 9 ? sub.subarray(0, random.between(1, sub.length)) : sub;
}

/** A speed, or a code; none begins a break, during which nothing is sent for 5 s. */
function optionValue(random: Random): Buffer {
  const bytes = Buffer.alloc(4);
  if (flag(random)) bytes.writeUInt32BE(anyOf([0, 9_600, 115_200, FAST, 4_294_967_295], random));
  else bytes[0] = anyOf([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 17, 255], random);
  return flag(random) ? bytes : bytes.subarray(0, 1);
}
