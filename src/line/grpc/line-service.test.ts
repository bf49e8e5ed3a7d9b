import assert from 'node:assert/strict';
import { test } from 'node:test';
import Long from 'long';
import { Metadata, Status } from 'nice-grpc';
import { hasStatus, startTestServer } from '../../../test/grpc/fakes.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import {
  CALLER_NAME_HEADER,
  LineServiceDefinition,
  lineside,
  SerialServiceDefinition,
  serial,
} from '../../shared/proto/services.ts';
import { LOG_ID_HEADER } from './serial-service.ts';

async function setUp() {
  const server = await startTestServer();
  return { ...server, client: server.client(LineServiceDefinition) };
}

test('GetStatus reports the state of the line, the log and the service', async () => {
  await using s = await setUp();
  const framing = { baudRate: 9600, dataBits: 8, parity: 0, stopBits: 0 } as const;
  s.line.config = { portName: 'p', ...framing, packetSize: 0, flowControl: 2, rxGapMs: 7 };
  s.log.record(1, 1, Buffer.from('x'));
  const status = await s.client.getStatus({});
  assert.equal(status.portState, lineside.v1.PortState.PORT_STATE_OPEN);
  assert.equal(status.requested?.portName, 'p');
  const { requestedFlowControl, requestedRxGapMs, rxGapAsked, maxPayloadBytes } = status;
  assert.deepEqual([requestedFlowControl, requestedRxGapMs, rxGapAsked, maxPayloadBytes], [2, 7, true, 65_536]);
  assert.equal(status.counters?.rxBytes.toString(), String(2 ** 40));
  assert.deepEqual([status.version, status.portStateAgeMs.toNumber()], ['1.2.3', 12]);
  assert.deepEqual([status.receivedAgeMs.toNumber(), status.sentAgeMs.toNumber()], [3_000, 0]);
  assert.deepEqual([status.log?.logId, status.log?.headId.toNumber()], ['log-1', 1]);
  assert.ok(status.residentBytes.toNumber() > 1_000_000);
});

test('the name that a caller gives counts on a Unix socket alone', async () => {
  await using s = await startTestServer();
  const metadata = new Metadata({ [CALLER_NAME_HEADER]: 'alice' });
  await s.client(SerialServiceDefinition).open({ portName: 'p' }, { metadata });
  assert.deepEqual(s.line.askedBy, ['local']);
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
  assert.deepEqual(await ask({ storedOnly: true, asStored: true }), {
    ...none,
    after: 0,
    storedOnly: true,
    asStored: true,
  });
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
  ['as_stored without stored_only', { asStored: true }, Status.INVALID_ARGUMENT, /as_stored/],
  [
    'as_stored with a filter',
    { asStored: true, storedOnly: true, limit: Long.fromNumber(1, true) },
    Status.INVALID_ARGUMENT,
    /as_stored/,
  ],
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
