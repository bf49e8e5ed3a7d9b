/**
 * Whether a listener of this process really answers: a connection through the kernel to its own address, and a request.
 * The content of the answer does not matter, nor that one connection too many is refused: a process is at work.
 */
import { request } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import type { ListenAddress } from '../config/listen.ts';

/** The cheapest call there is: its message is five zeros, its answer the state of the line. */
const GRPC_PATH = '/lineside.v1.LineService/GetStatus';
const EMPTY_MESSAGE = Buffer.alloc(5);

/**
 * The address to ask on: the Unix socket, else this machine's own. undefined: there is none of them. Other addresses
 * speak TLS, and what was handed over may lie in a network that this process is not in.
 */
export function probedAddress(listening: readonly ListenAddress[]): ListenAddress | undefined {
  const unix = listening.find(({ kind }) => kind === 'unix');
  return unix ?? listening.find((one) => one.kind === 'tcp' && one.loopback && one.fd === undefined);
}

/** Rejects if no process accepts. Stays pending if one accepts and does not answer: the caller has a limit. */
export async function grpcAnswers(address: ListenAddress): Promise<void> {
  const socket = await accepted(address);
  await new Promise<void>((resolve) => {
    const session = connectHttp2('http://localhost', { createConnection: () => socket });
    const end = (): void => {
      session.destroy();
      resolve();
    };
    // Accepted, and then closed by the remote: one connection too many.
    session.on('error', end).once('close', end);
    const headers = { ':method': 'POST', ':path': GRPC_PATH, 'content-type': 'application/grpc', te: 'trailers' };
    const call = session.request(headers);
    call.on('error', end).once('response', end);
    call.end(EMPTY_MESSAGE);
  });
}

export async function httpAnswers(address: ListenAddress): Promise<void> {
  const socket = await accepted(address);
  await new Promise<void>((resolve) => {
    const asked = request({ path: '/healthz', createConnection: () => socket });
    asked.on('error', () => resolve());
    asked.once('response', (response) => {
      response.resume();
      resolve();
    });
    asked.end();
  });
  socket.destroy();
}

function accepted(address: ListenAddress): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = address.kind === 'unix' ? connect(address.path) : connect(address.port, address.host);
    // Where systemd keeps the socket open, a question that came after the stop is answered by the next process alone: no
    // reason for this one to wait.
    socket.unref();
    socket.once('error', reject);
    socket.once('connect', () => resolve(socket));
  });
}
