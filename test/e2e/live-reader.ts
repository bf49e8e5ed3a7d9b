/** A reader of the log that keeps what it gets and how its stream ends. */
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { lineside } from '../../src/shared/proto/services.ts';
import type { Client } from './daemon.ts';
import { RX } from './faults.ts';

export class LiveReader {
  readonly entries: lineside.v1.LogEntry.$Shape[] = [];
  readonly #stop = new AbortController();
  rxBytes = 0;
  /** How the stream ended: '' until then, else the error's text, or 'end'. */
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

  get ids(): number[] {
    return this.entries.map(({ id }) => Number(id));
  }

  get notes(): string[] {
    return this.entries.flatMap(({ entry }) => entry?.note || []);
  }

  /** The bytes received from the line, in log order. */
  received(): Buffer {
    return Buffer.concat(this.entries.flatMap(({ entry }) => (entry?.dir === RX ? (entry.rawData ?? []) : [])));
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
      for await (const { entries } of stream) {
        this.entries.push(...entries);
        for (const { entry } of entries) if (entry?.dir === RX) this.rxBytes += entry.rawData?.length ?? 0;
      }
      this.ended = 'end';
    } catch (error) {
      this.ended = String(error);
    }
  }
}
