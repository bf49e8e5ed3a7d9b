import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { type ClientOptions, WebSocket } from 'ws';
import { RX } from '../../../line/log/entry.ts';
import { revokeToken } from '../../../shared/auth/token-file.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { until } from '../../../shared/base/wait.fixture.ts';
import type { TerminalNotice } from '../../../shared/gen/http.ts';
import { checkOrigin } from '../headers.ts';
import {
  LOG_STREAMS,
  MAX_TERMINAL_MESSAGE_BYTES,
  MAX_TERMINAL_TICKETS,
  STREAM_REAUTHENTICATE_MS,
  TERMINAL_LOST_PINGS,
  TERMINAL_PING_MS,
  TERMINAL_TICKET_MS,
} from '../limits.ts';
import { type LineServer, startWithLine } from './line.fixture.ts';
import { TERMINAL_PATH } from './terminal-tickets.ts';

interface Attempt {
  readonly ticket?: string;
  readonly origin?: string;
  readonly options?: ClientOptions;
}

/** As a browser has it. */
class Client {
  readonly socket: WebSocket;
  bytes = '';
  readonly notices: TerminalNotice[] = [];
  closeCode: number | undefined;

  constructor(t: TestContext, socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data, isBinary) => {
      const bytes = data as Buffer;
      if (isBinary) this.bytes += bytes.toString('latin1');
      else this.notices.push(JSON.parse(bytes.toString()) as TerminalNotice);
    });
    socket.on('error', () => {});
    socket.on('close', (code) => {
      this.closeCode = code;
    });
    t.after(() => socket.terminate());
  }

  of<K extends TerminalNotice['type']>(type: K) {
    return this.notices.filter((notice): notice is Extract<TerminalNotice, { type: K }> => notice.type === type);
  }

  ask(command: unknown): void {
    this.socket.send(typeof command === 'string' ? command : JSON.stringify(command));
  }

  /** Until the box has ended it: its last notice. */
  async end(): Promise<{ readonly code: string; readonly message: string } | undefined> {
    await until('the terminal ends', () => this.closeCode !== undefined);
    return this.of('end').at(-1);
  }
}

async function ticketFor({ call, tokens }: LineServer, who = 'operator'): Promise<string> {
  const { status, json } = await call('POST', `${TERMINAL_PATH}/tickets`, { token: tokens[who] });
  assert.equal(status, 201);
  assert.equal(json.validSeconds, TERMINAL_TICKET_MS / 1_000);
  return String(json.ticket);
}

/** A terminal, or the code of the problem that refuses it. */
async function attempt(t: TestContext, server: LineServer, wanted: Attempt = {}): Promise<Client | string> {
  const ticket = wanted.ticket ?? (await ticketFor(server));
  const { origin = `http://127.0.0.1:${server.port}` } = wanted;
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}${TERMINAL_PATH}?ticket=${ticket}`, {
    ...wanted.options,
    ...(origin !== '' && { origin }),
  });
  const client = new Client(t, socket);
  const refused = once(socket, 'unexpected-response') as Promise<[unknown, IncomingMessage]>;
  const opened = once(socket, 'open').then(() => undefined);
  opened.catch(() => undefined);
  refused.catch(() => undefined);
  const answer = await Promise.race([opened, refused]);
  if (answer === undefined) return client;
  const [, response] = answer;
  const text = (await response.toArray()).join('');
  assert.equal(response.headers['content-type'], 'application/problem+json');
  return (JSON.parse(text) as { readonly code: string }).code;
}

async function opened(t: TestContext, server: LineServer, wanted?: Attempt): Promise<Client> {
  const client = await attempt(t, server, wanted);
  assert.ok(client instanceof Client, 'it was refused');
  await until('it is live', () => client.of('port').length > 0);
  return client;
}

describe('the ticket of a terminal', () => {
  it('is for operators, opens one terminal, and is used up by each attempt', async (t) => {
    const server = await startWithLine(t);
    const { call, tokens } = server;
    assert.equal((await call('POST', `${TERMINAL_PATH}/tickets`, { token: tokens.viewer })).status, 403);
    assert.equal((await call('POST', `${TERMINAL_PATH}/tickets`, { token: tokens.admin })).status, 403);
    const ticket = await ticketFor(server);
    await opened(t, server, { ticket });
    assert.equal(await attempt(t, server, { ticket }), 'UNAUTHENTICATED');
    assert.equal(await attempt(t, server, { ticket: '' }), 'UNAUTHENTICATED');
    const wasted = await ticketFor(server);
    assert.equal(await attempt(t, server, { ticket: wasted, origin: 'http://evil.example' }), 'PERMISSION_DENIED');
    assert.equal(await attempt(t, server, { ticket: wasted }), 'UNAUTHENTICATED');
    const plain = await ticketFor(server);
    assert.equal((await call('GET', `${TERMINAL_PATH}?ticket=${plain}`)).status, 400);
    assert.equal(await attempt(t, server, { ticket: plain }), 'UNAUTHENTICATED');
  });

  it('expires, and makes room for others then', async (t) => {
    const clock = new FakeClock();
    const { logger, lines } = recordingLogger();
    const server = await startWithLine(t, { logger, parts: { clock } });
    const tickets = [await ticketFor(server)];
    clock.advance(1);
    while (tickets.length < MAX_TERMINAL_TICKETS) tickets.push(await ticketFor(server));
    const ask = async (): Promise<number> =>
      (await server.call('POST', `${TERMINAL_PATH}/tickets`, { token: server.tokens.operator })).status;
    assert.equal(await ask(), 429);
    clock.advance(TERMINAL_TICKET_MS - 1);
    assert.equal(await attempt(t, server, { ticket: tickets[0] ?? '' }), 'UNAUTHENTICATED');
    await opened(t, server, { ticket: tickets[1] ?? '' });
    assert.equal(await ask(), 201);
    assert.match(lines.join('\n'), /GET \/api\/v1\/line\/terminal.*expired/);
    assert.ok(!lines.some((line) => line.includes(tickets[0] ?? '-')), 'no ticket is logged');
  });

  it('needs the page of this host: the scheme too, if TLS ends here', () => {
    const check = (origin: string | undefined, host: string | undefined, hasTls: boolean): boolean => {
      try {
        checkOrigin({ origin, host }, hasTls);
        return true;
      } catch (error) {
        assert.ok(error instanceof LinesideError && error.code === 'PERMISSION_DENIED');
        return false;
      }
    };
    assert.ok(check('https://box.local', 'box.local', true));
    assert.ok(!check('http://box.local', 'box.local', true));
    assert.ok(check('http://box.local:8080', 'box.local:8080', false));
    assert.ok(check('https://box.local', 'box.local', false), 'a proxy with TLS');
    for (const origin of [undefined, '', 'null', 'http://box.local:8081', 'http://box.local.evil', 'http://'])
      assert.ok(!check(origin, 'box.local:8080', false), origin);
    assert.ok(!check('http://', '', false));
    assert.ok(!check(undefined, undefined, false));
  });
});

describe('a terminal', () => {
  it('begins with what was received last, and then has each byte, both ways', async (t) => {
    const server = await startWithLine(t);
    const { line, log, call } = server;
    log.record(RX, 1, Buffer.from('login: '));
    const client = await opened(t, server);
    assert.equal(client.bytes, 'login: ');
    log.record(RX, 2, Buffer.from('not again'));
    for (const listener of line.listeners) listener.received(Buffer.from([0x1b, 0x5b, 0xff]));
    await until('the bytes', () => client.bytes.length === 10);
    assert.equal(client.bytes, 'login: \x1b[\xff');
    for (const bytes of [[3], [0, 255], [13]]) client.socket.send(Buffer.from(bytes));
    await until('the answers', () => client.of('sent').length === 3);
    assert.deepEqual(
      line.sends.map(({ payload }) => [...payload]),
      [[3], [0, 255], [13]],
    );
    assert.deepEqual(
      client.of('sent').map(({ bytes }) => bytes),
      [1, 2, 1],
    );
    line.failure = new LinesideError('NOT_CONNECTED', 'no port is open');
    client.socket.send(Buffer.from('lost'));
    await until('the refusal', () => client.of('refused').length === 1);
    assert.deepEqual(client.of('refused'), [{ type: 'refused', what: 'bytes', bytes: 4, message: 'no port is open' }]);
    assert.match((await call('GET', '/metrics')).text, /^lineside_http_terminals 1$/m);
    client.socket.close();
    await until('it is freed', async () => /^lineside_http_terminals 0$/m.test((await call('GET', '/metrics')).text));
    assert.equal(line.listeners.size, 0);
  });

  it('sends a break, sets DTR and RTS, and holds the line under the name of its token', async (t) => {
    const clock = new FakeClock();
    const server = await startWithLine(t, { parts: { clock } });
    const { line, call, tokens } = server;
    const seen: unknown[] = [];
    const lines = { dtr: true, rts: false, cts: true, dsr: false, dcd: false, ri: false };
    Object.assign(line, {
      openPort: () => ({
        beginBreak: async () => void seen.push('begins'),
        setModemLines: async (_: unknown, asked: object) => {
          seen.push(asked);
          return { ...lines, ...asked };
        },
        modemState: () => ({ lines }),
        takeOver: async () => {},
        device: { endBreak: () => seen.push('ends') },
      }),
    });
    const client = await opened(t, server);
    await until('the lines as they are', () => client.of('lines').length === 1);
    assert.deepEqual(client.of('lines')[0], { type: 'lines', ...lines });
    client.ask({ type: 'break', ms: 250 });
    client.ask({ type: 'break', ms: 250 });
    client.ask({ type: 'lines', dtr: false });
    await until('the answers', () => client.of('done').length === 1);
    assert.match(client.of('refused')[0]?.message ?? '', /a break is being sent/);
    assert.deepEqual(client.of('lines')[1], { type: 'lines', ...lines, dtr: false });
    assert.deepEqual(seen, ['begins', { dtr: false }]);
    clock.advance(249);
    assert.deepEqual(seen.length, 2);
    clock.advance(1);
    await until('its end', () => client.of('done').length === 2);
    assert.equal(seen[2], 'ends');
    client.ask({ type: 'hold' });
    await until('the hold', () => client.of('done').length === 3);
    const ticket = client.of('done')[2]?.ticket;
    assert.match(ticket ?? '', /^[0-9a-f]{32}$/);
    const holder = async () => (await call('GET', '/api/v1/line', { token: tokens.viewer })).json.holder;
    assert.equal(((await holder()) as { readonly name: string }).name, 'operator');
    // A broken connection keeps the hold, a page that is closed does not.
    client.socket.terminate();
    const again = await opened(t, server);
    again.ask({ type: 'hold' });
    await until('the refusal', () => again.of('refused').length === 1);
    assert.match(again.of('refused')[0]?.message ?? '', /held by operator/);
    again.ask({ type: 'hold', ticket });
    await until('the hold', () => again.of('done').length === 1);
    again.socket.close(1001);
    // Long before the hold of a lost connection ends.
    await until('the release', async () => (await holder()) === null, 20_000);
  });

  it('says what is wrong with a command, and continues', async (t) => {
    const server = await startWithLine(t);
    const client = await opened(t, server);
    const faults: readonly (readonly [unknown, RegExp])[] = [
      ['{', /must be a JSON object whose type is one of break, lines, hold, release/],
      ['null', /must be a JSON object/],
      [{ type: 'constructor' }, /whose type is one of/],
      [{ type: 'break' }, /ms is missing/],
      [{ type: 'break', ms: 5_001 }, /ms must be a whole number from 1 to 5000/],
      [{ type: 'lines', dtr: 'on', cts: true }, /no field "cts".*dtr must be true or false/],
      [{ type: 'hold', ticket: 'x'.repeat(65) }, /ticket must have at most 64 characters/],
    ];
    for (const [command, why] of faults) {
      const before = client.of('refused').length;
      client.ask(command);
      const { what, message } = await until('a refusal', () => client.of('refused')[before]);
      assert.equal(what, 'command');
      assert.match(message, why);
    }
    client.socket.send('x');
    client.socket.send(Buffer.from('y'));
    await until('it continues', () => client.of('sent').length === 1);
  });

  it('ends at a message that is too large, and has limits of number', async (t) => {
    const server = await startWithLine(t);
    const clients = [];
    for (let n = 0; n < LOG_STREAMS.terminal.perReader; n += 1) clients.push(await opened(t, server));
    assert.equal(await attempt(t, server), 'TOO_MANY');
    clients[0]?.socket.send(Buffer.alloc(MAX_TERMINAL_MESSAGE_BYTES + 1));
    await clients[0]?.end();
    assert.equal(clients[0]?.closeCode, 1009);
    assert.deepEqual(server.line.sends, []);
    const next = await opened(t, server);
    next.socket.send(Buffer.alloc(MAX_TERMINAL_MESSAGE_BYTES));
    await until('the largest one', () => next.of('sent').length === 1);
  });

  it('ends when its token is revoked, when the line is gone, and when the service stops, with the reason', async (t) => {
    const clock = new FakeClock();
    const server = await startWithLine(t, { parts: { clock } });
    const client = await opened(t, server);
    revokeToken(join(server.dir, 'tokens.json'), 'operator');
    await until('it ends', () => {
      clock.advance(STREAM_REAUTHENTICATE_MS);
      return client.closeCode !== undefined;
    });
    assert.equal((await client.end())?.code, 'UNAUTHENTICATED');

    const other = await startWithLine(t);
    const second = await opened(t, other);
    await other.stopLine();
    assert.equal((await second.end())?.code, 'NOT_READY');

    const last = await startWithLine(t);
    const third = await opened(t, last);
    await last.http.stop();
    assert.equal((await third.end())?.code, 'SHUTTING_DOWN');
  });

  it('ends when its client answers no ping', async (t) => {
    const clock = new FakeClock();
    const server = await startWithLine(t, { parts: { clock } });
    const client = await opened(t, server);
    for (let n = 1; n <= TERMINAL_LOST_PINGS + 2; n += 1) {
      const answered = once(client.socket, 'ping');
      clock.advance(TERMINAL_PING_MS);
      await answered;
      await until('a sign of life', () => client.of('alive').length === n);
      await server.call('GET', '/healthz');
    }
    assert.equal(client.closeCode, undefined);
    const silent = await opened(t, server, { options: { autoPong: false } });
    clock.advance(TERMINAL_PING_MS * TERMINAL_LOST_PINGS);
    await until('the last ping', () => silent.of('alive').length === TERMINAL_LOST_PINGS);
    assert.equal(silent.closeCode, undefined);
    clock.advance(TERMINAL_PING_MS);
    await silent.end();
    assert.equal(silent.closeCode, 1006);
  });

  it('is not read while the line answers nothing, and is told when it did not read in time', async (t) => {
    const clock = new FakeClock();
    const server = await startWithLine(t, { parts: { clock } });
    const { line, call } = server;
    const client = await opened(t, server);
    line.onSend = () => new Promise(() => {});
    for (let n = 0; n < 1_000; n += 1) client.socket.send(Buffer.alloc(MAX_TERMINAL_MESSAGE_BYTES));
    await until('it is full', () => line.sends.length >= 4);
    for (let n = 0; n < 50; n += 1) await call('GET', '/healthz');
    assert.ok(line.sends.length <= 12, `${line.sends.length} messages of 16 KiB are with the line`);
    client.socket.terminate();
    await until('it is freed', () => {
      clock.advance(TERMINAL_PING_MS);
      return line.listeners.size === 0;
    });

    const slow = await opened(t, server);
    slow.socket.pause();
    // In turns in which the line hands it to the hub, and far more than the kernel takes for a client that does not read.
    for (let n = 0; n < 600; n += 1) {
      for (const listener of line.listeners) listener.received(Buffer.alloc(32_768));
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
    }
    slow.socket.resume();
    const end = await slow.end();
    assert.equal(end?.code, 'LOG_LOST');
    assert.match(end?.message ?? '', /received bytes were not taken in time/);
  });

  it('is not opened behind requests that have no answer, without a handshake, or at another path', async (t) => {
    const server = await startWithLine(t);
    const origin = `127.0.0.1:${server.port}`;
    const upgrade = `Host: ${origin}\r\nOrigin: http://${origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    const say = async (text: string, closes = true): Promise<string> => {
      const socket = connect({ port: server.port, host: '127.0.0.1' });
      t.after(() => socket.destroy());
      let got = '';
      socket.on('data', (data) => {
        got += String(data);
      });
      socket.on('error', () => {});
      socket.write(text);
      await until(closes ? 'the end' : 'an answer', () => (closes ? socket.closed : got !== ''));
      return got;
    };
    assert.match(await say(`GET /healthz HTTP/1.1\r\n${upgrade}`, false), /^HTTP\/1\.1 200/);
    const other = `GET /api/v1/line HTTP/1.1\r\nHost: ${origin}\r\n\r\n`;
    assert.equal(await say(`${other}GET ${TERMINAL_PATH} HTTP/1.1\r\n${upgrade}`), '');
    assert.match(await say(`GET ${TERMINAL_PATH} HTTP/1.1\r\n${upgrade}`), /^HTTP\/1\.1 401/);
    assert.match(await say(`GET ${TERMINAL_PATH} HTTP/1.1\r\nHost: y\r\n${upgrade}`), /^HTTP\/1\.1 400/);
    const ticket = await ticketFor(server);
    const withoutKey = await say(`GET ${TERMINAL_PATH}?ticket=${ticket} HTTP/1.1\r\n${upgrade}`);
    assert.match(withoutKey, /^HTTP\/1\.1 400[^]*Sec-WebSocket-Key/);
    assert.equal(await attempt(t, server, { ticket }), 'UNAUTHENTICATED');
    assert.match((await server.call('GET', '/metrics')).text, /^lineside_http_terminals 0$/m);
  });
});
