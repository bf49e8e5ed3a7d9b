/**
 * Why there is no connection, as plainly as it can be found out: librdkafka's own words are translated, a refused
 * certificate is looked at, and each reason is logged once.
 */
import type { Clock } from '../../shared/base/clock.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { troubleOf } from './librdkafka-errors.ts';

const CONNECTING = 'connecting';
/** Lines in the log about one absence, each with another reason. */
const REASONS_LOGGED = 20;

export class ConnectionFault {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #of: { readonly bootstrap: string; readonly caFile: string };
  #reason = 'not started';
  /** Reasons of this absence: librdkafka's words may alternate for weeks. */
  readonly #logged = new Set<string>();
  #connected = false;
  #stopped = false;
  #isDiagnosing = false;
  /** What is wrong with the certificate, while that is what is wrong. */
  #certificate = '';

  constructor(of: { readonly bootstrap: string; readonly caFile: string }, clock: Clock, logger: Logger) {
    this.#of = of;
    this.#clock = clock;
    this.#logger = logger;
  }

  get reason(): string {
    return this.#reason;
  }

  connecting(): void {
    this.#reason = CONNECTING;
  }

  /** Connected: whatever comes now is another story. */
  connected(): void {
    this.#connected = true;
    this.#certificate = '';
    this.#logged.clear();
  }

  setReason(reason: string): void {
    this.#connected = false;
    this.#reason = reason;
    if (this.#stopped || this.#logged.has(reason) || this.#logged.size >= REASONS_LOGGED) return;
    this.#logged.add(reason);
    this.#logger.warn('kafka not connected', { reason });
  }

  /** No broker answered; librdkafka's log may have said more. */
  noAnswer(text: string): void {
    if (this.#reason === CONNECTING) this.setReason(`no broker answers at ${this.#of.bootstrap} (${text})`);
  }

  /** The last reason: nothing is logged or looked up any more. */
  stop(): void {
    this.#stopped = true;
    this.setReason('stopped');
  }

  /** A line of librdkafka's log. */
  logLine(line: string): void {
    if (this.#connected || this.#stopped) return;
    const { reason, certificate } = troubleOf(line);
    if (!certificate) this.#certificate = '';
    this.setReason(this.#certificate === '' ? reason : this.#certificate);
    if (certificate && !this.#isDiagnosing && this.#certificate === '') void this.#diagnoseCertificate(reason);
  }

  async #diagnoseCertificate(reason: string): Promise<void> {
    this.#isDiagnosing = true;
    const { diagnoseTls } = await import('./diagnose-tls.ts');
    const address = /^\S+:\d+(?=: )/.exec(reason)?.[0] ?? this.#of.bootstrap.split(',')[0] ?? '';
    const found = await diagnoseTls(address, this.#of.caFile, this.#clock);
    this.#isDiagnosing = false;
    if (found === undefined || this.#connected || this.#stopped) return;
    this.#certificate = `${address}: ${found}`;
    this.setReason(this.#certificate);
  }
}
