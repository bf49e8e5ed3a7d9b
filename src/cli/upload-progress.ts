/** How an upload comes along: a bar on a terminal, a line now and then elsewhere, nothing with --json. */
import { byteSize, spanText } from './numbers.ts';
import type { AnyCall } from './shell.ts';
import { cut } from './table.ts';

/** Between two drawings of the bar. */
const drawMs = 100;
/** Between two lines where there is no terminal: a log file is not filled, and silence is not long. */
const lineMs = 5000;
/** While the service checks and stores. */
const waitingMs = 1000;
const barWidth = 24;

export class UploadProgress {
  readonly #call: AnyCall<object>;
  readonly #total: number | undefined;
  readonly #startedAt: number;
  #shownAt: number;
  #bytes = 0;
  #timer: { cancel(): void } | undefined;
  #drawn = false;
  #ended = false;

  /** `total`: in bytes; undefined where it is not known. */
  constructor(call: AnyCall<object>, total: number | undefined) {
    this.#call = call;
    this.#total = total;
    this.#startedAt = call.io.clock.monoMs();
    // A bar is there at once, a line only when it takes its time.
    this.#shownAt = call.err.isTerminal ? this.#startedAt - drawMs : this.#startedAt;
  }

  async sent(bytes: number): Promise<void> {
    this.#bytes += bytes;
    const now = this.#call.io.clock.monoMs();
    if (now - this.#shownAt < (this.#call.err.isTerminal ? drawMs : lineMs)) return;
    this.#shownAt = now;
    await this.#show(`${this.#bar()}${this.#amount()}, ${this.#rate(now)}`);
  }

  /** All is sent. */
  async waiting(): Promise<void> {
    const now = this.#call.io.clock.monoMs();
    const took = spanText(Math.round(now - this.#startedAt));
    await this.#show(`sent ${byteSize(this.#bytes)} in ${took}, ${this.#rate(now)}; it is being stored`);
    if (this.#call.err.isTerminal && !this.#ended) this.#tick(now);
  }

  /** The bar is wiped away; nothing is shown from now on: the answer may come before the upload is noticed to be done. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#drawn) await this.#call.err.write('\r\x1b[K');
    this.#drawn = false;
  }

  #tick(since: number): void {
    const { clock } = this.#call.io;
    this.#timer = clock.timer(waitingMs, () => {
      this.#tick(since);
      const waited = spanText(Math.round(clock.monoMs() - since));
      const text = `sent ${byteSize(this.#bytes)}; it is being stored: ${waited}`;
      // A terminal that is gone is noticed by what comes after.
      this.#show(text).catch(() => undefined);
    });
  }

  async #show(text: string): Promise<void> {
    const { err, json } = this.#call;
    if (json || this.#ended) return;
    if (!err.isTerminal) return err.write(`${text}\n`);
    this.#drawn = true;
    // One column is left: some terminals go to the next line when the last one is filled.
    await err.write(`\r${cut(text, err.width - 1)}\x1b[K`);
  }

  #bar(): string {
    if (!this.#call.err.isTerminal || this.#total === undefined) return '';
    const full = Math.round(this.#part() * barWidth);
    return `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}] `;
  }

  #amount(): string {
    if (this.#total === undefined) return `sent ${byteSize(this.#bytes)}`;
    return `sent ${byteSize(this.#bytes)} of ${byteSize(this.#total)} (${Math.floor(this.#part() * 100)} %)`;
  }

  #part(): number {
    return this.#total === undefined ? 0 : Math.min(1, this.#bytes / this.#total);
  }

  #rate(now: number): string {
    const seconds = Math.max(1, now - this.#startedAt) / 1000;
    return `${byteSize(Math.round(this.#bytes / seconds))}/s`;
  }
}
