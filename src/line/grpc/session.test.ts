import assert from 'node:assert/strict';
import { test } from 'node:test';
import Long from 'long';
import { Status } from 'nice-grpc';
import { hasStatus, Requests, startTestServer } from '../../../test/grpc/fakes.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { LineServiceDefinition, lineside } from '../../shared/proto/services.ts';
import type { LineListener } from '../port/line.ts';
import { ErrorMapper } from './error-mapper.ts';
import { MAX_SESSION_OUTSTANDING, MAX_UNREAD_BYTES } from './limits.ts';
import { LineHold } from './line-hold.ts';
import type { ServiceContext } from './serial-service.ts';
import { Session } from './session.ts';
import type { Subscription } from './subscriptions.ts';

type SessionRequest = lineside.v1.SessionRequest.$Properties;

async function setUp() {
  const server = await startTestServer();
  return { ...server, client: server.client(LineServiceDefinition) };
}

function packet(n: number): SessionRequest {
  return { send: { seqId: Long.fromNumber(n, true), payload: Buffer.from([n]) } };
}

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

test('a break that is ended while it waits for its turn ends when it has begun', async () => {
  await using s = await setUp();
  const turn = Promise.withResolvers<void>();
  const seen: string[] = [];
  const beginBreak = async (): Promise<void> => {
    await turn.promise;
    seen.push('begins');
  };
  Object.assign(s.line, { openPort: () => ({ beginBreak, device: { endBreak: () => seen.push('ends') } }) });
  const requests = new Requests({ command: { break: true } }, { command: { break: false } });
  const stream = s.client.session(requests)[Symbol.asyncIterator]();
  const answers = [stream.next(), stream.next()];
  await s.client.getStatus({});
  turn.resolve();
  await Promise.all(answers);
  assert.deepEqual(seen, ['begins', 'ends']);
  requests.end();
});

test('a modem line that differs is one change, counted then, later or never; a blink is one where it is counted', async () => {
  await using s = await setUp();
  const none = { cts: 0, dsr: 0, dcd: 0, ri: 0 };
  const low = { dtr: true, rts: true, cts: false, dsr: false, dcd: false, ri: false };
  const states = [
    { lines: low, changes: none },
    { lines: { ...low, cts: true }, changes: none },
    { lines: { ...low, cts: true }, changes: { ...none, dsr: 2 } },
    { lines: { ...low, cts: true }, changes: { ...none, dsr: 2, cts: 1 } },
    { lines: low, changes: { ...none, dsr: 2, cts: 2 } },
  ];
  const modemState = () => (states.length > 1 ? states.shift() : states[0]);
  Object.assign(s.line, { openPort: () => ({ modemState }) });
  const requests = new Requests({ receive: { modemLines: true } });
  const seen: unknown[] = [];
  for await (const { event } of s.client.session(requests)) {
    const change = event?.modemLines;
    if (change != null) seen.push([change.lines?.cts, change.changes?.cts ?? 0, change.changes?.dsr ?? 0]);
    if (seen.length === 4) break;
  }
  assert.deepEqual(seen, [
    [false, 0, 0],
    [true, 1, 0],
    [true, 0, 2],
    [false, 1, 0],
  ]);
  requests.end();
});

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

const badSessions: [string, SessionRequest[], RegExp][] = [
  ['an empty request', [{}], /neither send, log, receive nor command/],
  ['a second log', [{ log: { follow: true } }, { log: {} }], /begun/],
  [
    'received bytes after a log that has begun',
    [{ log: { follow: true } }, { receive: { afterLog: true } }],
    /after_log/,
  ],
  ['received bytes after a log that ends', [{ receive: { afterLog: true } }, { log: {} }], /log\.follow/],
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

test('a Session that has failed does nothing more of what was read: a hold would have no end', async () => {
  const clock = new FakeClock();
  const listeners: LineListener[] = [];
  const line = {
    listen: (listener: LineListener) => {
      listeners.push(listener);
      return () => {};
    },
    snapshot: () => ({ state: 'open' }),
  };
  const hold = new LineHold(clock, silentLogger, { event() {} }, () => {});
  const parts = { line, hold, clock, errorMapper: new ErrorMapper(silentLogger) } as unknown as ServiceContext;
  const subscription = { signal: new AbortController().signal } as Subscription;
  const room = Promise.withResolvers<void>();
  const session = new Session(parts, { stream: 's', name: 'alice' }, subscription, {
    send: () => room.promise,
    endStalled: () => {},
  });
  const later = Promise.withResolvers<void>();
  const requests = (async function* () {
    yield lineside.v1.SessionRequest.fromObject({ receive: {} });
    await later.promise;
    yield lineside.v1.SessionRequest.fromObject({ command: { hold: {} } });
  })();
  const ended = session.run(requests);
  await until('it receives', () => listeners.length === 1);
  for (let n = 0; n < 2; n++) listeners[0]?.received(Buffer.alloc(MAX_UNREAD_BYTES));
  room.resolve();
  await assert.rejects(ended, { code: 'LOG_LOST' });
  later.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(hold.holder(), undefined);
});
