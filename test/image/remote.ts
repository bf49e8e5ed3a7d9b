/** A technician's laptop: the box's interfaces over the network, with TLS and a token. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { Agent, request } from 'node:https';
import { connect } from 'node:tls';
import { CallCredentials, ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { type Client, connectTo } from '../e2e/daemon.ts';
import type { QemuBox } from './box.ts';

/** Under emulation a request may take seconds. */
const REQUEST_LIMIT_MS = 120_000;

/** PEM of the authority that the box shows, as a client gets it that only knows the fingerprint. */
export function authorityOf({ ports }: QemuBox): Promise<string> {
  return new Promise((settle, reject) => {
    const socket = connect({ host: '127.0.0.1', port: ports.http, rejectUnauthorized: false }, () => {
      const { issuerCertificate } = socket.getPeerCertificate(true);
      socket.destroy();
      settle(new X509Certificate(issuerCertificate.raw).toString());
    });
    socket.once('error', reject);
  });
}

/** `authority`: PEM of the box's own. */
export function grpcClient({ ports }: QemuBox, authority: string, token: string): Client {
  const bearer = CallCredentials.createFromMetadataGenerator((_, done) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    done(null, metadata);
  });
  const secured = credentials.combineChannelCredentials(ChannelCredentials.createSsl(Buffer.from(authority)), bearer);
  return connectTo(`127.0.0.1:${ports.grpc}`, secured, { 'grpc.ssl_target_name_override': 'localhost' });
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

export class HttpClient {
  readonly #agent: Agent;
  readonly #port: number;
  readonly #token: string;

  constructor({ ports }: QemuBox, authority: string, token: string) {
    this.#agent = new Agent({ ca: authority, servername: 'localhost', keepAlive: true });
    this.#port = ports.http;
    this.#token = token;
  }

  /** Rejects where the connection breaks. */
  send(method: string, path: string, body?: unknown): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const options = {
      host: '127.0.0.1',
      port: this.#port,
      path: `/api/v1${path}`,
      method,
      headers,
      agent: this.#agent,
    };
    return new Promise((settle, reject) => {
      const asked = request({ ...options, timeout: REQUEST_LIMIT_MS }, (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => settle({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString() }));
      });
      asked.on('timeout', () => asked.destroy(new Error(`${method} ${path}: no answer`)));
      asked.on('error', reject);
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async expect<T>(status: number, method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.send(method, path, body);
    assert.equal(answer.status, status, `${method} ${path}: ${answer.body}`);
    return JSON.parse(answer.body) as T;
  }

  close(): void {
    this.#agent.destroy();
  }
}
