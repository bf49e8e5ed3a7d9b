import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClientError, Status } from 'nice-grpc';
import { type ErrorCode, errorCatalogue, LinesideError } from '../../../shared/base/errors.ts';
import { lineside, serial } from '../../../shared/proto/services.ts';
import type { JsonObject } from '../../outbox/event.ts';
import { startWithLine } from '../line/line.fixture.ts';
import { failureOf, refusalOf } from '../line/line-calls.ts';
import { at, startTestServer } from '../server.fixture.ts';

const OPEN = { portName: '/dev/ttyFAKE0', baudRate: 19_200, dataBits: 7, parity: 'even', stopBits: 1.5 };

describe('the line over HTTP', () => {
  it('is shown as it stands', async (t) => {
    const { call, tokens, log } = await startWithLine(t);
    const answer = await call('GET', '/api/v1/line', { token: tokens.viewer });
    assert.equal(answer.status, 200);
    const json = answer.json as JsonObject;
    const { portState, requested, effective, kernel, version, clock } = json;
    assert.deepEqual(
      { portState, requested, effective, kernel, version, clock },
      {
        portState: 'closed',
        requested: null,
        effective: null,
        kernel: null,
        version: '1.2.3',
        clock: { state: 'unknown', correctedByMs: 0 },
      },
    );
    assert.equal(at(json, 'counters').rxBytes, 2 ** 40);
    assert.equal(at(json, 'counters').rxPauses, 14);
    const { commits } = await log.status();
    assert.deepEqual([at(json, 'log').state, at(json, 'log').logId, at(json, 'log').commits], ['ok', 'log-1', commits]);
  });

  it('lists its ports', async (t) => {
    const { call, tokens } = await startWithLine(t);
    const { json } = await call('GET', '/api/v1/line/ports', { token: tokens.viewer });
    assert.deepEqual(json.items, [
      { portName: '/dev/ttyFAKE0', description: 'A fake', hardwareId: 'USB VID:PID=0403:6001' },
    ]);
  });

  it('shows what happened to it: the newest, and those before a known one', async (t) => {
    const { call, tokens, log } = await startWithLine(t);
    const token = tokens.viewer;
    log.recorded = [1, 2, 3].map((id) => ({
      id,
      afterEntryId: 7,
      timestampMs: 2 ** 41 + id,
      clock: 'known',
      kind: lineside.v1.RecordedEvent.Kind.SETTINGS_CHANGED,
      by: 'ann',
      detail: '9600 8N1',
    }));
    const { json } = await call('GET', '/api/v1/line/events?limit=2', { token });
    const shown = log.recorded.map((event) => ({ ...event, kind: 'settingsChanged' }));
    assert.deepEqual(json.items, shown.slice(1));
    const before = await call('GET', '/api/v1/line/events?before=2', { token });
    assert.deepEqual(before.json.items, shown.slice(0, 1));
    assert.equal((await call('GET', '/api/v1/line/events?limit=1001', { token })).status, 422);
  });

  it('is opened as it was asked for, and closed', async (t) => {
    const { call, tokens, line } = await startWithLine(t);
    const token = tokens.operator;
    const opened = await call('POST', '/api/v1/line/open', {
      token,
      json: { ...OPEN, flowControl: 'rtscts', rxGapMs: 0 },
    });
    assert.equal(opened.status, 200, opened.text);
    assert.deepEqual(line.opens, [
      {
        portName: '/dev/ttyFAKE0',
        baudRate: 19_200,
        dataBits: 7,
        parity: 1,
        stopBits: 1,
        packetSize: 0,
        flowControl: 1,
        rxGapMs: 0,
      },
    ]);
    assert.equal(opened.json.portState, 'open');
    assert.equal(at(opened.json as JsonObject, 'requested').baudRate, 19_200);
    const closed = await call('POST', '/api/v1/line/close', { token });
    assert.deepEqual([closed.status, closed.json.portState], [200, 'closed']);
    assert.deepEqual(line.askedBy, ['operator', 'operator'], 'the line knows for whom');
  });

  it('says what is wrong with a request before the line is asked', async (t) => {
    const { call, tokens, line } = await startWithLine(t);
    const token = tokens.operator;
    const open = async (json: object): Promise<string> => {
      const answer = await call('POST', '/api/v1/line/open', { token, json });
      assert.equal(answer.status, 422);
      return String(answer.json.detail);
    };
    assert.match(await open({ ...OPEN, parity: 'odd ' }), /parity must be one of none, even, odd, mark, space/);
    assert.match(await open({ ...OPEN, flowControl: 'on' }), /flowControl must be one of none, rtscts, xonxoff/);
    assert.match(await open({ ...OPEN, stopBits: 3 }), /stopBits must be one of 1, 1\.5, 2/);
    assert.match(await open({ ...OPEN, baudRate: 2 ** 32 }), /baudRate must be a whole number from 0 to 4294967295/);
    assert.match(await open({ portName: 'x' }), /faults/);
    assert.deepEqual(line.opens, []);
  });

  it('says what it refused, each cause with its own code', async (t) => {
    const { call, tokens, line } = await startWithLine(t);
    const codes: readonly (readonly [ErrorCode, number])[] = [
      ['INVALID_ARGUMENT', 422],
      ['SETTING_REFUSED', 422],
      ['PORT_NOT_FOUND', 404],
      ['PORT_BUSY', 409],
      ['PORT_PERMISSION', 409],
      ['PORT_IO', 503],
      ['NOT_CONNECTED', 409],
      ['NOT_SENT', 503],
      ['QUEUE_FULL', 503],
      ['INTERNAL', 500],
    ];
    for (const [code, status] of codes) {
      line.failure = new LinesideError(code, `this is ${code}`, { hint: 'do that' });
      const answer = await call('POST', '/api/v1/line/open', { token: tokens.operator, json: OPEN });
      assert.deepEqual([answer.status, answer.json.code], [status, code]);
      if (code !== 'INTERNAL') assert.equal(answer.json.detail, `this is ${code} (do that)`);
    }
  });

  it('of a line that sends no codes is derived from its status', () => {
    const answer = (status: serial.StatusCode): string | undefined =>
      refusalOf({ status, error: 'why' }, undefined)?.code;
    const { StatusCode } = serial;
    assert.equal(answer(StatusCode.OK), undefined);
    assert.equal(answer(StatusCode.INVALID_ARGUMENT), 'INVALID_ARGUMENT');
    assert.equal(answer(StatusCode.NOT_FOUND), 'PORT_NOT_FOUND');
    assert.equal(answer(StatusCode.NOT_CONNECTED), 'NOT_CONNECTED');
    assert.equal(answer(StatusCode.INTERNAL_ERROR), 'PORT_IO');
    assert.equal(refusalOf({ status: StatusCode.INTERNAL_ERROR, error: '' }, 'no such code')?.code, 'PORT_IO');
    for (const [status, code] of [
      [Status.UNAVAILABLE, 'NOT_READY'],
      [Status.UNKNOWN, 'NOT_READY'],
      [Status.RESOURCE_EXHAUSTED, 'TOO_MANY'],
      [Status.DATA_LOSS, 'LOG_LOST'],
      [Status.OUT_OF_RANGE, 'LOG_REPLACED'],
    ] as const) {
      assert.equal(failureOf(new ClientError('/m', status, 'why'), undefined).code, code);
    }
    assert.equal(errorCatalogue[failureOf(new Error('broken'), undefined).code].http, 503);
  });

  it('that is unreachable is 503', async (t) => {
    const { call, tokens, stopLine } = await startWithLine(t);
    const token = tokens.operator;
    assert.equal((await call('GET', '/api/v1/line', { token })).status, 200);
    await stopLine();
    for (const [method, path, json] of [
      ['GET', '/api/v1/line', undefined],
      ['GET', '/api/v1/line/ports', undefined],
      ['GET', '/api/v1/line/log', undefined],
      ['GET', '/api/v1/line/log?follow=true', undefined],
      ['POST', '/api/v1/line/open', OPEN],
      ['POST', '/api/v1/line/close', undefined],
      ['POST', '/api/v1/line/send', { hex: '00' }],
    ] as const) {
      const { status, json: problem } = await call(method, path, { token, ...(json !== undefined && { json }) });
      assert.deepEqual([status, problem.code], [503, 'NOT_READY'], `${method} ${path}`);
    }
  });

  it('of a hub that has no way to it is 503, and says why', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const { status, json } = await call('GET', '/api/v1/line', { token: tokens.viewer });
    assert.equal(status, 503);
    assert.match(String(json.detail), /grpc\.listen names no Unix socket/);
    assert.equal((await call('GET', '/api/v1/line/history', { token: tokens.viewer })).status, 200);
  });
});

describe('the history of the line over HTTP', () => {
  it('names of each value that it refuses the field, the value and what is allowed', async (t) => {
    const { call, tokens } = await startTestServer(t);
    for (const [query, reason] of [
      ['lastS=59', 'lastS must be a whole number from 60 to 31622400, not 59'],
      ['lastS=31622401', 'lastS must be a whole number from 60 to 31622400, not 31622401'],
      ['lastS=hour', 'lastS must be a whole number, not "hour"'],
      ['sinceMs=0', 'sinceMs must be a whole number from 1 to 8640000000000000, not 0'],
      ['untilMs=-1', 'untilMs must be a whole number from 1 to 8640000000000000, not -1'],
      ['stepS=59', 'stepS must be a whole number from 60 to 86400, not 59'],
      ['stepS=86401', 'stepS must be a whole number from 60 to 86400, not 86401'],
      ['stepS=90', 'stepS: 90 is not a multiple of 60'],
      ['sinceMs=2000&untilMs=2000', 'sinceMs: 2000 is not before untilMs, which is 2000'],
      ['sinceMs=1000&untilMs=2000&lastS=60', 'sinceMs and lastS: send one of them, not both'],
      ['lastS=120000&stepS=60', 'stepS: the span has 2000 steps of 60 s, at most 1999 are answered'],
      ['last=60', 'the query has no parameter "last"; it may have: lastS, sinceMs, untilMs, stepS'],
    ] as const) {
      const { status, json } = await call('GET', `/api/v1/line/history?${query}`, { token: tokens.viewer });
      assert.deepEqual([status, json.reasons], [422, [reason]], query);
    }
    const most = await call('GET', '/api/v1/line/history?lastS=119940&stepS=60', { token: tokens.viewer });
    assert.equal(most.status, 200);
  });
});

describe('sending over HTTP', () => {
  it('writes exactly the bytes, from hex or base64', async (t) => {
    const { call, tokens, line } = await startWithLine(t);
    const send = (json: object) => call('POST', '/api/v1/line/send', { token: tokens.operator, json });
    const bytes = Uint8Array.from([0, 0x48, 0xff, 0x0a]);
    const forms = [{ hex: '00 48 ff 0A' }, { hex: '0048FF0a' }, { hex: ' 00\n48  ff0a ' }, { base64: 'AEj/Cg==' }];
    for (const json of forms) assert.deepEqual((await send(json)).json, { bytes: 4 });
    assert.deepEqual(
      line.sends.map(({ payload }) => payload),
      forms.map(() => bytes),
    );
  });

  it('refuses what is not bytes, and never guesses', async (t) => {
    const { call, tokens, line } = await startWithLine(t);
    for (const json of [
      {},
      { hex: '4' },
      { hex: '48 6' },
      { hex: '4 8' },
      { hex: '0x48' },
      { hex: '48,65' },
      { hex: 'zz' },
      { hex: '48', base64: 'SA==' },
      { base64: 'SA' },
      { base64: 'S A=' },
      { base64: '-_8=' },
      { text: 'x' },
      { hex: 48 },
    ]) {
      const { status, json: problem } = await call('POST', '/api/v1/line/send', { token: tokens.operator, json });
      assert.deepEqual([status, problem.code], [422, 'INVALID_ARGUMENT'], JSON.stringify(json));
    }
    assert.deepEqual(line.sends, []);
  });
});

describe('whoami', () => {
  it('shows each token its name and roles, and the Unix socket every role', async (t) => {
    const { call, tokens, socketPath } = await startTestServer(t);
    const ask = async (token: string | undefined) => (await call('GET', '/api/v1/whoami', { token })).json;
    assert.deepEqual(await ask(tokens.viewer), { name: 'viewer', roles: ['viewer'] });
    assert.deepEqual(await ask(tokens.internal), { name: 'internal', roles: ['writer', 'refdata-internal'] });
    const local = (await call('GET', '/api/v1/whoami', { socketPath })).json;
    assert.equal(local.name, 'local');
    for (const role of ['viewer', 'operator', 'admin']) assert.ok((local.roles as string[]).includes(role));
    assert.equal((await call('GET', '/api/v1/whoami')).status, 401);
  });
});

describe('saved commands of the line', () => {
  const url = '/api/v1/line/commands';
  const command = { name: 'read status', format: 'text', data: 'STATUS?', lineEnding: 'crlf' };

  it('are one list for the box: read by viewers, replaced as a whole by operators who know its version', async (t) => {
    const { call, tokens, ask } = await startTestServer(t);
    const read = () => call('GET', url, { token: tokens.viewer });
    const put = (version: string, items: unknown, token = tokens.operator) =>
      call('PUT', url, { token, json: { items }, headers: version === '' ? {} : { 'if-match': version } });
    const empty = await read();
    assert.deepEqual([empty.status, empty.headers.etag, empty.json.items], [200, '"1"', []]);
    const saved = await put('"1"', [command]);
    assert.deepEqual([saved.status, saved.headers.etag, saved.json], [200, '"2"', { version: 2, items: [command] }]);
    const stale = await put('"1"', []);
    assert.deepEqual([stale.status, stale.json.code], [412, 'STALE_VERSION']);
    assert.equal((await put('', [])).status, 428);
    assert.equal((await put('"2"', [], tokens.viewer)).status, 403);
    assert.equal((await put('"2"', [], tokens.writer)).status, 403);
    assert.deepEqual((await read()).json, { version: 2, items: [command] });
    const audit = await ask('GET', '/api/v1/admin/audit?action=line.commands_saved');
    assert.equal(audit.status, 200);
  });

  it('are bounded and strict, and every fault is named', async (t) => {
    const { call, tokens } = await startTestServer(t);
    const put = async (items: unknown): Promise<string> => {
      const answer = await call('PUT', url, { token: tokens.operator, json: { items }, headers: { 'if-match': '*' } });
      return `${answer.status} ${String(answer.json.detail)} ${JSON.stringify(answer.json.reasons ?? [])}`;
    };
    for (const [wrong, said] of [
      [{ ...command, name: '' }, /^422 .*name/],
      [{ ...command, name: 'n'.repeat(65) }, /^422 .*name/],
      [{ ...command, name: 'a\nb' }, /^422 .*name/],
      [{ ...command, data: 'x'.repeat(1_025) }, /^422 .*data/],
      [{ ...command, data: 'ä'.repeat(513) }, /^422 .*data: has 1026 bytes in UTF-8, more than 1024/],
      [{ ...command, format: 'binary' }, /^422 .*format/],
      [{ ...command, lineEnding: '\n' }, /^422 .*lineEnding/],
      [{ ...command, more: 1 }, /^422 .*more/],
    ] as const)
      assert.match(await put([wrong]), said);
    assert.match(await put([command, command]), /^422 .*there is a command \\"read status\\" already/);
    const many = Array.from({ length: 101 }, (_, n) => ({ ...command, name: `command ${n}`, data: 'ä'.repeat(512) }));
    assert.match(await put(many), /^422 .*items/);
    assert.match(await put(many.slice(1)), /^200/);
  });
});
