/** Clients that ask without waiting for answers: thousands of requests written at once, over TCP or TLS. */
import { readFileSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface Place {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

export function dataPaths(address: string, tls = false): Place {
  const { port } = new URL(`http://${address}`);
  return { host: '127.0.0.1', port: Number(port), tls };
}

export interface Requests {
  readonly bytes: Buffer;
  readonly count: number;
  readonly protocol: 'http/1.1' | 'h2';
}

/** Writes requests without waiting and reads what comes. */
export class Flood {
  readonly #socket: Socket;
  /** The other side has closed the connection, or has answered every HTTP request (those with a body, as they are read). */
  readonly over: Promise<void>;

  constructor({ host, port, tls }: Place, { bytes, count, protocol }: Requests) {
    const insecure = { rejectUnauthorized: false, ALPNProtocols: [protocol] };
    this.#socket = tls ? connectTls({ host, port, ...insecure }) : connectTcp(port, host);
    // Reset while it still writes: that is what it asked for.
    this.#socket.on('error', () => undefined);
    this.over = new Promise((resolve) => {
      let answers = 0;
      let last = '';
      this.#socket.on('data', (data) => {
        const text = last + data.toString('latin1');
        answers += text.split(STATUS_LINE).length - 1;
        last = text.slice(1 - STATUS_LINE.length);
        if (answers === count) resolve();
      });
      this.#socket.once('close', () => resolve());
    });
    this.#socket.write(bytes);
  }

  end(): void {
    this.#socket.destroy();
  }
}

const STATUS_LINE = 'HTTP/1.1 ';

/** Of a process, in bytes: the most it had since resetPeak(). */
export function peakBytes(pid: number): number {
  return statusBytes(pid, 'VmHWM');
}

/** proc_pid_clear_refs(5). */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

export function residentBytes(pid: number): number {
  return statusBytes(pid, 'VmRSS');
}

function statusBytes(pid: number, field: string): number {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]) * 1024;
}

export function httpRequests(count: number, method: string, path: string, token: string | undefined): Requests {
  const body = method === 'GET' || method === 'DELETE' ? '' : '{}';
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: box',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ...(body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
  ];
  return { bytes: Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`.repeat(count)), count, protocol: 'http/1.1' };
}

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const [DATA, HEADERS, SETTINGS] = [0, 1, 4];
const [END_STREAM, END_HEADERS] = [1, 4];

/** Calls with an empty message, each a stream of its own, without regard to what the server allows. */
export function grpcCalls(count: number, path: string, token: string | undefined): Requests {
  const fields = [
    // From HPACK's static table: ":method: POST", ":scheme: http".
    Buffer.from([0x83, 0x86]),
    literal(':path', path),
    literal('content-type', 'application/grpc'),
    literal('te', 'trailers'),
    ...(token === undefined ? [] : [literal('authorization', `Bearer ${token}`)]),
  ];
  const head = Buffer.concat(fields);
  const message = Buffer.alloc(5);
  const parts = [Buffer.from(PREFACE), frame(SETTINGS, 0, 0, Buffer.alloc(0))];
  for (let i = 0; i < count; i++) {
    const stream = 2 * i + 1;
    parts.push(frame(HEADERS, END_HEADERS, stream, head), frame(DATA, END_STREAM, stream, message));
  }
  return { bytes: Buffer.concat(parts), count, protocol: 'h2' };
}

/** HPACK, without its tables and without Huffman: names and values of fewer than 127 bytes. */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
