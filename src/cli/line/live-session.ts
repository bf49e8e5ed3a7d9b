/** One LineService.Session kept alive: sends packets, hands over the live log, and connects again after a loss. */
import Long from 'long';
import { backoffMs } from '../../shared/base/backoff.ts';
import { pause } from '../../shared/base/clock.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import type { Service } from '../connection/service.ts';
import { grpcCancelled, grpcDataLoss, grpcOutOfRange, grpcUnavailable } from '../connection/service-errors.ts';
import { CliFailure } from '../failure.ts';
import type { Position } from './log-query.ts';
import type { ReaderSettings } from './reader.ts';

export interface SessionEvents {
  log(batch: lineside.v1.LogBatch): Promise<void>;
  answered(answer: serial.SendResponse): Promise<void>;
}

const firstRetryMs = 250;
const longestRetryMs = 5000;
/** Packets on their way without an answer: beyond it the keys wait, so that a stuck line holds no heap of them. */
const windowPackets = 64;

type Outgoing = Mailbox<lineside.v1.SessionRequest.$Properties>;

export class LiveSession {
  readonly #service: Service;
  readonly #settings: Omit<ReaderSettings, 'retries'>;
  readonly #events: SessionEvents;
  #outgoing: Outgoing | undefined;
  readonly #standing = Promise.withResolvers<void>();
  #seq = 0;
  #waiting = 0;
  #position: Position;
  #stood = false;
  #broken = false;
  #roomy: (() => void)[] = [];

  /** `position`: the head of the log at the start; what comes while the connection is lost is shown after it. */
  constructor(service: Service, position: Position, settings: Omit<ReaderSettings, 'retries'>, events: SessionEvents) {
    this.#service = service;
    this.#position = position;
    this.#settings = settings;
    this.#events = events;
  }

  /** Packets without an answer. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves when the live log stands: what is sent from then on is shown. */
  get standing(): Promise<void> {
    return this.#standing.promise;
  }

  /** False: there is no connection, and nothing was sent. Resolves when there is room for the next. */
  async send(payload: Uint8Array): Promise<boolean> {
    while (this.#outgoing !== undefined && this.#waiting >= windowPackets) {
      await new Promise<void>((resolve) => this.#roomy.push(resolve));
    }
    if (this.#outgoing === undefined || this.#broken) return false;
    this.#seq += 1;
    this.#waiting += 1;
    this.#outgoing.put({ send: { seqId: Long.fromNumber(this.#seq, true), payload } });
    return true;
  }

  /** Runs until the signal fires (it throws the signal's reason) or the service refuses. */
  async run(): Promise<never> {
    const { stop } = this.#settings;
    for (let failures = 0; ; failures += 1) {
      try {
        await this.#attempt(() => {
          failures = 0;
        });
      } catch (error) {
        stop.throwIfAborted();
        await this.#recover(error);
      } finally {
        this.#drop();
      }
      stop.throwIfAborted();
      await pause(this.#settings.clock, backoffMs(failures, firstRetryMs, longestRetryMs), stop);
    }
  }

  async #attempt(progress: () => void): Promise<void> {
    const { line } = await this.#service.channel();
    const outgoing: Outgoing = new Mailbox();
    this.#outgoing = outgoing;
    outgoing.put({ log: { ...this.#position, follow: true } });
    const onHeader = (): void => void this.#stands();
    for await (const { sent, log } of line.session(outgoing, { signal: this.#settings.stop, onHeader })) {
      progress();
      await this.#stands();
      if (log != null) await this.#take(log);
      if (sent != null) await this.#answered(sent);
    }
  }

  async #take(batch: lineside.v1.LogBatch): Promise<void> {
    await this.#events.log(batch);
    const { afterId, logId } = this.#position;
    const next = batch.nextAfterId.greaterThan(afterId) ? batch.nextAfterId : afterId;
    this.#position = { afterId: next, logId: batch.logId === '' ? logId : batch.logId };
  }

  async #answered(answer: serial.SendResponse): Promise<void> {
    this.#waiting -= 1;
    this.#release();
    await this.#events.answered(answer);
  }

  async #stands(): Promise<void> {
    this.#stood = true;
    this.#standing.resolve();
    if (!this.#broken) return;
    this.#broken = false;
    await this.#settings.events.restored();
  }

  async #recover(error: unknown): Promise<void> {
    const { grpcStatus } = await import('../connection/channel.ts');
    const code = grpcStatus(error)?.code;
    const failure = await this.#service.failure(error);
    if (!(failure instanceof CliFailure) || !this.#stood) throw failure;
    if (code === grpcDataLoss || code === grpcOutOfRange) {
      this.#position = { afterId: Long.UZERO, logId: '' };
      await this.#settings.events.lost(failure);
    } else if (code === grpcUnavailable || code === grpcCancelled) {
      this.#service.drop();
      if (!this.#broken) await this.#settings.events.broken(failure);
      this.#broken = true;
    } else throw failure;
  }

  #drop(): void {
    this.#outgoing?.close();
    this.#outgoing = undefined;
    this.#waiting = 0;
    this.#release();
  }

  #release(): void {
    for (const resolve of this.#roomy.splice(0)) resolve();
  }
}

/** A queue that one side fills and the other reads as an async iterable: the outgoing half of a stream. */
class Mailbox<T> implements AsyncIterable<T> {
  #items: T[] = [];
  #wake: (() => void) | undefined;
  #closed = false;

  put(item: T): void {
    this.#items.push(item);
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) yield item;
      else if (this.#closed) return;
      else await this.#more();
    }
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }
}
