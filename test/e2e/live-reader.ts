/** A reader of the log that notes what it gets and how its stream ends. */
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { lineside } from '../../src/shared/proto/services.ts';
import type { Client } from './daemon.ts';
import { RX } from './faults.ts';

export class LiveReader {
  readonly ids: number[] = [];
  /** Timestamps, in milliseconds. */
  readonly stamps: number[] = [];
  /** Notes of LogRaw entries. */
  readonly notes: string[] = [];
  readonly #stop = new AbortController();
  rxBytes = 0;
  /** How the stream ended: '' while it goes on, else the error's text, or 'end'. */
  ended = '';
  readonly over: Promise<void>;

  private constructor(client: Client, request: lineside.v1.ReadLogRequest.$Properties, onStanding: () => void) {
    this.over = this.#run(client, request, onStanding);
  }

  /** Resolves when the subscription stands. */
  static async start(
    client: Client,
    request: lineside.v1.ReadLogRequest.$Properties = { liveOnly: true, follow: true },
  ): Promise<LiveReader> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const reader = new LiveReader(client, request, resolve);
    await Promise.race([promise, reader.over]);
    return reader;
  }

  async has(rxBytes: number, limitMs?: number): Promise<void> {
    await until(`${rxBytes} bytes at a reader`, () => this.rxBytes >= rxBytes || this.ended !== '', limitMs);
    if (this.rxBytes < rxBytes) throw new Error(`reader ended at ${this.rxBytes} of ${rxBytes} bytes: ${this.ended}`);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.over;
  }

  async #run(client: Client, request: lineside.v1.ReadLogRequest.$Properties, onStanding: () => void): Promise<void> {
    try {
      const stream = client.line.readLog(request, { signal: this.#stop.signal, onHeader: onStanding });
      for await (const { entries } of stream) for (const { id, entry } of entries) this.#take(Number(id), entry);
      this.ended = 'end';
    } catch (error) {
      this.ended = String(error);
    }
  }

  #take(id: number, entry: lineside.v1.LogEntry.$Shape['entry']): void {
    this.ids.push(id);
    this.stamps.push(Number(entry?.timestamp));
    if (entry?.note !== undefined && entry.note !== '') this.notes.push(entry.note);
    else if (entry?.dir === RX) this.rxBytes += entry.rawData?.length ?? 0;
  }
}
