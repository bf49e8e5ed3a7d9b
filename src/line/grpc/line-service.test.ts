import assert from 'node:assert/strict';
import { test } from 'node:test';
import Long from 'long';
import { Status } from 'nice-grpc';
import { hasStatus, Requests, startTestServer } from '../../../test/grpc/fakes.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { LineServiceDefinition, lineside, serial } from '../../shared/proto/services.ts';
import { MAX_SESSION_OUTSTANDING } from './limits.ts';
import { LOG_ID_HEADER } from './serial-service.ts';

type SessionRequest = lineside.v1.SessionRequest.$Properties;

async function setUp() {
  const server = await startTestServer();
  return { ...server, client: server.client(LineServiceDefinition) };
}

function packet(n: number): SessionRequest {
  return { send: { seqId: Long.fromNumber(n, true), payload: Buffer.from([n]) } };
}

test('GetStatus reports the state of the line, the log and the service', async () => {
  await using s = await setUp();
  await s.line.open({ portName: 'p', baudRate: 9600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 });
  s.log.record(1, 1, Buffer.from('x'));
  const status = await s.client.getStatus({});
  assert.equal(status.portState, lineside.v1.PortState.PORT_STATE_OPEN);
  assert.equal(status.requested?.portName, 'p');
  assert.equal(status.counters?.rxBytes.toString(), String(2 ** 40));
  assert.deepEqual([status.version, status.portStateAgeMs.toNumber()], ['1.2.3', 12]);
  assert.deepEqual([status.log?.logId, status.log?.headId.toNumber()], ['log-1', 1]);
  assert.ok(status.residentBytes.toNumber() > 1_000_000);
});

test('modem lines and break reach the line; a port without them is UNIMPLEMENTED', async () => {
  await using s = await setUp();
  const lines = await s.client.setModemLines({ rts: true });
  assert.deepEqual([lines.dtr, lines.rts], [true, true], 'a line that is not named stays as it is');
  const off = await s.client.setModemLines({ dtr: false });
  assert.deepEqual([off.dtr, off.rts], [false, true]);
  assert.equal((await s.client.getModemLines({})).cts, true);
  await s.client.sendBreak({ durationMs: 250 });
  assert.deepEqual(s.line.breaks, [250]);
  s.line.failure = new LinesideError('UNSUPPORTED', 'a PTY has no modem lines');
  await assert.rejects(s.client.getModemLines({}), hasStatus(Status.UNIMPLEMENTED, /PTY/));
  s.line.failure = new LinesideError('NOT_CONNECTED', 'no port is open');
  await assert.rejects(s.client.sendBreak({ durationMs: 1 }), hasStatus(Status.FAILED_PRECONDITION, /^NOT_CONNECTED/));
});

test('ReadLog gives batches with ids, the log id in the first only, and ends', async () => {
  await using s = await setUp();
  s.log.runEntries = 700;
  for (let i = 1; i <= 1_000; i++) s.log.record(1, i, Buffer.from([i % 256]));
  const batches: lineside.v1.LogBatch[] = [];
  let logId: string | undefined;
  const stream = s.client.readLog(
    {},
    {
      onHeader: (header) => {
        logId = header.get(LOG_ID_HEADER);
      },
    },
  );
  for await (const batch of stream) batches.push(batch);
  assert.equal(logId, 'log-1');
  assert.deepEqual(
    batches.map((batch) => [batch.entries.length, batch.logId, batch.nextAfterId.toNumber(), batch.bootId]),
    [
      [512, 'log-1', 512, 'boot-1'],
      [188, '', 700, 'boot-1'],
      [300, '', 1_000, 'boot-1'],
    ],
  );
  assert.deepEqual(
    batches.flatMap((b) => b.entries.map((e) => Number(e.id))),
    Array.from({ length: 1_000 }, (_, i) => i + 1),
  );
});

test('ReadLog of an empty log still says which log it is', async () => {
  await using s = await setUp();
  const batches: lineside.v1.LogBatch[] = [];
  for await (const batch of s.client.readLog({ afterId: Long.fromNumber(5, true) })) batches.push(batch);
  assert.deepEqual(
    batches.map((b) => [b.entries.length, b.logId, b.nextAfterId.toNumber()]),
    [[0, 'log-1', 5]],
  );
});

test('ReadLog hands its filters to the log', async () => {
  await using s = await setUp();
  const { Direction } = serial.SerialLogEntry;
  const n = (value: number): Long => Long.fromNumber(value, true);
  const ask = async (request: lineside.v1.ReadLogRequest.$Properties) => {
    for await (const _ of s.client.readLog(request)) break;
    return s.log.requests.at(-1);
  };
  const none = { follow: false, dir: undefined, sinceMs: undefined, untilMs: undefined, limit: undefined };
  assert.deepEqual(await ask({}), { ...none, after: 0 });
  assert.deepEqual(await ask({ dirs: [Direction.RX], sinceMs: n(5), untilMs: n(5) }), {
    ...none,
    after: 0,
    dir: 1,
    sinceMs: 5,
    untilMs: 5,
  });
  assert.deepEqual(await ask({ dirs: [Direction.RX, Direction.TX, Direction.RX] }), { ...none, after: 0 });
  assert.deepEqual(await ask({ last: true, limit: n(100_000) }), { ...none, after: 'last', limit: 100_000 });
  assert.deepEqual(await ask({ storedOnly: true }), { ...none, after: 0, storedOnly: true });
  assert.deepEqual(await ask({ afterId: Long.MAX_UNSIGNED_VALUE, logId: 'log-1' }), {
    ...none,
    after: Number.MAX_SAFE_INTEGER,
  });
});

const badReads: [string, lineside.v1.ReadLogRequest.$Properties, Status, RegExp][] = [
  ['another log', { logId: 'log-0' }, Status.OUT_OF_RANGE, /log-0/],
  ['an unknown direction', lineside.v1.ReadLogRequest.fromObject({ dirs: [2] }), Status.INVALID_ARGUMENT, /dirs: 2/],
  [
    'since after until',
    { sinceMs: Long.fromNumber(2, true), untilMs: Long.fromNumber(1, true) },
    Status.INVALID_ARGUMENT,
    /since_ms/,
  ],
  ['stored_only with follow', { storedOnly: true, follow: true }, Status.INVALID_ARGUMENT, /stored_only/],
  ['stored_only with live_only', { storedOnly: true, liveOnly: true }, Status.INVALID_ARGUMENT, /stored_only/],
  ['last without limit', { last: true }, Status.INVALID_ARGUMENT, /limit/],
  ['last with too much', { last: true, limit: Long.fromNumber(100_001, true) }, Status.INVALID_ARGUMENT, /limit/],
  [
    'last with live_only',
    { last: true, limit: Long.fromNumber(1, true), liveOnly: true },
    Status.INVALID_ARGUMENT,
    /live_only/,
  ],
];
test('ReadLog refuses a bad request, and names the field', async () => {
  await using s = await setUp();
  for (const [what, request, code, text] of badReads) {
    const first = s.client.readLog(request)[Symbol.asyncIterator]().next();
    await assert.rejects(first, hasStatus(code, text), what);
  }
  assert.equal(s.log.readers, 0);
});

test('a Session answers packets in their order, whatever the line does first', async () => {
  await using s = await setUp();
  const holds = new Map<number, () => void>();
  s.line.onSend = ({ payload }) => new Promise((resolve) => holds.set(payload[0] ?? -1, resolve));
  const requests = new Requests();
  const answers: number[] = [];
  const done = (async () => {
    for await (const { sent } of s.client.session(requests)) answers.push(Number(sent?.echoSeqId));
  })();
  requests.push(packet(1), packet(2), packet(3));
  await until('all three are with the line', () => holds.size === 3);
  assert.equal(new Set(s.line.sends.map(({ caller }) => caller)).size, 1, 'one session, one caller');
  holds.get(3)?.();
  holds.get(2)?.();
  holds.get(1)?.();
  requests.end();
  await done;
  assert.deepEqual(answers, [1, 2, 3]);
  await until('the stream is freed', () => s.log.readers === 0);
});

test('a Session takes no more packets than it may have outstanding', async () => {
  await using s = await setUp();
  const holds: (() => void)[] = [];
  s.line.onSend = () => new Promise((resolve) => holds.push(resolve));
  const total = MAX_SESSION_OUTSTANDING + 20;
  const requests = new Requests(...Array.from({ length: total }, (_, i) => packet(i)));
  requests.end();
  let answers = 0;
  const done = (async () => {
    for await (const _ of s.client.session(requests)) answers += 1;
  })();
  await until('it is full', () => s.line.sends.length === MAX_SESSION_OUTSTANDING);
  await s.client.getStatus({});
  assert.equal(s.line.sends.length, MAX_SESSION_OUTSTANDING);
  s.line.onSend = async () => {};
  for (const release of holds) release();
  await done;
  assert.equal(answers, total);
});

test('a Session carries the log beside the answers, and continues it after the last packet', async () => {
  await using s = await setUp();
  s.log.record(1, 1, Buffer.from('old'));
  const requests = new Requests();
  const cancel = new AbortController();
  const stream = s.client.session(requests, { signal: cancel.signal })[Symbol.asyncIterator]();
  requests.push({ log: { follow: true } }, packet(9));
  const seen: string[] = [];
  const next = async (): Promise<void> => {
    const { value } = await stream.next();
    if (value?.sent) seen.push(`sent ${value.sent.echoSeqId}`);
    for (const { entry } of value?.log?.entries ?? []) seen.push(Buffer.from(entry?.rawData ?? []).toString());
  };
  await next();
  await next();
  assert.deepEqual(seen.splice(0).sort(), ['old', 'sent 9']);
  requests.end();
  s.log.record(1, 2, Buffer.from('new'));
  await next();
  assert.deepEqual(seen, ['new']);
  cancel.abort();
  await assert.rejects(stream.next());
  await until('the reader is freed', () => s.log.readers === 0);
});

test('a Session ends when its log ends and the client has nothing more to send', async () => {
  await using s = await setUp();
  s.log.record(1, 1, Buffer.from('x'));
  const requests = new Requests({ log: {} });
  requests.end();
  const kinds: string[] = [];
  for await (const { log } of s.client.session(requests)) kinds.push(`${log?.logId} ${log?.entries.length}`);
  assert.deepEqual(kinds, ['log-1 1']);
});

test('a cancelled Session frees its reader and its packets', async () => {
  await using s = await setUp();
  s.line.onSend = ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new LinesideError('NOT_SENT', 'gone')));
    });
  const requests = new Requests({ log: { follow: true } }, packet(1));
  const cancel = new AbortController();
  const ended = assert.rejects(s.client.session(requests, { signal: cancel.signal })[Symbol.asyncIterator]().next());
  await until('it stands', () => s.line.sends.length === 1 && s.log.readers === 1);
  cancel.abort();
  await ended;
  await until('all is freed', () => s.log.readers === 0 && s.line.sends[0]?.signal.aborted === true);
});

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

const badSessions: [string, SessionRequest[], RegExp][] = [
  ['an empty request', [{}], /neither send nor log/],
  ['a second log', [{ log: { follow: true } }, { log: {} }], /begun/],
  ['a bad read', [{ log: { last: true } }], /limit/],
];
test('a Session ends on a bad request, and frees everything', async () => {
  await using s = await setUp();
  for (const [what, list, text] of badSessions) {
    const requests = new Requests(...list);
    await assert.rejects(drain(s.client.session(requests)), hasStatus(Status.INVALID_ARGUMENT, text), what);
    await until('all is freed', () => s.log.readers === 0);
    requests.end();
  }
});

test('a Session whose log lost entries says so', async () => {
  await using s = await setUp();
  const requests = new Requests({ log: { follow: true } });
  const ended = assert.rejects(drain(s.client.session(requests)), hasStatus(Status.DATA_LOSS, /3 entries/));
  await until('it stands', () => s.log.readers === 1);
  s.log.fail(new LinesideError('LOG_LOST', '3 entries are gone'));
  await ended;
  requests.end();
});
