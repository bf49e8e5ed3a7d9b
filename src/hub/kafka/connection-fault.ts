/**
 * Why there is no connection: librdkafka's texts are explained; a refused certificate is diagnosed with Node's TLS, because
 * librdkafka reports only "certificate verify failed"; each reason is logged once.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { systemCode } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { troubleOf } from './librdkafka-errors.ts';

const CONNECTING = 'connecting';
/** Log lines during one disconnection, each with another reason: librdkafka's texts may alternate for weeks. */
const REASONS_LOGGED = 20;

export class ConnectionFault {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #of: { readonly bootstrap: string; readonly caFile: string };
  reason = 'not started';
  readonly #logged = new Set<string>();
  #connected = false;
  #stopped = false;
  #isDiagnosing = false;
  /** The fault of the certificate, while that is the reason. */
  #certificate = '';

  constructor(of: { readonly bootstrap: string; readonly caFile: string }, clock: Clock, logger: Logger) {
    this.#of = of;
    this.#clock = clock;
    this.#logger = logger;
  }

  connecting(): void {
    this.reason = CONNECTING;
  }

  connected(): void {
    this.#connected = true;
    this.#certificate = '';
    this.#logged.clear();
  }

  setReason(reason: string): void {
    this.#connected = false;
    this.reason = reason;
    if (this.#stopped || this.#logged.has(reason) || this.#logged.size >= REASONS_LOGGED) return;
    this.#logged.add(reason);
    this.#logger.warn('kafka not connected', { reason });
  }

  /** No broker answered; a line of librdkafka's log may have given a better reason. */
  noAnswer(reason: string): void {
    if (this.reason === CONNECTING) this.setReason(`${this.#of.bootstrap}: ${reason}`);
  }

  /** Nothing is logged or diagnosed afterwards. */
  stop(): void {
    this.#stopped = true;
    this.setReason('stopped');
  }

  logLine(line: string): void {
    if (this.#connected || this.#stopped) return;
    const { reason, certificate } = troubleOf(line);
    if (!certificate) this.#certificate = '';
    this.setReason(this.#certificate === '' ? reason : this.#certificate);
    if (certificate && !this.#isDiagnosing && this.#certificate === '') void this.#diagnoseCertificate(reason);
  }

  async #diagnoseCertificate(reason: string): Promise<void> {
    this.#isDiagnosing = true;
    const address = /^\S+:\d+(?=: )/.exec(reason)?.[0] ?? this.#of.bootstrap.split(',')[0] ?? '';
    const found = await diagnoseTls(address, this.#of.caFile, this.#clock);
    this.#isDiagnosing = false;
    if (found === undefined || this.#connected || this.#stopped) return;
    this.#certificate = `${address}: ${found}`;
    this.setReason(this.#certificate);
  }
}

const DIAGNOSIS_LIMIT_MS = 5_000;

/** undefined: no fault was found. Never rejects. */
function diagnoseTls(address: string, caFile: string, clock: Clock): Promise<string | undefined> {
  const colon = address.lastIndexOf(':');
  const [host, port] = [address.slice(0, colon).replaceAll(/[[\]]/g, ''), Number(address.slice(colon + 1))];
  return new Promise((resolve) => {
    const options: ConnectionOptions = { host, port, rejectUnauthorized: false };
    if (isIP(host) === 0) options.servername = host;
    let socket: TLSSocket | undefined;
    const done = (text: string | undefined): void => {
      limit.cancel();
      socket?.destroy();
      resolve(text);
    };
    const limit = clock.timer(DIAGNOSIS_LIMIT_MS, () => done(undefined));
    try {
      if (caFile !== '') options.ca = readFileSync(caFile);
      socket = connect(options, () => done(socket === undefined ? undefined : faultOf(socket, host)));
      socket.on('error', () => done(undefined));
    } catch (error) {
      done(`kafka.ca_file cannot be read (${systemCode(error)}): ${caFile}`);
    }
  });
}

function faultOf(socket: TLSSocket, host: string): string | undefined {
  const error: unknown = socket.authorizationError;
  const code = typeof error === 'string' ? error : systemCode(error);
  const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
  switch (code) {
    case '':
      return undefined;
    case 'CERT_HAS_EXPIRED':
      return `the broker's certificate has expired (${to}); or this device's clock is wrong`;
    case 'CERT_NOT_YET_VALID':
      return `the broker's certificate is not valid before ${from}; or this device's clock is wrong`;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the broker's certificate is not for ${host}`;
    default:
      return `the broker's certificate is not from an authority that kafka.ca_file names (${code})`;
  }
}
