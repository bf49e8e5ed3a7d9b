import assert from 'node:assert/strict';
import { test } from 'node:test';
import Long from 'long';
import { createChannel, createClient, Metadata, Status } from 'nice-grpc';
import { hasStatus, startTestServer } from '../../../test/grpc/fakes.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { SerialServiceDefinition, serial } from '../../shared/proto/services.ts';
import { LOG_ID_HEADER } from './serial-service.ts';

const { StatusCode } = serial;

async function setUp() {
  const server = await startTestServer();
  return { ...server, client: server.client(SerialServiceDefinition) };
}

const failures = [
  ['INVALID_ARGUMENT', StatusCode.INVALID_ARGUMENT],
  ['SETTING_REFUSED', StatusCode.INVALID_ARGUMENT],
  ['PORT_NOT_FOUND', StatusCode.NOT_FOUND],
  ['PORT_BUSY', StatusCode.INTERNAL_ERROR],
  ['PORT_PERMISSION', StatusCode.INTERNAL_ERROR],
  ['PORT_IO', StatusCode.INTERNAL_ERROR],
  ['NOT_CONNECTED', StatusCode.NOT_CONNECTED],
  ['QUEUE_FULL', StatusCode.INTERNAL_ERROR],
  ['WRITE_TIMEOUT', StatusCode.INTERNAL_ERROR],
] as const;
test('Open and SendPacket answer the status of the contract for each failure, with what to do, SendPacket with its seq_id', async () => {
  await using s = await setUp();
  for (const [code, status] of failures) {
    s.line.failure = new LinesideError(code, 'it is so', { hint: 'do this' });
    const opened = await s.client.open({ portName: 'x' });
    const sent = await s.client.sendPacket({ seqId: Long.MAX_UNSIGNED_VALUE, payload: Buffer.from('x') });
    for (const answer of [opened, sent])
      assert.deepEqual([answer.status, answer.error], [status, 'it is so (do this)']);
    assert.equal(sent.echoSeqId.toString(), '18446744073709551615');
  }
});

test('SendPacket hands over a copy of the payload', async () => {
  await using s = await setUp();
  await s.client.sendPacket({ payload: Buffer.from([1, 2, 255]) });
  assert.equal(s.line.sends[0]?.payload.buffer.byteLength, 3, 'its own memory, not a view on the frame');
});

test('SendPacket passes on the deadline, with room for the way back, and whose connection it is', async () => {
  await using s = await setUp();
  // Channels to one address share a connection by default.
  const other = createChannel(s.address, undefined, { 'grpc.use_local_subchannel_pool': 1 });
  try {
    const before = performance.now();
    const soon = AbortSignal.timeout(60_000);
    await s.client.sendPacket({ payload: Buffer.from('x') }, { signal: soon, metadata: grpcTimeout('2S') });
    await s.client.sendPacket({ payload: Buffer.from('x') }, { metadata: forged() });
    await createClient(SerialServiceDefinition, other).sendPacket({ payload: Buffer.from('x') });
    const [timed, same, different] = s.line.sends;
    assert.ok(timed?.deadlineMs !== undefined && timed.deadlineMs < performance.now() + 1_950);
    assert.ok(timed.deadlineMs > before + 1_000);
    assert.equal(same?.deadlineMs, undefined);
    assert.equal(timed.caller, same?.caller);
    assert.notEqual(timed.caller, different?.caller);
  } finally {
    other.close();
  }
});

/** nice-grpc has no deadline option of its own; the header is what every gRPC client sends. */
function grpcTimeout(value: string): Metadata {
  return Metadata({ 'grpc-timeout': value });
}
function forged(): Metadata {
  return Metadata({ 'lineside-internal-caller': 'somebody else', 'lineside-internal-deadline': '1' });
}

test('the client gets no detail of an unforeseen failure, and the log of the service has all', async () => {
  const { logger, lines } = recordingLogger();
  await using server = await startTestServer({}, logger);
  server.line.failure = new TypeError('secret detail');
  const client = server.client(SerialServiceDefinition);
  await assert.rejects(client.listDevices({}), hasStatus(Status.INTERNAL, /^internal failure/));
  assert.match((await client.open({})).error, /^internal failure/);
  assert.equal(lines.length, 2);
  assert.match(lines[0] ?? '', /secret detail/);
});

test('StreamLog sends its headers at once, then live entries only', { timeout: 10_000 }, async () => {
  await using s = await setUp();
  s.log.record(1, 1, Buffer.from('old'));
  const standing = Promise.withResolvers<string | undefined>();
  const cancel = new AbortController();
  const stream = s.client.streamLog(
    {},
    { signal: cancel.signal, onHeader: (header) => standing.resolve(header.get(LOG_ID_HEADER)) },
  );
  const iterator = stream[Symbol.asyncIterator]();
  const first = iterator.next();
  assert.equal(await standing.promise, 'log-1');
  s.log.record(0, 2, Buffer.from('new'), 'a note');
  const { value } = await first;
  assert.equal(Buffer.from(value?.rawData ?? []).toString(), 'new');
  assert.deepEqual([value?.dir, value?.timestamp.toNumber(), value?.note], [0, 2, 'a note']);
  cancel.abort();
  await assert.rejects(iterator.next());
  await until('the reader is freed', () => s.log.readers === 0);
});

test('StreamLog says when entries were lost', async () => {
  await using s = await setUp();
  s.log.failure = new LinesideError('LOG_LOST', '17 entries are gone');
  const first = s.client.streamLog({ fromStart: true })[Symbol.asyncIterator]().next();
  await assert.rejects(first, hasStatus(Status.DATA_LOSS, /17 entries/));
});
