/** Reads the log in batches and goes on after the last id when the connection breaks. */
import Long from 'long';
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, pause } from '../../shared/base/clock.ts';
import type { lineside } from '../../shared/proto/services.ts';
import type { Service } from '../connection/service.ts';
import { grpcCancelled, grpcDataLoss, grpcOutOfRange, grpcUnavailable } from '../connection/service-errors.ts';
import { CliFailure, failureLine } from '../failure.ts';
import type { Call } from '../shell.ts';
import type { LogQuery, Position } from './log-query.ts';

export interface ReaderEvents {
  /** The connection broke; trying again. */
  broken(failure: CliFailure): void | Promise<void>;
  restored(): void | Promise<void>;
  /** Entries are gone; reading goes on with what there is. */
  lost(failure: CliFailure): void | Promise<void>;
}

export interface ReaderSettings {
  readonly clock: Clock;
  readonly stop: AbortSignal;
  /** How often to try again without progress before giving up. */
  readonly retries: number;
  readonly events: ReaderEvents;
}

/** The service is back within seconds after a restart: a first look soon, then a slow knock. */
const firstRetryMs = 250;
const longestRetryMs = 5000;

export class LogReader {
  readonly #service: Service;
  readonly #query: LogQuery;
  readonly #settings: ReaderSettings;
  #position: Position;
  #lastPending: number | undefined;
  #failures = 0;
  #broken = false;
  /** True once the service has answered at all: a wrong address is not tried for ever. */
  #stood = false;

  constructor(service: Service, query: LogQuery, settings: ReaderSettings) {
    this.#service = service;
    this.#query = query;
    this.#settings = settings;
    this.#position = { afterId: query.afterId, logId: query.logId };
    this.#lastPending = query.last;
  }

  /** After the last batch that was asked to be followed by another. */
  get position(): Position {
    return this.#position;
  }

  async *batches(): AsyncGenerator<lineside.v1.LogBatch> {
    for (;;) {
      try {
        yield* this.#attempt();
        if (!this.#query.follow) return;
        this.#lastPending = undefined;
      } catch (error) {
        this.#settings.stop.throwIfAborted();
        await this.#recover(error);
      }
    }
  }

  async *#attempt(): AsyncGenerator<lineside.v1.LogBatch> {
    const { line } = await this.#service.channel();
    const signal = this.#settings.stop;
    const floor = this.#position.afterId;
    const onHeader = (): void => void this.#stands();
    for await (const batch of line.readLog(this.#request(), { signal, onHeader })) {
      await this.#stands();
      this.#failures = 0;
      this.#lastPending = undefined;
      yield batch;
      const logId = batch.logId === '' ? this.#position.logId : batch.logId;
      const afterId = batch.nextAfterId.greaterThan(floor) ? batch.nextAfterId : floor;
      this.#position = { afterId, logId };
    }
  }

  #request() {
    const { dirs, sinceMs, untilMs, follow } = this.#query;
    const { afterId, logId } = this.#position;
    const filters = {
      dirs: [...dirs],
      sinceMs: Long.fromNumber(sinceMs, true),
      untilMs: Long.fromNumber(untilMs, true),
    };
    if (this.#lastPending !== undefined)
      return { ...filters, last: true, limit: Long.fromNumber(this.#lastPending, true) };
    return { ...filters, afterId, logId, follow };
  }

  async #stands(): Promise<void> {
    this.#stood = true;
    if (!this.#broken) return;
    this.#broken = false;
    await this.#settings.events.restored();
  }

  async #recover(error: unknown): Promise<void> {
    const { grpcStatus } = await import('../connection/channel.ts');
    const status = grpcStatus(error);
    const failure = await this.#service.failure(error);
    if (status === undefined || !(failure instanceof CliFailure)) throw failure;
    if (this.#query.follow && (status.code === grpcDataLoss || status.code === grpcOutOfRange))
      return this.#restart(failure, status.code);
    if (status.code !== grpcUnavailable && status.code !== grpcCancelled) throw failure;
    if (this.#failures >= this.#settings.retries || !this.#stood) throw failure;
    await this.#retry(failure);
  }

  async #retry(failure: CliFailure): Promise<void> {
    const { clock, stop, events } = this.#settings;
    this.#service.drop();
    if (!this.#broken) await events.broken(failure);
    this.#broken = true;
    await pause(clock, backoffMs(this.#failures, firstRetryMs, longestRetryMs), stop);
    stop.throwIfAborted();
    this.#failures += 1;
  }

  /** Entries were removed before they were read, or the log was replaced: what there is begins at its oldest entry. */
  async #restart(failure: CliFailure, code: number): Promise<void> {
    await this.#settings.events.lost(failure);
    const replaced = code === grpcOutOfRange;
    this.#position = { afterId: Long.UZERO, logId: replaced ? '' : this.#position.logId };
    this.#lastPending = undefined;
    await pause(this.#settings.clock, firstRetryMs, this.#settings.stop);
    this.#settings.stop.throwIfAborted();
  }
}

/** What happens to the connection, on standard error. */
export function announcer(call: Call<object>, outcome: { lost: boolean }): ReaderEvents {
  return {
    broken: (failure) => call.err.write(`lineside: connection lost: ${failure.message}. Trying again.\n`),
    restored: () => call.err.write('lineside: connected again.\n'),
    lost: async (failure) => {
      outcome.lost = true;
      await call.err.write(failureLine(failure.during('entries are gone')));
    },
  };
}
