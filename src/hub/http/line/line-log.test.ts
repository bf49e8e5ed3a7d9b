import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type LogReader, lines } from '../../../../test/e2e/log-stream.ts';
import { RX, TX } from '../../../line/log/entry.ts';
import { addToken, revokeToken } from '../../../shared/auth/token-file.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { until, within } from '../../../shared/base/wait.fixture.ts';
import { lineside } from '../../../shared/proto/services.ts';
import { LOG_STREAMS, MAX_LOG_ENTRIES, SLOW_STALLED_MS, STREAM_ALIVE_MS, STREAM_REAUTHENTICATE_MS } from '../limits.ts';
import { type LineServer, startWithLine } from './line.fixture.ts';
import { batchLines, LogStreams } from './line-log.ts';

const ids = (reader: LogReader): (number | undefined)[] => reader.of('entry').map(({ id }) => id);
/** The stream is silent once it waits: the first step that makes it speak proves it. */
async function signsOfLife(clock: FakeClock, reader: LogReader, more: number): Promise<void> {
  const wanted = reader.of('alive').length + more;
  await until('a sign of life', async () => {
    clock.advance(STREAM_ALIVE_MS);
    // The line is asked first: time that does not advance leaves it all it needs.
    const had = reader.of('alive').length;
    for (let turn = 0; turn < 100 && reader.of('alive').length === had; turn += 1) await new Promise(setImmediate);
    return reader.of('alive').length >= wanted;
  });
}

/** Until the box has answered 50 questions without taking anything more from the log: its buffers are full. */
async function stalls({ log, call, tokens }: LineServer): Promise<void> {
  let before = -1;
  let still = 0;
  await until('nothing more is taken from the log', async () => {
    await call('GET', '/api/v1/whoami', { token: tokens.viewer });
    still = log.delivered > 0 && log.delivered === before ? still + 1 : 0;
    before = log.delivered;
    return still === 50;
  });
}

const ended = (reader: LogReader): Promise<true> => until('the stream ends', () => reader.hasEnded());

describe('a search of the log', () => {
  it('is the matches and the progress of the line, then its end; it is refused as a problem', async (t) => {
    const { log, call, tokens } = await startWithLine(t);
    const search = async (query: string) => {
      const { status, text, json } = await call('GET', `/api/v1/line/log/search?${query}`, { token: tokens.viewer });
      return status === 200
        ? text
            .trim()
            .split('\n')
            .map((one) => JSON.parse(one) as object)
        : json;
    };
    const match = {
      entryId: 3,
      offset: 2,
      length: 5,
      throughId: 4,
      dir: RX,
      timestampMs: 1_700,
      clock: undefined,
    } as const;
    const part = { matches: [], entries: 0, bytes: 0, throughId: 1, upTo: 9 };
    log.parts = [
      part,
      { ...part, matches: [match], entries: 4, bytes: 70, throughId: 4, end: { reason: 'limit', error: '' } },
    ];
    const head = { type: 'log', logId: 'log-1' };
    const progress = { type: 'progress', entries: 0, bytes: 0, positionId: 1, throughId: 9 };
    assert.deepEqual(await search('text=ERROR&ignoreCase=true&after=2&dir=rx&sinceMs=5&untilMs=7&limit=1'), [
      head,
      progress,
      {
        type: 'match',
        entryId: 3,
        offset: 2,
        length: 5,
        throughEntryId: 4,
        dir: 'rx',
        timestampMs: 1_700,
        clock: 'unknown',
      },
      { type: 'progress', entries: 4, bytes: 70, positionId: 4, throughId: 9 },
      { type: 'done', reason: 'limit', resumeAfterId: 4 },
    ]);
    const { pattern: _, ...asked } = log.searched[0] ?? assert.fail('nothing was searched');
    assert.deepEqual(asked, { after: 2, dir: RX, sinceMs: 5, untilMs: 7, limit: 1 });
    log.parts = [part, { ...part, end: { reason: 'failed', error: 'the card is gone' } }];
    const failed = { type: 'end', code: 'NOT_READY', message: 'the card is gone' };
    assert.deepEqual(await search('regex=a'), [head, progress, progress, failed]);
    const refused = async (query: string) => JSON.stringify(await search(query));
    assert.match(await refused('text=a&hex=00'), /text, hex and regex: send exactly one of them/);
    assert.match(await refused('dir=rx'), /text, hex and regex: send exactly one of them/);
    assert.match(await refused('text=a&after=2&logId=log-0'), /"code":"LOG_REPLACED"/);
    log.failure = new LinesideError('TOO_MANY', 'another search of the log is running');
    assert.match(await refused('hex=00'), /"code":"TOO_MANY"/);
  });

  it('has a histogram of the entries of a time', async (t) => {
    const { log, call, tokens } = await startWithLine(t);
    const histogram = (query: string) => call('GET', `/api/v1/line/log/histogram${query}`, { token: tokens.viewer });
    const bucket = { rxEntries: 1, txBytes: 2, rxBytes: 3 };
    assert.deepEqual((await histogram('?sinceMs=5&untilMs=7&buckets=2')).json, {
      sinceMs: 1,
      untilMs: 2,
      isEstimate: true,
      buckets: [
        { txEntries: 0, ...bucket },
        { txEntries: 1, ...bucket },
      ],
    });
    await histogram('');
    assert.deepEqual(log.counted, [
      { sinceMs: 5, untilMs: 7, buckets: 2 },
      { sinceMs: undefined, untilMs: undefined, buckets: 100 },
    ]);
    for (const [query, fault] of [
      ['?buckets=201', /buckets/],
      ['?sinceMs=8&untilMs=7', /since_ms: is after until_ms/],
      ['?since=8', /since/],
    ] as const) {
      const { status, text } = await histogram(query);
      assert.deepEqual([status, fault.test(text)], [422, true], text);
    }
  });
});

describe('a page of the log', () => {
  it('has each entry as it is stored, and the position from which to continue', async (t) => {
    const { log, read } = await startWithLine(t);
    log.record(RX, 1_700_000_000_001, Uint8Array.from([0, 255, 10]));
    log.record(TX, 1_700_000_000_002, Buffer.from('"quoted"\n'), 'a note: ünïcode "q"\n');
    const reader = await read('after=0');
    await ended(reader);
    assert.equal(reader.status, 200);
    assert.equal(reader.headers['content-type'], 'application/x-ndjson');
    assert.deepEqual(reader.lines, [
      { type: 'log', logId: 'log-1', headId: 2 },
      {
        type: 'entry',
        id: 1,
        dir: 'rx',
        timestampMs: 1_700_000_000_001,
        clock: 'unknown',
        data: Buffer.from([0, 255, 10]).toString('base64'),
        note: '',
      },
      {
        type: 'entry',
        id: 2,
        dir: 'tx',
        timestampMs: 1_700_000_000_002,
        clock: 'unknown',
        data: Buffer.from('"quoted"\n').toString('base64'),
        note: 'a note: ünïcode "q"\n',
      },
      { type: 'position', nextAfterId: 2 },
    ]);
  });

  it('asks the line for exactly what was asked for', async (t) => {
    const { log, read } = await startWithLine(t);
    const bounds = 'sinceMs=1700000000000&untilMs=1700000060000&limit=2';
    for (const query of [
      '',
      'after=7&limit=3&dir=rx',
      'last=5&dir=tx',
      'last=5&follow=true',
      'follow=true&after=9',
      bounds,
    ]) {
      const reader = await read(query);
      assert.equal(reader.status, 200, query);
      await lines(reader, 'log', 1);
      reader.close();
    }
    const [within] = log.requests.splice(-1);
    assert.deepEqual([within?.sinceMs, within?.untilMs].map(Number), [1_700_000_000_000, 1_700_000_060_000]);
    const asked = log.requests.map(({ after, follow, dir, limit }) => ({ after, follow, dir, limit }));
    assert.deepEqual(asked, [
      { after: 0, follow: false, dir: undefined, limit: MAX_LOG_ENTRIES },
      { after: 7, follow: false, dir: RX, limit: 3 },
      { after: 'last', follow: false, dir: TX, limit: 5 },
      { after: 'last', follow: true, dir: undefined, limit: 5 },
      { after: 9, follow: true, dir: undefined, limit: undefined },
    ]);
  });

  it('refuses what contradicts itself', async (t) => {
    const { call, tokens, log } = await startWithLine(t);
    for (const query of [
      'after=1&last=2',
      'limit=1&follow=true',
      'limit=1&last=2',
      'last=0',
      `limit=${MAX_LOG_ENTRIES + 1}`,
      'after=-1',
      'follow=yes',
      'dir=both',
      'since=1',
      'sinceMs=-1',
      'untilMs=2030-01-01T00:00:00Z',
    ]) {
      const { status } = await call('GET', `/api/v1/line/log?${query}`, { token: tokens.viewer });
      assert.equal(status, 422, query);
    }
    assert.deepEqual(log.requests, []);
  });

  it('of HEAD has no body and asks the line for nothing', async (t) => {
    const { call, tokens, log } = await startWithLine(t);
    const { status, text } = await call('HEAD', '/api/v1/line/log?follow=true', { token: tokens.viewer });
    assert.deepEqual([status, text], [200, '']);
    assert.deepEqual(log.requests, []);
  });

  it('reports lost entries in their place', () => {
    const entry = (id: number) => ({
      id,
      entry: { dir: 1, timestamp: 5, rawData: Buffer.from('x'), note: '' },
      clock: 2,
    });
    const gap = (firstId: number, lastId: number) => ({ firstId, lastId, entries: 2, bytes: 9, reason: 'disk full' });
    const batch = lineside.v1.LogBatch.fromObject({
      entries: [entry(5), entry(9)],
      gaps: [gap(1, 4), gap(6, 8), gap(10, 12)],
      nextAfterId: 12,
    });
    const shown = [...batchLines(batch)].map((line) => Object.values(line).slice(0, 3).join(' '));
    assert.deepEqual(shown, ['gap 1 4', 'entry 5 rx', 'gap 6 8', 'entry 9 rx', 'gap 10 12', 'position 12']);
    assert.deepEqual([...batchLines(batch)][1], {
      type: 'entry',
      id: 5,
      dir: 'rx',
      timestampMs: 5,
      clock: 'notSet',
      data: 'eA==',
      note: '',
    });
  });
});

describe('a follower of the log', () => {
  it('gets what is stored and what appears, each once, and a sign of life while nothing does', async (t) => {
    const clock = new FakeClock();
    const { log, read } = await startWithLine(t, { parts: { clock } });
    log.record(RX, 1, Buffer.from('stored'));
    const reader = await read('follow=true&after=0');
    await lines(reader, 'entry', 1);
    log.record(RX, 2, Buffer.from('live'));
    await lines(reader, 'entry', 2);
    await signsOfLife(clock, reader, 2);
    log.record(TX, 3, Buffer.from('later'));
    await lines(reader, 'entry', 3);
    assert.deepEqual(ids(reader), [1, 2, 3]);
    assert.equal(reader.hasEnded(), false);
  });

  it('gets no sign of life while the line hangs: silence of that is no silence on the line', async (t) => {
    const clock = new FakeClock();
    const { log, read } = await startWithLine(t, { parts: { clock } });
    const reader = await read('follow=true&after=0');
    await signsOfLife(clock, reader, 1);
    let asked = 0;
    log.status = () => {
      asked += 1;
      return new Promise(() => {});
    };
    const before = reader.of('alive').length;
    await until('the line is asked again and again', () => {
      clock.advance(STREAM_ALIVE_MS);
      return asked > 3;
    });
    // One may have been in flight.
    assert.ok(reader.of('alive').length <= before + 1);
    assert.equal(reader.hasEnded(), false);
  });

  it('that disconnects ends its stream of the line at once', async (t) => {
    // A clock that does not advance: nothing but the end of the connection can end it.
    const { log, read } = await startWithLine(t, { parts: { clock: new FakeClock() } });
    const reader = await read('follow=true');
    await until('the line is read', () => log.readers === 1);
    reader.close();
    await until('it is not any more', () => log.readers === 0);
  });

  it('that is gone before its stream begins leaves no place taken', async (t) => {
    const { log, read, port, tokens } = await startWithLine(t);
    const asked = `GET /api/v1/line/log?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.viewer}\r\n\r\n`;
    const goes = (turns: number): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(asked));
        socket.on('error', () => {});
        socket.once('close', () => resolve());
        // Each leaves at another step of what the service does for it.
        const leave = (left: number): unknown => (left === 0 ? socket.destroy() : setImmediate(leave, left - 1));
        socket.once('connect', () => leave(turns));
      });
    for (let turns = 0; turns < 60; turns += 1) await goes(turns);
    await until('the line has no reader', () => log.readers === 0);
    for (let i = 0; i < LOG_STREAMS.follow.perReader; i += 1) {
      await until('a place', async () => (await read('follow=true')).status === 200);
    }
  });

  it('gets the reason when the line ends the stream', async (t) => {
    const { log, read } = await startWithLine(t);
    log.record(RX, 1, Buffer.from('x'));
    const reader = await read('follow=true');
    await lines(reader, 'entry', 1);
    log.fail(new LinesideError('LOG_LOST', '17 entries are gone'));
    await ended(reader);
    assert.deepEqual(reader.lines.at(-1), { type: 'end', code: 'LOG_LOST', message: '17 entries are gone' });
  });

  it('gets the reason when the line disconnects', async (t) => {
    const { log, read, stopLine } = await startWithLine(t);
    log.record(RX, 1, Buffer.from('x'));
    const reader = await read('follow=true');
    await lines(reader, 'entry', 1);
    await stopLine();
    await ended(reader);
    assert.deepEqual([reader.lines.at(-1)?.type, reader.lines.at(-1)?.code], ['end', 'NOT_READY']);
  });

  it('gets the reason when its token is revoked, and nothing after that', async (t) => {
    const clock = new FakeClock();
    const { logger, lines: logged } = recordingLogger();
    const { log, read, dir } = await startWithLine(t, { logger, parts: { clock } });
    const reader = await read('follow=true', 'viewer');
    const other = await read('follow=true', 'operator');
    await until('both are read', () => log.readers === 2);
    revokeToken(join(dir, 'tokens.json'), 'viewer');
    await until('its stream ends', () => {
      clock.advance(STREAM_REAUTHENTICATE_MS);
      return reader.hasEnded();
    });
    assert.deepEqual([reader.lines.at(-1)?.type, reader.lines.at(-1)?.code], ['end', 'UNAUTHENTICATED']);
    assert.match(logged.join('\n'), /refused a caller .*"viewer 127\.0\.0\.1".*or it was revoked/);
    await until('the line is not read for it any more', () => log.readers === 1);
    log.record(RX, 1, Buffer.from('secret'));
    await lines(other, 'entry', 1);
    assert.equal(reader.of('entry').length, 0);
  });

  it('gets the reason when the service stops, which does not wait for it', async (t) => {
    const { http, log, read } = await startWithLine(t, { parts: { clock: new FakeClock() } });
    const reader = await read('follow=true');
    await until('the line is read', () => log.readers === 1);
    // By a clock that does not advance the grace never ends: the stop is over when the streams are.
    await within('the stop', http.stop());
    await ended(reader);
    assert.deepEqual([reader.lines.at(-1)?.type, reader.lines.at(-1)?.code], ['end', 'SHUTTING_DOWN']);
  });
});

describe('readers of the log', () => {
  it('are bounded for each caller and in all, and one that goes makes room', async (t) => {
    const { read, call, tokens, log, dir } = await startWithLine(t);
    const { perReader, inAll } = LOG_STREAMS.follow;
    const owners = ['viewer', 'operator', 'admin', 'extra'];
    assert.equal(owners.length * perReader, inAll);
    const extra = addToken(join(dir, 'tokens.json'), 'extra', ['viewer'], new Date());
    const refused = async (token: string | undefined, query: string): Promise<boolean> => {
      const { status, json } = await call('GET', `/api/v1/line/log?${query}`, { token });
      if (status === 429) assert.equal(json.code, 'TOO_MANY');
      return status === 429;
    };
    const open: LogReader[] = [];
    for (const owner of owners.slice(0, 3)) {
      for (let i = 0; i < perReader; i += 1) open.push(await read('follow=true', owner));
      assert.ok(await refused(tokens[owner], 'follow=true'), owner);
    }
    await until('the line is read for each', () => log.readers === 3 * perReader);
    assert.ok(open.every(({ status }) => status === 200));
    // Pages have room of their own.
    assert.equal(await refused(tokens.viewer, 'last=1'), false);
    open[0]?.close();
    await until('there is room', () => log.readers === 3 * perReader - 1);
    assert.equal((await read('follow=true', 'viewer')).status, 200);
    assert.equal(await refused(extra, 'limit=1'), false);
  });

  it('are bounded in pages too, which a slow one reads for as long as it takes', async (t) => {
    const { log, read, call, tokens } = await startWithLine(t);
    const data = new Uint8Array(2 * 1024);
    for (let i = 0; i < MAX_LOG_ENTRIES; i += 1) log.record(RX, i, data);
    const { perReader, inAll } = LOG_STREAMS.page;
    const refused = async (who: string): Promise<boolean> =>
      (await call('GET', '/api/v1/line/log?limit=1', { token: tokens[who] })).status === 429;
    const open: LogReader[] = [];
    for (const owner of ['viewer', 'operator']) {
      for (let i = 0; i < perReader; i += 1) open.push(await read('after=0', owner, true));
      assert.ok(await refused(owner), owner);
    }
    assert.equal(open.length, inAll);
    assert.ok(await refused('admin'));
    for (const reader of open.slice(1)) reader.close();
    await until('there is room', async () => !(await refused('admin')));
    open[0]?.resume();
    await until('the slow one has all of it', () => open[0]?.hasEnded(), 60_000);
    assert.equal(open[0]?.of('entry').length, MAX_LOG_ENTRIES);
    assert.deepEqual(open[0]?.lines.at(-1), { type: 'position', nextAfterId: MAX_LOG_ENTRIES });
  });

  it('may take nothing for minutes, as over a slow link, but not for ever', async (t) => {
    const clock = new FakeClock();
    const server = await startWithLine(t, { parts: { clock } });
    const { log, read } = server;
    const data = new Uint8Array(2 * 1024);
    for (let i = 0; i < MAX_LOG_ENTRIES; i += 1) log.record(RX, i, data);
    const patient = await read('after=0', 'viewer', true);
    await stalls(server);
    assert.equal(patient.hasEnded(), false);
    clock.advance(SLOW_STALLED_MS - 60_000);
    patient.resume();
    await until('all of it', () => patient.hasEnded(), 60_000);
    assert.equal(patient.of('entry').length, MAX_LOG_ENTRIES);

    log.delivered = 0;
    const gone = await read('after=0', 'viewer', true);
    await stalls(server);
    assert.equal(gone.hasEnded(), false);
    await until('the line is not read for it any more', () => {
      clock.advance(SLOW_STALLED_MS / 2);
      return log.readers === 0;
    });
    gone.resume();
    await until('it is disconnected', () => gone.hasEnded(), 60_000);
    assert.ok(gone.of('entry').length < MAX_LOG_ENTRIES);
  });
});

it('a request that was admitted before the stop opens no stream after it', () => {
  const clock = new FakeClock();
  const streams = new LogStreams(clock, () => {});
  const request = { kind: 'follow', reader: 'anna 10.0.0.1', authenticate: async () => {} } as const;
  const open = streams.open(request);
  streams.endAll(new LinesideError('SHUTTING_DOWN', 'the service is stopping'));
  assert.equal((open.signal.reason as LinesideError).code, 'SHUTTING_DOWN');
  assert.throws(() => streams.open(request), { code: 'SHUTTING_DOWN' });
  open.close();
  assert.equal(streams.count('follow'), 0);
  assert.equal(clock.pendingTimers, 0);
});
