import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { offersIntermediateSuitesOnly } from '../../shared/auth/tls-suites.fixture.ts';
import { Authority } from '../../shared/base/certificates.fixture.ts';
import { exchange } from '../../shared/base/exchange.fixture.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until, within } from '../../shared/base/wait.fixture.ts';
import type { Refdata } from '../refdata/refdata.ts';
import { MAX_UNANSWERED, STOP_GRACE_MS } from './limits.ts';
import { startTestServer, type TestOptions, type TestServer } from './server.fixture.ts';

/** A connection on which tests write what they like. */
class Wire {
  readonly socket: Socket;
  got = '';
  ended = false;

  constructor(t: TestContext, socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.got += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.ended = true;
    });
    t.after(() => socket.destroy());
  }

  /** Until the server has closed it; what it said. */
  async rest(): Promise<string> {
    await until('the server to close the connection', () => this.ended);
    return this.got;
  }

  async says(pattern: RegExp): Promise<void> {
    await until(`the server to say ${pattern}`, () => pattern.test(this.got));
  }
}

function wire(t: TestContext, { port }: { readonly port: number }, text = '', allowHalfOpen = false): Wire {
  const made = new Wire(t, connect({ port, host: '127.0.0.1', allowHalfOpen }));
  made.socket.write(text, 'latin1');
  return made;
}

async function stillServes({ call }: TestServer): Promise<void> {
  assert.equal((await call('GET', '/healthz')).status, 200);
}

/** A refdata whose createDictionary waits until it is let go. */
function held() {
  const gate = Promise.withResolvers<void>();
  let called = false;
  return {
    refdata: (real: Refdata): Refdata => ({
      ...real,
      createDictionary: async (...asked) => {
        called = true;
        await gate.promise;
        return real.createDictionary(...asked);
      },
    }),
    called: () => called,
    letGo: gate.resolve,
  };
}

const dictionary = { name: 'd', title: 'D', scope: 'PUBLIC' };
const IMPORTS = ['/api/v1/imports', 'Transfer-Encoding: chunked', 'application/x-ndjson'] as const;

/** The head of a request to change something; `more`: its Content-Length and what else it has. */
function head(
  { tokens }: TestServer,
  path: string,
  more: string,
  type = 'application/json',
  token = tokens.all,
): string {
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: ${type}\r\n${more}\r\n\r\n`;
}

function makeDictionary(server: TestServer): string {
  const body = JSON.stringify(dictionary);
  return `${head(server, '/api/v1/dictionaries', `Content-Length: ${body.length}`)}${body}`;
}

describe('garbage on the wire', () => {
  it('is answered with a problem and the end of the connection, and harms no other client', async (t) => {
    const server = await startTestServer(t);
    const cases: readonly (readonly [string, number, string])[] = [
      ['GARBAGE\r\n\r\n', 400, 'MALFORMED'],
      ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'MALFORMED'],
      ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'MALFORMED'],
      ['GET /healthz HTTP/9.9\r\n\r\n', 400, 'MALFORMED'],
      ['GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n', 400, 'MALFORMED'],
      ['GET /healthz HTTP/1.1\r\n\r\n', 400, 'MALFORMED'],
      ['GET /healthz\r\n\r\n', 400, 'MALFORMED'],
      ['GET /healthz HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n', 400, 'MALFORMED'],
      [
        'POST /api/v1/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
        400,
        'MALFORMED',
      ],
      [`GET /healthz HTTP/1.1\r\nHost: x\r\nX-Bomb: ${'x'.repeat(40_000)}\r\n\r\n`, 431, 'HEADERS_TOO_LARGE'],
      [`GET /${'x'.repeat(40_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431, 'HEADERS_TOO_LARGE'],
      [`GET /healthz HTTP/1.1\r\n${'a: b\r\n'.repeat(20_000)}\r\n`, 431, 'HEADERS_TOO_LARGE'],
    ];
    for (const [text, status, code] of cases) {
      const said = await wire(t, server, text).rest();
      const shown = `${JSON.stringify(text.slice(0, 60))}: ${said}`;
      assert.ok(said.startsWith(`HTTP/1.1 ${status} `), shown);
      if (said.includes('content-type'))
        assert.match(said, new RegExp(`application/problem\\+json[^]*"code":"${code}"`), shown);
      await stillServes(server);
    }
  });

  it('behind a whole request does not take that one’s answer', async (t) => {
    const gate = held();
    const server = await startTestServer(t, { refdata: gate.refdata });
    const line = wire(t, server, makeDictionary(server));
    await until('the request to arrive', gate.called);
    line.socket.write('GARBAGE\r\n\r\n');
    gate.letGo();
    assert.match(await line.rest(), /^HTTP\/1\.1 201 /);
  });

  it('of requests cut short leaves nothing behind', async (t) => {
    const server = await startTestServer(t);
    await server.ask('POST', '/api/v1/dictionaries', dictionary);
    for (const text of [
      'GET /heal',
      'GET /healthz HTTP/1.1\r\nHost: x\r\n',
      `${head(server, '/api/v1/dictionaries/d/records', 'Content-Length: 1000')}{"businessKey":"cut"`,
      `${head(server, ...IMPORTS)}1000\r\n{"dictionary":"d","businessKey":"cut","data":{}}\n`,
    ]) {
      const line = wire(t, server, text);
      await until('the text to be out', () => line.socket.bytesWritten === text.length);
      line.socket.destroy();
      await stillServes(server);
    }
    const { json } = await server.ask('GET', '/api/v1/dictionaries/d/records');
    assert.deepEqual(json.items, []);
  });

  it('that is no chunk ends an import with nothing imported', async (t) => {
    const server = await startTestServer(t);
    await server.ask('POST', '/api/v1/dictionaries', dictionary);
    const line = '{"dictionary":"d","businessKey":"cut","data":{}}\n';
    const chunks = `${line.length.toString(16)}\r\n${line}\r\nzzz\r\n`;
    assert.match(await wire(t, server, `${head(server, ...IMPORTS)}${chunks}`).rest(), /^HTTP\/1\.1 400 /);
    assert.deepEqual((await server.ask('GET', '/api/v1/dictionaries/d/records')).json.items, []);
  });
});

describe('connections', () => {
  const numbered = (count: number): string =>
    Array.from({ length: count }, (_, i) => `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: n${i}\r\n\r\n`).join('');

  it('answer as many pipelined requests as may be unanswered, in order', async (t) => {
    const server = await startTestServer(t);
    const line = wire(t, server, numbered(MAX_UNANSWERED));
    await line.says(new RegExp(`x-request-id: n${MAX_UNANSWERED - 1}\r\n`));
    assert.deepEqual(
      [...line.got.matchAll(/x-request-id: (n\d+)/g)].map(([, id]) => id),
      Array.from({ length: MAX_UNANSWERED }, (_, i) => `n${i}`),
    );
    line.socket.write(numbered(1));
    await line.says(/x-request-id: n0\r\n[^]*x-request-id: n0\r\n/);
  });

  it('are closed at one unanswered request more, and begin nothing behind the first', async (t) => {
    const gate = held();
    const server = await startTestServer(t, { refdata: gate.refdata });
    const line = wire(t, server, makeDictionary(server));
    await until('the first to be worked on', gate.called);
    const before = await server.call('GET', '/metrics');
    line.socket.write(numbered(MAX_UNANSWERED));
    assert.equal(await line.rest(), '');
    gate.letGo();
    const after = await server.call('GET', '/metrics');
    const probes = /route="\/healthz",method="GET"/;
    assert.deepEqual(
      [before, after].map(({ text }) => probes.test(text)),
      [false, false],
    );
    assert.match(after.text, /lineside_http_refused_callers_total 1$/m);
  });

  it('that are half-closed behind their request get its answer', async (t) => {
    const line = wire(t, await startTestServer(t), numbered(1), true);
    line.socket.end();
    assert.match(await line.rest(), /^HTTP\/1\.1 200 /);
  });

  it('that bring their request too slowly are ended, headers and body alike', async (t) => {
    const server = await startTestServer(t, { http: { request_timeout_ms: 1_000 } });
    const slow = `${head(server, '/api/v1/dictionaries', 'Content-Length: 1000')}{`;
    for (const beginning of ['GET /healthz HTTP/1.1\r\nHo', slow]) {
      const line = wire(t, server, beginning);
      // It drips on: what counts is the whole, not the last byte.
      const drip = setInterval(() => line.socket.write('a'), 50);
      t.after(() => clearInterval(drip));
      assert.match(await line.rest(), /^HTTP\/1\.1 408 [^]*"code":"REQUEST_TIMEOUT"/);
      clearInterval(drip);
    }
    await stillServes(server);
  });

  it('that take nothing of their answers are ended', async (t) => {
    const server = await startTestServer(t, { http: { request_timeout_ms: 1_000 } });
    const line = wire(t, server);
    line.socket.pause();
    const closed = new Promise((resolve) => line.socket.once('close', resolve));
    await stillServes(server);
    const count = async (): Promise<number> =>
      Number(
        /lineside_http_requests_total\{route="\/openapi.json",method="GET",status="200"\} (\d+)/.exec(
          (await server.call('GET', '/metrics')).text,
        )?.[1],
      );
    // Each answer has some 40 KB: they stop when the buffers of both sides are full, for the client takes none of them.
    let asked = await count();
    await until('the server to let go', async () => {
      if ((await count()) === asked) {
        asked += 1;
        line.socket.write('GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n');
      }
      // A blank line may stand before a request: it shows whether the connection still is.
      return !line.socket.write('\r\n') || line.socket.errored !== null || line.ended;
    });
    line.socket.resume();
    await within('the connection to end', closed);
    assert.ok((await count()) < asked, 'the last one was not answered');
  });

  it('that wait for a next request too long are ended, those that wait for an answer are not', async (t) => {
    const gate = held();
    const server = await startTestServer(t, { refdata: gate.refdata, http: { request_timeout_ms: 1_000 } });
    const pending = server.ask('POST', '/api/v1/dictionaries', dictionary);
    await until('the request to arrive', gate.called);
    const idle = wire(t, server, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.match(await idle.rest(), /^HTTP\/1\.1 200 /);
    gate.letGo();
    assert.equal((await pending).status, 201);
  });

  it('beyond the limit are refused, and others continue', async (t) => {
    const server = await startTestServer(t, { http: { max_connections: 3 } });
    const open = [1, 2, 3, 4].map(() => wire(t, server));
    await until('the extra ones to be closed', () => open.some((line) => line.ended));
    assert.ok(open.filter((line) => line.ended).length >= 1);
    // The Unix socket has a limit of its own: a flood on one address does not shut the technician out.
    assert.equal((await server.call('GET', '/healthz', { socketPath: server.socketPath })).status, 200);
  });

  it('from one address of the LAN are a quarter of the limit, and other addresses continue', async (t) => {
    const server = await startTestServer(t, {
      http: { max_connections: 8, listen: ['0.0.0.0:0'], insecure: true },
    });
    const from = (localAddress: string): Wire => {
      const line = new Wire(t, connect({ port: server.port, host: '127.0.0.1', localAddress }));
      line.socket.write(numbered(1));
      return line;
    };
    // The test's own client has one of them.
    const first = from('127.0.0.1');
    await first.says(/^HTTP\/1\.1 200 /);
    assert.equal(await from('127.0.0.1').rest(), '');
    await from('127.0.0.2').says(/^HTTP\/1\.1 200 /);
    first.socket.destroy();
    await until('its place to be free', async () => {
      const next = from('127.0.0.1');
      await until('an answer or the end', () => next.ended || next.got !== '');
      return next.got !== '';
    });
  });

  it('that ask first whether to send a body get their final answer, or 100 Continue', async (t) => {
    const server = await startTestServer(t);
    const body = JSON.stringify(dictionary);
    const asking = (length: number, path = '/api/v1/dictionaries', token = server.tokens.all): string =>
      head(server, path, `Content-Length: ${length}\r\nExpect: 100-continue`, undefined, token);
    for (const [text, status] of [
      [asking(100, undefined, 'nobody'), 401],
      [asking(100_000_000), 413],
      [asking(100_000_000_000, '/api/v1/imports'), 413],
    ] as const) {
      const line = wire(t, server, text);
      await line.says(new RegExp(`^HTTP/1\\.1 ${status} `));
      line.socket.destroy();
    }
    const line = wire(t, server, asking(body.length));
    await line.says(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    line.socket.write(body);
    await line.says(/100 Continue[^]*HTTP\/1\.1 201 /);
    await wire(t, server, 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n').says(/^HTTP\/1\.1 200 /);
  });

  it('get to read why a large body was refused, though they were still sending it', async (t) => {
    const server = await startTestServer(t, { http: { max_import_bytes: 65_536, max_body_bytes: 65_536 } });
    for (const path of ['/api/v1/imports', '/api/v1/dictionaries']) {
      const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.tokens.all}`, 'content-type': 'application/json' },
        body: 'x'.repeat(20_000_000),
      });
      assert.equal(response.status, 413);
      assert.equal(((await response.json()) as { code: string }).code, 'TOO_LARGE');
    }
  });
});

async function takenPort(t: TestContext): Promise<{ taken: Server; port: number }> {
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await until('the port', () => taken.listening);
  return { taken, port: (taken.address() as AddressInfo).port };
}

/** `port`: of an address for other machines, behind a certificate of `ca`. */
async function startTls(t: TestContext, options: TestOptions = {}) {
  const ca = new Authority(temporaryDirectory(t), 'ca');
  const pair = ca.issue('server', '/CN=box');
  const server = await startTestServer(t, {
    tls: { cert_file: pair.certFile, key_file: pair.keyFile },
    ...options,
    http: { listen: ['127.0.0.1:0', '0.0.0.0:0'], ...options.http },
  });
  const port = Number(/:(\d+)$/.exec(server.http.addresses[1] ?? '')?.[1]);
  return { server, port, ca: ca.root.cert };
}

describe('listeners', () => {
  it('give the Unix socket to owner and group, and remove it at the stop', async (t) => {
    const server = await startTestServer(t);
    assert.equal(statSync(server.socketPath).mode & 0o777, 0o660);
    assert.equal(server.http.addresses[1], `unix:${server.socketPath}`);
    await server.http.stop();
    assert.equal(existsSync(server.socketPath), false);
  });

  it('serve the other addresses while one is taken, and that one when it is free', async (t) => {
    const { taken, port } = await takenPort(t);
    const clock = new FakeClock();
    const listen = ['127.0.0.1:0', `127.0.0.1:${port}`];
    const server = await startTestServer(t, { http: { listen }, parts: { clock } });
    await stillServes(server);
    assert.deepEqual(server.http.faults(), [`NOT LISTENING on 127.0.0.1:${port}`]);
    taken.close();
    await until('the address to be served', () => {
      clock.advance(5_000);
      return server.http.faults().length === 0;
    });
    assert.equal((await server.call('GET', '/healthz', { port })).status, 200);
  });

  it('say which address is taken if there is no other, and leave none behind', async (t) => {
    const { port } = await takenPort(t);
    await assert.rejects(startTestServer(t, { http: { listen: [`127.0.0.1:${port}`] } }), {
      code: 'CONFIG_INVALID',
      message: new RegExp(`cannot listen on 127.0.0.1:${port}`),
      hint: /http\.listen/,
    });
    const socket = join(temporaryDirectory(t), 'own.sock');
    await assert.rejects(startTestServer(t, { http: { listen: [`unix:${socket}`, '0.0.0.0:0'] } }), /needs TLS/);
    assert.equal(existsSync(socket), false);
  });

  it('speak TLS where other machines reach them, with the same tokens', async (t) => {
    const { server, port, ca } = await startTls(t);
    const ask = async (token: string | undefined): Promise<number> => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const asked = { host: '127.0.0.1', port, path: '/api/v1/dictionaries', ca, headers, agent: false };
      return (await exchange(asked)).status;
    };
    assert.equal(await ask(server.tokens.reader), 200);
    assert.equal(await ask(undefined), 401);
    const plain = wire(t, { port }, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.doesNotMatch(await plain.rest(), /200 OK/);
    await offersIntermediateSuitesOnly(port, 'http/1.1');
    assert.equal(await ask(server.tokens.reader), 200);
  });

  it('end TLS handshakes that never begin or make no sense: they would use up http.max_connections', async (t) => {
    const { port } = await startTls(t, { http: { request_timeout_ms: 1_000 } });
    // A record header of TLS, and nothing after it.
    const texts = ['', '\x16\x03\x01\x02\x00', 'GARBAGE\r\n\r\n'];
    const wires = texts.map((text) => wire(t, { port }, text));
    for (const one of wires) await one.rest();
  });

  it('with TLS serve no client without a usable certificate, and this machine is served', async (t) => {
    const file = join(temporaryDirectory(t), 'x.pem');
    writeFileSync(file, 'no certificate');
    const { server, port } = await startTls(t, { tls: { cert_file: file, key_file: file } });
    await stillServes(server);
    assert.match(server.http.faults().join(), /TLS CERTIFICATE FAULTY/);
    const lan = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await within('the handshake to fail', new Promise((resolve) => lan.once('error', resolve)));
  });

  it('are plain where other machines reach them with http.insecure', async (t) => {
    const server = await startTestServer(t, { http: { listen: ['0.0.0.0:0'], insecure: true } });
    assert.equal((await server.call('GET', '/api/v1/dictionaries')).status, 401);
  });
});

describe('a stop', () => {
  it('lets answers under way finish, refuses new requests, that for readiness too, and ends silent connections', async (t) => {
    const gate = held();
    const server = await startTestServer(t, { refdata: gate.refdata });
    const silent = wire(t, server);
    const busy = wire(t, server, 'GET /readyz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHo');
    await busy.says(/200 OK/);
    const pending = server.ask('POST', '/api/v1/dictionaries', dictionary);
    await until('the request to arrive', gate.called);
    const stopped = server.http.stop();
    busy.socket.write('st: x\r\n\r\n');
    assert.match(await busy.rest(), /HTTP\/1\.1 503 [^]*"code":"SHUTTING_DOWN"/);
    await silent.rest();
    gate.letGo();
    const answer = await pending;
    assert.deepEqual([answer.status, answer.headers.connection], [201, 'close']);
    await within('the stop', stopped);
    const late = wire(t, server);
    assert.equal(await late.rest(), '');
  });

  it('cuts what does not end in time', async (t) => {
    const gate = held();
    const clock = new FakeClock();
    const server = await startTestServer(t, { refdata: gate.refdata, parts: { clock } });
    const pending = server.ask('POST', '/api/v1/dictionaries', dictionary).catch((error: unknown) => error);
    await until('the request to arrive', gate.called);
    const stopped = server.http.stop();
    clock.advance(STOP_GRACE_MS);
    await within('the stop', stopped);
    assert.ok((await pending) instanceof Error);
    gate.letGo();
  });

  it('does not wait for handshakes that never end', async (t) => {
    const clock = new FakeClock();
    const { server, port } = await startTls(t, { parts: { clock } });
    const silent = wire(t, { port });
    await until('the connection', () => silent.socket.readyState === 'open');
    const stopped = server.http.stop();
    clock.advance(STOP_GRACE_MS);
    await within('the stop', stopped);
    await silent.rest();
  });
});
