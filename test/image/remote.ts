/** A technician's laptop: the box's interfaces over the network, with TLS and a token. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, type RequestOptions } from 'node:https';
import { connect } from 'node:tls';
import { CallCredentials, ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { exchange } from '../../src/shared/base/exchange.fixture.ts';
import { type Client, connectTo } from '../e2e/daemon.ts';
import type { QemuBox } from './box.ts';

/** Under emulation a request may take seconds. */
const REQUEST_LIMIT_MS = 120_000;
/** Without a byte: a bundle is read three times before the answer. */
const UPLOAD_LIMIT_MS = 600_000;

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
  readonly #agent = new Agent({ keepAlive: true });
  readonly #where: RequestOptions;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ ports }: QemuBox, authority: string, token: string) {
    this.#where = { host: '127.0.0.1', port: ports.http, ca: authority, servername: 'localhost', agent: this.#agent };
    this.#headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  }

  /** Rejects where the connection breaks. */
  async send(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.#exchange(method, path, body === undefined ? undefined : JSON.stringify(body));
  }

  async #exchange(method: string, path: string, body?: string | Uint8Array, more?: RequestOptions): Promise<Answer> {
    const all = { path: `/api/v1${path}`, method, headers: this.#headers, timeout: REQUEST_LIMIT_MS, ...more };
    const { status, text } = await exchange({ ...this.#where, ...all }, body);
    return { status, body: text };
  }

  /** The answer to a file, which the box checks before it answers. */
  async upload<T>(path: string, file: string): Promise<T> {
    const headers = { ...this.#headers, 'content-type': 'application/octet-stream' };
    const more = { headers, timeout: UPLOAD_LIMIT_MS };
    return answered(`PUT ${path}`, 200, await this.#exchange('PUT', path, readFileSync(file), more)) as T;
  }

  async expect<T>(status: number, method: string, path: string, body?: unknown): Promise<T> {
    return answered(`${method} ${path}`, status, await this.send(method, path, body)) as T;
  }

  close(): void {
    this.#agent.destroy();
  }
}

function answered(request: string, status: number, answer: Answer): unknown {
  assert.equal(answer.status, status, `${request}: ${answer.body}`);
  return answer.body === '' ? undefined : (JSON.parse(answer.body) as unknown);
}
