/** A technician's laptop: the box's interfaces over the network, with TLS and a token. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { Agent, type RequestOptions } from 'node:https';
import { connect } from 'node:tls';
import { CallCredentials, ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { exchange } from '../../src/shared/base/exchange.fixture.ts';
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
  readonly #agent = new Agent({ keepAlive: true });
  readonly #where: RequestOptions;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ ports }: QemuBox, authority: string, token: string) {
    this.#where = { host: '127.0.0.1', port: ports.http, ca: authority, servername: 'localhost', agent: this.#agent };
    this.#headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  }

  /** Rejects where the connection breaks. */
  async send(method: string, path: string, body?: unknown): Promise<Answer> {
    const more = { path: `/api/v1${path}`, method, headers: this.#headers, timeout: REQUEST_LIMIT_MS };
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const { status, text } = await exchange({ ...this.#where, ...more }, sent);
    return { status, body: text };
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
