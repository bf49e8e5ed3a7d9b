/**
 * Whatever comes in, the service answers, and a port that is open is unharmed by it: its configuration stands and its
 * bytes flow. SOAK=COUNT sends that many random messages instead of a few hundred (`npm run soak -- fuzz`).
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Metadata } from '@grpc/grpc-js';
import fc from 'fast-check';
import { codePoint } from '../../src/shared/base/text.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { google, lineside, serial } from '../../src/shared/gen/proto.js';
import { LineServiceDefinition, SerialServiceDefinition } from '../../src/shared/proto/services.ts';
import { RawClient } from '../grpc/raw-client.ts';
import { type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { type NamedPty, namedPty } from './pty.ts';

const CONTRACT = '/serial.SerialService/';
const BEYOND = '/lineside.v1.LineService/';
const methods = [...Object.values(SerialServiceDefinition), ...Object.values(LineServiceDefinition)];
const paths = methods.map(({ path }) => path);
/** These end, forget or hold up the open port when the message is good, and good it is by chance: Empty is any fields. */
const closing = `${CONTRACT}Close`;

const usual = { baudRate: 57_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 };
const { NOT_FOUND, OK } = serial.StatusCode;

let ports: string;
let pty: NamedPty;
/** A real terminal of this machine that is not offered as a port. */
let unlisted: NamedPty;
let daemon: Daemon;
let raw: RawClient;
let probes = 0;

before(async () => {
  ports = join(temporaryDirectory(), 'ports');
  mkdirSync(ports);
  pty = namedPty(ports);
  unlisted = namedPty(temporaryDirectory(), 'elsewhere');
  // The glob takes in every trap that is laid in this directory.
  daemon = await startDaemon({ config: { serial: { extra_ports: [`${ports}/*`], rx_gap_ms: 20 } } });
  raw = new RawClient(`unix:${daemon.socket}`);
  await open();
});
after(async () => {
  raw.close();
  assert.equal(await daemon.stop(), 0);
  const unforeseen = daemon.logLines.filter((line) => / error /.test(line) || /^\(node|Warning|^ {4}at /.test(line));
  assert.deepEqual(unforeseen, [], 'nothing of it was unforeseen');
});

const open = (): Promise<void> => openPort(daemon.client, pty.portName, usual);

/** The configuration is the old one, and bytes go both ways. */
async function unharmed(): Promise<void> {
  const { serial: client } = daemon.client;
  assert.deepEqual({ ...(await client.getCurrentConfig({})) }, { ...wire(), portName: pty.portName });
  probes += 1;
  const mark = `probe ${probes};`;
  assert.equal((await client.sendPacket({ payload: Buffer.from(mark) })).status, OK);
  await until(`${mark} at the device`, () => pty.received().toString('latin1').endsWith(mark));
  await pty.write(Buffer.from(mark));
  await until(`${mark} from the device`, async () => {
    const packet = await client.receivePacket({}).catch(() => undefined);
    return packet !== undefined && Buffer.from(packet.payload).toString() === mark;
  });
}

/** protobufjs leaves out what has its default value. */
function wire() {
  return { ...serial.SerialConfig.decode(serial.SerialConfig.encode({ ...usual, portName: pty.portName }).finish()) };
}

const deep = (levels: number): Buffer => Buffer.alloc(levels, 0x0b);
const garbage: Readonly<Record<string, Buffer>> = {
  'one byte': Buffer.from([0xff]),
  'a varint without an end': Buffer.alloc(40, 0xff),
  'a field longer than the message': Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x7f, 0x00]),
  'a field number of 0': Buffer.from([0x00, 0x00]),
  'wire type 7': Buffer.from([0x0f, 0x01]),
  'an end of a group that never began': Buffer.from([0x0c]),
  'groups 100,000 levels deep': deep(100_000),
  'text that is no UTF-8': Buffer.from([0x0a, 0x02, 0xc3, 0x28, 0x22, 0x02, 0xff, 0xfe]),
  'a megabyte of noise': Buffer.alloc(1_000_000, 'lineside?'),
  'HTTP/1.1': Buffer.from('GET / HTTP/1.1\r\nHost: box\r\n\r\n'),
};

describe('garbage', () => {
  for (const [what, message] of Object.entries(garbage)) {
    test(`${what}, to every method`, async () => {
      for (const path of paths) {
        const answer = await raw.stream(path, [message]);
        const expected = [
          'OK',
          'INTERNAL',
          'INVALID_ARGUMENT',
          'NOT_FOUND',
          'UNIMPLEMENTED',
          'CANCELLED',
          'OUT_OF_RANGE',
        ];
        assert.ok(expected.includes(answer.code), `${path}: ${answer.code} ${answer.details}`);
        if (path === closing && answer.code === 'OK') await open();
      }
      await unharmed();
    });
  }

  test('two messages, and none, where one is expected', async () => {
    const empty = Buffer.alloc(0);
    for (const path of paths.filter((one) => one !== closing && !one.endsWith('/Session'))) {
      await raw.stream(path, []);
      await raw.stream(path, [empty, empty]);
    }
    await unharmed();
  });

  test('methods and services that do not exist', async () => {
    for (const path of [`${CONTRACT}Explode`, '/no.Service/Open', '/', `${CONTRACT}${'x'.repeat(5_000)}`])
      assert.equal((await raw.unary(path, Buffer.alloc(0))).code, 'UNIMPLEMENTED', path.slice(0, 40));
    await unharmed();
  });
});

describe('too large', () => {
  const oversized = 8 * 1024 * 1024;
  for (const path of [`${CONTRACT}SendPacket`, `${CONTRACT}LogRaw`, `${CONTRACT}Open`, `${BEYOND}Session`]) {
    test(`8 MiB to ${path}`, async () => {
      assert.equal((await raw.stream(path, [Buffer.alloc(oversized)])).code, 'RESOURCE_EXHAUSTED');
      await unharmed();
    });
  }

  test('a small compressed message that becomes a large one', async () => {
    const gzip = new RawClient(`unix:${daemon.socket}`, { 'grpc.default_compression_algorithm': 2 });
    const packet = serial.Packet.encode({ payload: Buffer.alloc(64 * 1024 * 1024) }).finish();
    const answer = await gzip.unary(`${CONTRACT}SendPacket`, Buffer.from(packet));
    gzip.close();
    assert.equal(answer.code, 'RESOURCE_EXHAUSTED', answer.details);
    await unharmed();
  });

  test('more metadata than anyone needs, from another client', async () => {
    for (const [count, length] of [
      [1, 200_000],
      [2_000, 10],
      [100, 900],
    ] as const) {
      const metadata = new Metadata();
      for (let i = 0; i < count; i++) metadata.add(`x-depth-${i}`, 'm'.repeat(length));
      const other = new RawClient(`unix:${daemon.socket}`);
      const { code } = await other.unary(`${CONTRACT}GetCurrentConfig`, Buffer.alloc(0), metadata);
      other.close();
      assert.notEqual(code, 'DEADLINE_EXCEEDED');
    }
    await unharmed();
  });

  test('a map of 20,000 tags', async () => {
    const tags = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`tag ${i}`, 'x']));
    const answer = await daemon.client.serial.sendPacket({ payload: Buffer.from('tagged;'), tags });
    assert.equal(answer.status, OK, answer.error);
    await unharmed();
  });
});

describe('paths that are not listed ports', () => {
  const trap = (name: string): string => join(ports, name);
  const disk = ['/dev/vda', '/dev/sda', '/dev/nvme0n1', '/dev/mmcblk0', '/dev/loop0', '/dev/ram0'].find(existsSync);
  /** Laid where ports are looked for. */
  const laid = (name: string, lay: (path: string) => unknown) => () => {
    lay(trap(name));
    return trap(name);
  };
  const linkTo = (target: string, name: string) => laid(name, (path) => symlinkSync(target, path));
  const traps: Readonly<Record<string, string | (() => string)>> = {
    'a regular file': laid('file', (path) => writeFileSync(path, 'precious')),
    '/etc/shadow': '/etc/shadow',
    'a link to /etc/shadow where ports are looked for': linkTo('/etc/shadow', 'shadow'),
    'a directory': '/etc',
    'a directory where ports are looked for': laid('directory', (path) => mkdirSync(path)),
    'a disk': disk ?? '/dev/sda',
    'a link to a disk where ports are looked for': linkTo(disk ?? '/dev/sda', 'disk'),
    '/dev/null': '/dev/null',
    'a link to /dev/null where ports are looked for': linkTo('/dev/null', 'null'),
    '/dev/tty': '/dev/tty',
    '/dev/ptmx': '/dev/ptmx',
    'a link to /dev/ptmx where ports are looked for': linkTo('/dev/ptmx', 'ptmx'),
    'a FIFO where ports are looked for': laid('fifo', (path) => execFileSync('mkfifo', [path])),
    'its own socket': () => daemon.socket,
    'a terminal that was not offered': () => unlisted.slavePath,
    'the node behind the offered name': () => pty.slavePath,
    'a way around by ..': () => `${ports}/../${basename(ports)}/${basename(pty.portName)}`,
    'a way around by //': () => `${dirname(pty.portName)}//${basename(pty.portName)}`,
    'a way around by .': () => `${dirname(pty.portName)}/./${basename(pty.portName)}`,
    'the name with a slash behind': () => `${pty.portName}/`,
    'the name without its directory': () => basename(pty.portName),
    'the name in its process directory': () => `/proc/self/root${pty.portName}`,
    'a link to the port that is not listed': () => {
      const link = join(temporaryDirectory(), 'link');
      symlinkSync(pty.portName, link);
      return link;
    },
    'a link that leads to itself': laid('loop', (path) => symlinkSync(path, path)),
    'a link that leads nowhere': linkTo('/nowhere', 'nowhere'),
    'a name with NUL': () => `${pty.portName}\0`,
    'a name with NUL inside': () => pty.portName.replace('/', '/\0'),
    'a name with a newline': () => `${pty.portName}\n`,
    'a name of blanks': '  ',
    'a pattern that matches the port': () => `${ports}/*`,
    'a name of 4,096 characters': `/dev/${'x'.repeat(4_091)}`,
    'a name of 100,000 characters': `/dev/${'../'.repeat(33_332)}`,
    'terminal controls': '\x1b]0;owned\x07\x1b[2J',
    'a URL': 'file:///etc/passwd',
    'the other world': '\u{10ffff}\u202e\ufeff',
  };
  for (const [what, path] of Object.entries(traps)) {
    test(what, async () => {
      const portName = typeof path === 'string' ? path : path();
      const answer = await daemon.client.serial.open({ ...usual, portName });
      assert.equal(answer.status, NOT_FOUND, answer.error);
      assert.ok(
        [...answer.error].every((char) => char >= ' ' && char !== '\x7f'),
        'the answer is text',
      );
      assert.ok(answer.error.length < 2_000);
    });
  }

  test('none of them is listed, and the open port is unharmed', async () => {
    const sockets = createServer().listen(trap('socket'));
    const { devices } = await daemon.client.serial.listDevices({});
    sockets.close();
    const offered = devices.map(({ portName }) => portName).filter((name) => name.startsWith(ports));
    assert.deepEqual(offered, [pty.portName]);
    await unharmed();
  });
});

describe('random messages', () => {
  const runs = Number(process.env['SOAK'] ?? '400');
  // Session and StreamLog would be cancelled on their first answer: sent as streams like all others.
  const fields = fc.record(
    {
      portName: fc.oneof(fc.string({ unit: codePoint }), fc.constantFrom('/dev/null', '/etc/passwd', '/dev/tty0')),
      baudRate: fc.nat(4_294_967_295),
      dataBits: fc.oneof(fc.nat(9), fc.nat(4_294_967_295)),
      parity: fc.oneof(fc.integer({ min: -1, max: 6 }), fc.integer()),
      stopBits: fc.oneof(fc.integer({ min: -1, max: 4 }), fc.integer()),
      packetSize: fc.nat(4_294_967_295),
    },
    { requiredKeys: [] },
  );
  const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
  const message = fc.oneof(
    bytes,
    fields.map((one) => Buffer.from(serial.SerialConfig.encode(one).finish())),
    fc
      .record({ payload: fc.uint8Array({ maxLength: 100 }), tags: fc.dictionary(fc.string(), fc.string()) })
      .map((one) => Buffer.from(serial.Packet.encode(one).finish())),
    fc
      .record({ dir: fc.integer(), rawData: fc.uint8Array(), note: fc.string({ unit: codePoint }) })
      .map((one) => Buffer.from(serial.SerialLogEntry.encode(one).finish())),
    // A good message with a few bytes changed.
    fc.tuple(fields, fc.array(fc.tuple(fc.nat(60), fc.nat(255)), { maxLength: 5 })).map(([one, changes]) => {
      const encoded = Buffer.from(serial.SerialConfig.encode({ ...usual, ...one }).finish());
      for (const [at, byte] of changes) if (at < encoded.length) encoded[at] = byte;
      return encoded;
    }),
    bytes.map((one) => Buffer.from(lineside.v1.SessionRequest.encode({ send: { payload: one } }).finish())),
    fc.constant(Buffer.from(google.protobuf.Empty.encode({}).finish())),
  );
  // Breaks and modem lines are refused on a PTY; Close has its own tests.
  const path = fc.constantFrom(...paths.filter((one) => one !== closing));

  test(`${runs} of them, and the service stands`, { timeout: Math.max(60_000, runs * 100) }, async () => {
    const seen = new Set<string>();
    const property = fc.asyncProperty(path, fc.array(message, { minLength: 1, maxLength: 3 }), async (method, sent) => {
      const messages = method.endsWith('/Session') ? sent : sent.slice(0, 1);
      const { code, details } = await raw.stream(method, messages);
      seen.add(code);
      assert.ok(!['UNKNOWN', 'DEADLINE_EXCEEDED', 'UNAVAILABLE'].includes(code), `${method}: ${code} ${details}`);
      const { portName } = await daemon.client.serial.getCurrentConfig({});
      assert.equal(portName, pty.portName);
    });
    await fc.assert(property, { numRuns: runs });
    assert.ok(seen.size >= 3, [...seen].join());
    await unharmed();
  });
});
