import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2, constants, createServer as createHttp2Server } from 'node:http2';
import { createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createChannel, createClient } from 'nice-grpc';
import { endOf, FakeLine, startTestServer } from '../../../test/grpc/fakes.ts';
import { newEntry, openLog } from '../../../test/log/support.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until, within } from '../../shared/base/wait.fixture.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';
import { STALLED_MS } from '../log/readers.ts';
import { STOP_GRACE_MS } from './limits.ts';
import { startGrpcServers } from './server.ts';

const local = { 'grpc.use_local_subchannel_pool': 1 };

test('20 streams end with UNAVAILABLE when the service stops, and new calls are refused', async () => {
  await using s = await startTestServer();
  const client = s.client(SerialServiceDefinition);
  const line = s.client(LineServiceDefinition);
  const idle = new Promise<void>(() => {});
  const silent = async function* (): AsyncGenerator<{ log: { follow: boolean } }> {
    yield { log: { follow: true } };
    await idle;
  };
  const streams = [
    ...Array.from({ length: 10 }, () => endOf(client.streamLog({}))),
    ...Array.from({ length: 5 }, () => endOf(line.readLog({ follow: true }))),
    ...Array.from({ length: 5 }, () => endOf(line.session(silent()))),
  ];
  await until('all stand', () => s.log.readers === 20);
  const began = performance.now();
  await s.servers.stop();
  assert.ok(performance.now() - began < STOP_GRACE_MS, 'nothing holds it up');
  assert.deepEqual(new Set(await Promise.all(streams)), new Set(['UNAVAILABLE']));
  assert.equal(s.log.readers, 0);
});

test('the log worker collects its garbage too when many streams have ended', async () => {
  const clock = new FakeClock();
  await using s = await startTestServer({}, silentLogger, clock);
  const over = new AbortController();
  const client = s.client(SerialServiceDefinition);
  const streams = Array.from({ length: 8 }, () => endOf(client.streamLog({}, { signal: over.signal })));
  await until('all stand', () => s.log.readers === 8);
  over.abort();
  await Promise.all(streams);
  await until('all are gone', () => s.log.readers === 0);
  await until('a collection', () => {
    clock.advance(100);
    return s.log.collections === 1;
  });
});

test('a call that never ends and a client that never reads do not hold up the stop', async () => {
  await using s = await startTestServer();
  const frozen = await spawnReader(s.address);
  try {
    s.line.onSend = () => new Promise(() => {});
    const sent = s.client(SerialServiceDefinition).sendPacket({ payload: Buffer.from('x') });
    const failed = assert.rejects(sent);
    await until('both are there', () => s.line.sends.length === 1 && s.log.readers === 1);
    frozen.kill('SIGSTOP');
    for (let i = 0; i < 50; i++) s.log.record(1, i, Buffer.alloc(65_536));
    const began = performance.now();
    await s.servers.stop();
    assert.ok(performance.now() - began < STOP_GRACE_MS + 1_000);
    await failed;
    await until('the reader is freed', () => s.log.readers === 0);
  } finally {
    frozen.kill('SIGKILL');
  }
});

test('clients that take nothing lose their streams when others wait for what they hold, and the others read on', async (t) => {
  const clock = new FakeClock();
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir, { clock });
  const large = Buffer.alloc(1024 * 1024, 1);
  for (let i = 0; i < 4; i++) await log.store(newEntry('', { data: large }));
  const { config } = parseConfig(
    { data: { runtime_dir: dir }, grpc: { listen: ['127.0.0.1:0'], max_streams_per_connection: 9 } },
    {},
  );
  const line = new FakeLine();
  const servers = await startGrpcServers({ config, line, log, clock, logger: silentLogger, version: '1' });
  const address = servers.addresses[0] ?? '';
  const session = connectHttp2(`http://${address}`);
  const channel = createChannel(address);
  try {
    const stalled = Array.from({ length: 8 }, () => streamLogOn(session).on('error', () => {}));
    // Of 32 MiB each holds five times its entry.
    await until(
      'those that hold all there is, and those that wait',
      async () => (await log.status()).waitingReaders === 3,
    );
    assert.equal(session.remoteSettings.maxConcurrentStreams, config.grpc.maxStreamsPerConnection);
    const readOn = (async () => {
      const sizes: number[] = [];
      for await (const { entries } of createClient(LineServiceDefinition, channel).readLog({}))
        for (const { entry } of entries) sizes.push(entry?.rawData?.length ?? 0);
      return sizes;
    })();
    await until('another waits too', async () => (await log.status()).waitingReaders === 4);
    clock.advance(STALLED_MS);
    assert.deepEqual(await within('it reads on', readOn), Array(4).fill(large.length));
    assert.equal((await log.status()).stalledReaders, 4, 'as many as wait');
    await until('their clients know', () => stalled.filter(({ closed }) => closed).length === 4);
    const codes = stalled.filter(({ closed }) => closed).map(({ rstCode }) => rstCode);
    assert.deepEqual(codes, Array(4).fill(constants.NGHTTP2_ENHANCE_YOUR_CALM), 'to gRPC: RESOURCE_EXHAUSTED');
  } finally {
    // Before the log is closed: by this clock it would wait for its readers for ever.
    session.destroy();
    channel.close();
    await servers.stop();
  }
});

/** A StreamLog from the start, which reads nothing that it is not asked for. */
function streamLogOn(session: ReturnType<typeof connectHttp2>) {
  const headers = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };
  const call = session.request({ ...headers, ':path': SerialServiceDefinition.streamLog.path });
  call.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]));
  return call;
}

/** Another process with a StreamLog that stands. */
async function spawnReader(address: string): Promise<ChildProcess> {
  const program = `
    const { Client, credentials } = require('@grpc/grpc-js');
    const same = (bytes) => bytes;
    const client = new Client(${JSON.stringify(address)}, credentials.createInsecure());
    const call = client.makeServerStreamRequest('/serial.SerialService/StreamLog', same, same, Buffer.alloc(0));
    call.on('metadata', () => console.log('standing'));
    call.on('data', () => {});
    call.on('error', () => {});`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child;
}

test('a client that does not read stops its reader, and gets every entry in order when it does', async () => {
  await using s = await startTestServer();
  const total = 60_000;
  for (let i = 0; i < total; i++) s.log.record(1, i + 1, Buffer.alloc(100, i));
  // grpc-js as a client reads on automatically until its first message is asked for: HTTP/2 by hand does not.
  const session = connectHttp2(`http://${s.address}`);
  try {
    const call = streamLogOn(session);
    let before = -1;
    let settled = 0;
    await until('it has stopped', () => {
      settled = s.log.delivered > 0 && s.log.delivered === before ? settled + 1 : 0;
      before = s.log.delivered;
      return settled === 20;
    });
    assert.ok(before < 10_000, `${before} entries of 100 bytes are under way`);
    let rest = Buffer.alloc(0);
    let expected = 0;
    for await (const chunk of call) {
      rest = Buffer.concat([rest, chunk]);
      for (let length = 0; rest.length >= 5; rest = rest.subarray(5 + length)) {
        length = rest.readUInt32BE(1);
        if (rest.length < 5 + length) break;
        expected += 1;
        const entry = SerialServiceDefinition.streamLog.responseDeserialize(rest.subarray(5, 5 + length));
        assert.equal(entry.timestamp.toNumber(), expected);
      }
      if (expected === total) break;
    }
    assert.equal(expected, total);
  } finally {
    session.destroy();
  }
});

const startAt = (listen: readonly string[]) => startTestServer({ grpc: { listen } });

test('the Unix socket is for owner and group, calls on it have a caller each, and it goes with the service', async () => {
  await using s = await startTestServer({ grpc: { listen: ['unix:grpc.sock'] } });
  const path = join(s.config.data.runtimeDir, 'grpc.sock');
  assert.equal(statSync(path).mode & 0o777, 0o660);
  const channels = [0, 1].map(() => createChannel(`unix://${path}`, undefined, local));
  try {
    for (const channel of [...channels, ...channels]) {
      await createClient(SerialServiceDefinition, channel).sendPacket({ payload: Buffer.from('x') });
    }
    const [a, b, again] = s.line.sends.map(({ caller }) => caller);
    assert.notEqual(a, b);
    assert.equal(a, again);
  } finally {
    for (const channel of channels) channel.close();
  }
  await s.servers.stop();
  assert.equal(existsSync(path), false);
});

test('a socket left behind is replaced; one in use, or another file, is not', async (t) => {
  const path = join(temporaryDirectory(t), 's');
  const leave = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
  await new Promise((resolve) => spawn(process.execPath, ['-e', leave]).once('exit', resolve));
  assert.ok(existsSync(path));
  const s = await startAt([`unix:${path}`]);
  await assert.rejects(startAt([`unix:${path}`]), isInvalid(/another process listens/));
  assert.equal(await closePort(path), 0, 'the first still serves');
  await s[Symbol.asyncDispose]();
  writeFileSync(path, 'precious');
  await assert.rejects(startAt([`unix:${path}`]), isInvalid(/no socket/));
  assert.equal(statSync(path).size, 8);
});

test('an address in use is named if there is no other, and does not close the others', async (t) => {
  const blocker = createNetServer();
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
  try {
    const address = blocker.address();
    const taken = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
    await assert.rejects(startAt([taken]), isInvalid(new RegExp(`cannot listen on ${taken}`)));
    const path = join(temporaryDirectory(t), 's');
    await using s = await startAt([taken, `unix:${path}`]);
    assert.deepEqual(s.servers.faults(), [`NOT LISTENING on ${taken}`]);
    assert.equal(await closePort(path), 0);
  } finally {
    blocker.close();
  }
});

test('listens on IPv6 loopback where there is one', async (t) => {
  const probe = createHttp2Server();
  const has = await new Promise<boolean>((resolve) => {
    probe.once('error', () => resolve(false));
    probe.listen(0, '::1', () => resolve(true));
  });
  probe.close();
  if (!has) return t.skip('no IPv6 here');
  await using s = await startTestServer({ grpc: { listen: ['[::1]:0'] } });
  assert.match(s.address, /^\[::1\]:\d+$/);
  assert.equal((await s.client(SerialServiceDefinition).close({})).status, 0);
});

/** The answer to a Close on a Unix socket. */
async function closePort(path: string): Promise<number> {
  const channel = createChannel(`unix://${path}`, undefined, local);
  const { status } = await createClient(SerialServiceDefinition, channel).close({});
  channel.close();
  return status;
}

function isInvalid(text: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && error.code === 'CONFIG_INVALID' && text.test(error.message);
}
