/**
 * A subscriber for tests: a real HTTPS server on 127.0.0.1 that does with each request what its script says, and records
 * what came: raw bodies, headers, connections, bytes. Its certificates are made once for a test file.
 */

import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type ServerOptions } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import { makeCa, selfSigned, signed } from '../../../shared/base/certificates.fixture.ts';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Names and values as they came, in turn. */
  readonly rawHeaders: readonly string[];
  /** Exactly as it came; empty until it has come whole. */
  body: Buffer;
  /** Which connection brought it, from 1. */
  readonly connection: number;
}

export interface Exchange {
  readonly received: Received;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Under HTTP: for answers that Node's server would not send. */
  readonly socket: Socket;
  /** Under TLS. */
  readonly tcp: Socket;
}

/** Called when a request's head has come; the body is still to be read. */
export type Script = (exchange: Exchange) => void | Promise<void>;

/** Reads the body, then answers. */
export function answer(status: number, headers: Record<string, string> = {}, body: string | Buffer = ''): Script {
  return async (exchange) => {
    await readBody(exchange);
    exchange.response.writeHead(status, headers).end(body);
  };
}

/** Reads the body and never answers. */
export const hang: Script = (exchange) => readBody(exchange);

/** Reads the body, then writes these bytes as the answer, and then does nothing, or closes. */
export function rawAnswer(text: string | Buffer, then: 'wait' | 'close' | 'reset' = 'wait'): Script {
  return async (exchange) => {
    await readBody(exchange);
    if (then === 'reset') return void exchange.tcp.resetAndDestroy();
    if (then === 'wait') exchange.socket.write(text);
    else exchange.socket.end(text);
  };
}

/** Answers headers at once, and a byte of the body every so often, until the connection is gone. */
export function drip(status: number, everyMs: number): Script {
  return async ({ request, received, response, socket }) => {
    await readBody({ request, received });
    response.writeHead(status, { 'content-length': '100000' });
    const timer = setInterval(() => response.write('.'), everyMs);
    socket.once('close', () => clearInterval(timer));
  };
}

/** A body of zeros of any length, as fast as it is taken: Subscriber.bytesWritten says how much that was. */
export function huge(bytes: number, chunked = false): Script {
  return async (exchange) => {
    await readBody(exchange);
    const { response } = exchange;
    response.writeHead(200, chunked ? {} : { 'content-length': String(bytes) });
    const piece = Buffer.alloc(64 * 1024);
    const write = (left: number): void => {
      let rest = left;
      while (rest > 0 && response.write(piece)) rest -= piece.length;
      if (rest > 0) response.once('drain', () => write(rest - piece.length));
      else response.end();
    };
    write(bytes);
  };
}

/** 200 KB that unpack to 200 MB. */
export function gzipBomb(): Script {
  const packed = gzipSync(Buffer.alloc(200 * 1024 * 1024));
  return answer(200, { 'content-encoding': 'gzip', 'content-type': 'text/plain' }, packed);
}

export async function readBody({ request, received }: Pick<Exchange, 'request' | 'received'>): Promise<void> {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  await finished(request, { writable: false });
  received.body = Buffer.concat(pieces);
}

/** Certificates by name, made with openssl in a directory of their own. */
export interface Certificates {
  /** The file of the test's authority. */
  readonly caFile: string;
  readonly good: Pair;
  readonly expired: Pair;
  readonly early: Pair;
  readonly otherName: Pair;
  readonly selfSigned: Pair;
  remove(): void;
}
interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

const hostName = 'subscriber.test';

export function makeCertificates(): Certificates {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-tls-'));
  const names = `DNS:${hostName},DNS:*.${hostName},IP:127.0.0.1`;
  makeCa(dir);
  signed(dir, 'good', names);
  signed(dir, 'other', 'DNS:elsewhere.test');
  selfSigned(dir, 'self', names);
  signed(dir, 'expired', names, { valid: { from: '20200101000000Z', to: '20210101000000Z' } });
  signed(dir, 'early', names, { valid: { from: '20900101000000Z', to: '20910101000000Z' } });
  const pair = (name: string): Pair => {
    return { cert: readFileSync(join(dir, `${name}.pem`)), key: readFileSync(join(dir, `${name}.key`)) };
  };
  return {
    caFile: join(dir, 'ca.pem'),
    good: pair('good'),
    expired: pair('expired'),
    early: pair('early'),
    otherName: pair('other'),
    selfSigned: pair('self'),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Takes connections and says nothing: a TLS handshake that never ends, or with a greeting a server of another protocol. */
export async function silentServer(greeting = ''): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  const first = Promise.withResolvers<void>();
  let connections = 0;
  const server = createTcpServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => {});
    // The handshake's first words, or a proxy's: the peer takes the connection for standing.
    socket.on('data', () => first.resolve());
    if (greeting !== '') socket.write(greeting);
  });
  const port = await listen(server, '127.0.0.1');
  const connected = () => first.promise;
  return { port, connections: () => connections, connected, close: () => close(server, sockets) };
}
export interface SilentServer {
  readonly port: number;
  connections(): number;
  /** Resolves once something has been said to it. */
  connected(): Promise<void>;
  close(): Promise<void>;
}

export class Subscriber {
  readonly received: Received[] = [];
  /** Connections as TCP counts them. */
  connections = 0;
  script: Script = answer(202);
  port = 0;
  readonly #server: ReturnType<typeof createHttpsServer>;
  /** With their numbers. */
  readonly #sockets = new Map<Socket, number>();
  #bytesRead = 0;
  #bytesWritten = 0;

  private constructor(options: ServerOptions) {
    this.#server = createHttpsServer({ keepAliveTimeout: 60_000, ...options });
    this.#server.on('connection', (socket: Socket) => this.#took(socket));
    this.#server.on('request', (request, response) => this.#serve(request, response));
    this.#server.on('tlsClientError', () => {});
    this.#server.on('clientError', () => {});
  }

  /** `options`: a pair of certificate and key at least. */
  static async start(options: ServerOptions, address = '127.0.0.1', port = 0): Promise<Subscriber> {
    const subscriber = new Subscriber(options);
    subscriber.port = await listen(subscriber.#server, address, port);
    return subscriber;
  }

  url(path = '/hook'): string {
    return `https://${hostName}:${this.port}${path}`;
  }

  get last(): Received {
    const last = this.received.at(-1);
    if (last === undefined) throw new Error('nothing was received');
    return last;
  }

  /** TCP connections that are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Resolves once no connection is open: one that the sender has forgotten keeps it, and the test, waiting. */
  drained(): Promise<void> {
    return this.openAtMost(0);
  }

  async openAtMost(count: number): Promise<void> {
    while (this.#sockets.size > count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      for (const socket of this.#sockets.keys()) socket.once('close', resolve);
      await promise;
      for (const socket of this.#sockets.keys()) socket.off('close', resolve);
    }
  }

  /** Of all connections, TLS and all: what the peer sent, and what it took (or the kernel did for it). */
  get bytesRead(): number {
    return this.#bytesRead + [...this.#sockets.keys()].reduce((sum, socket) => sum + socket.bytesRead, 0);
  }
  get bytesWritten(): number {
    return this.#bytesWritten + [...this.#sockets.keys()].reduce((sum, socket) => sum + socket.bytesWritten, 0);
  }

  /** Resolves once so many requests have come. */
  async requests(count: number): Promise<void> {
    while (this.received.length < count) await once(this.#server, 'request');
  }

  /** Ends every connection as a server does that stops. */
  dropConnections(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }

  close(): Promise<void> {
    return close(this.#server, [...this.#sockets.keys()]);
  }

  #took(socket: Socket): void {
    this.connections += 1;
    this.#sockets.set(socket, this.connections);
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#bytesRead += socket.bytesRead;
      this.#bytesWritten += socket.bytesWritten;
    });
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    request.on('error', () => {});
    response.on('error', () => {});
    const { method = '', url: path = '', headers, rawHeaders, socket } = request;
    const [tcp = socket, connection = 0] =
      [...this.#sockets].find(([tcp]) => tcp.remotePort === socket.remotePort) ?? [];
    const received: Received = { method, path, headers, rawHeaders, body: Buffer.alloc(0), connection };
    this.received.push(received);
    // A peer that disconnects while a script reads is part of many tests.
    Promise.resolve(this.script({ received, request, response, socket, tcp })).catch(() => {});
  }
}

async function listen(server: Server, address: string, port = 0): Promise<number> {
  await once(server.listen(port, address), 'listening');
  return (server.address() as AddressInfo).port;
}

async function close(server: Server, sockets: Iterable<Socket>): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  for (const socket of sockets) socket.destroy();
  await closed;
}

/** Where nothing listens. */
export async function freePort(): Promise<number> {
  const server = createTcpServer();
  const port = await listen(server, '127.0.0.1');
  await close(server, []);
  return port;
}
