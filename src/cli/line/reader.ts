/** Reads the log in batches, and continues after the last id when the connection breaks. */
import { PassThrough } from 'node:stream';
import Long from 'long';
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, pause } from '../../shared/base/clock.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { grpcCancelled, grpcDataLoss, grpcOutOfRange, grpcUnavailable, type Service } from '../connection/service.ts';
import { CliFailure, failureLine } from '../failure.ts';
import type { Call } from '../shell.ts';

/** Where a reader stands. */
export interface Position {
  readonly afterId: Long;
  /** Identity of the log; '' while unknown. */
  readonly logId: string;
}

export interface LogQuery extends Position {
  /** Numbers of serial.SerialLogEntry.Direction; empty: both. */
  readonly dirs: readonly number[];
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Begin with the last so many entries; undefined: after `afterId`. */
  readonly last: number | undefined;
  readonly follow: boolean;
}

export interface ReaderEvents {
  /** The connection broke; trying again. */
  broken(failure: CliFailure): void | Promise<void>;
  restored(): void | Promise<void>;
  /** Entries are gone; reading continues with what there is. */
  lost(failure: CliFailure): void | Promise<void>;
}

export interface LinkSettings {
  readonly clock: Clock;
  readonly stop: AbortSignal;
  readonly events: ReaderEvents;
  /** How often to try again without progress. */
  readonly retries: number;
  /** Entries that are gone do not end it: what there is begins at the oldest entry then. */
  readonly follow: boolean;
}

/** The service is back within seconds after a restart: the first attempt is soon, later ones are rare. */
const firstRetryMs = 250;
const longestRetryMs = 5000;

/** A stream of the log that is opened again after a loss. */
export class Link {
  readonly #service: Service;
  readonly #settings: LinkSettings;
  #failures = 0;
  #isBroken = false;
  /** True once the service has answered: a wrong address is not retried without end. */
  #stood = false;

  constructor(service: Service, settings: LinkSettings) {
    this.#service = service;
    this.#settings = settings;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** The service has taken the call. */
  async stands(): Promise<void> {
    this.#stood = true;
    if (!this.#isBroken) return;
    this.#isBroken = false;
    await this.#settings.events.restored();
  }

  progress(): void {
    this.#failures = 0;
  }

  /** Waits for the time of the next attempt. Throws the signal's reason. */
  async pause(): Promise<void> {
    const { clock, stop } = this.#settings;
    await pause(clock, backoffMs(this.#failures, firstRetryMs, longestRetryMs), stop);
    stop.throwIfAborted();
    this.#failures += 1;
  }

  /** Answers from where to read in the next attempt, when it is time for it; throws if there is none. */
  async recover(error: unknown, position: Position): Promise<Position> {
    const { stop, events, retries, follow } = this.#settings;
    stop.throwIfAborted();
    const { grpcStatus } = await import('../connection/channel.ts');
    const code = grpcStatus(error)?.code;
    const failure = await this.#service.failure(error);
    if (!(failure instanceof CliFailure)) throw failure;
    const isReplaced = code === grpcOutOfRange;
    if (follow && (isReplaced || code === grpcDataLoss)) {
      await events.lost(failure);
      await this.pause();
      return { afterId: Long.UZERO, logId: isReplaced ? '' : position.logId };
    }
    const isAway = code === grpcUnavailable || code === grpcCancelled;
    if (!isAway || !this.#stood || this.#failures >= retries) throw failure;
    this.#service.drop();
    if (!this.#isBroken) await events.broken(failure);
    this.#isBroken = true;
    await this.pause();
    return position;
  }
}

/** After a batch: its last id, and the identity of the log as far as it is known. */
function positionAfter({ afterId, logId }: Position, batch: lineside.v1.LogBatch): Position {
  return {
    afterId: batch.nextAfterId.greaterThan(afterId) ? batch.nextAfterId : afterId,
    logId: batch.logId === '' ? logId : batch.logId,
  };
}

function dropThrough(id: Long, batch: lineside.v1.LogBatch): void {
  batch.entries = batch.entries.filter((entry) => entry.id.greaterThan(id));
  batch.gaps = batch.gaps.filter((gap) => gap.lastId.greaterThan(id));
}

export class LogReader {
  readonly #service: Service;
  readonly #query: LogQuery;
  readonly #link: Link;
  readonly #stop: AbortSignal;
  #position: Position;
  #lastPending: number | undefined;

  constructor(service: Service, query: LogQuery, settings: Omit<LinkSettings, 'follow'>) {
    this.#service = service;
    this.#query = query;
    this.#stop = settings.stop;
    this.#link = new Link(service, { ...settings, follow: query.follow });
    this.#position = { afterId: query.afterId, logId: query.logId };
    this.#lastPending = query.last;
  }

  /** After the last batch that the caller has consumed. */
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
        const next = await this.#link.recover(error, this.#position);
        if (next !== this.#position) this.#lastPending = undefined;
        this.#position = next;
      }
    }
  }

  async *#attempt(): AsyncGenerator<lineside.v1.LogBatch> {
    const { line } = await this.#service.channel();
    const isLast = this.#lastPending !== undefined;
    const onHeader = (): void => void this.#link.stands();
    for await (const batch of line.readLog(this.#request(), { signal: this.#stop, onHeader })) {
      await this.#link.stands();
      this.#link.progress();
      this.#lastPending = undefined;
      // `last` knows no id to begin after.
      if (isLast) dropThrough(this.#query.afterId, batch);
      yield batch;
      this.#position = positionAfter(this.#position, batch);
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
}

/** What happens to the connection, on standard error. */
export function announcer(call: Call<object>, outcome = { lost: false }): ReaderEvents {
  return {
    broken: (failure) => call.err.write(`lineside: connection lost: ${failure.message}. Trying again.\n`),
    restored: () => call.err.write('lineside: connected again.\n'),
    lost: async (failure) => {
      outcome.lost = true;
      await call.err.write(failureLine(failure.during('entries are gone')));
    },
  };
}

export interface SessionEvents {
  log(batch: lineside.v1.LogBatch): Promise<void>;
  answered(answer: serial.SendResponse): Promise<void>;
}

type Request = lineside.v1.SessionRequest.$Properties;

/** Packets in flight without an answer: beyond it the keys wait, so that a stuck line holds no heap of them. */
const windowPackets = 64;

/** One LineService.Session kept alive: sends packets, hands over the live log, and connects again after a loss. */
export class LiveSession {
  readonly #service: Service;
  readonly #stop: AbortSignal;
  readonly #link: Link;
  readonly #events: SessionEvents;
  /** Requests of the session; undefined: there is none. */
  #outgoing: PassThrough | undefined;
  readonly #standing = Promise.withResolvers<void>();
  #seq = 0;
  #waiting = 0;
  #position: Position;
  #roomy: (() => void)[] = [];

  /** `position`: the head of the log at the start; what comes while the connection is lost is shown after it. */
  constructor(
    service: Service,
    position: Position,
    settings: Omit<LinkSettings, 'retries' | 'follow'>,
    events: SessionEvents,
  ) {
    this.#service = service;
    this.#position = position;
    this.#stop = settings.stop;
    this.#link = new Link(service, { ...settings, retries: Number.POSITIVE_INFINITY, follow: true });
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
    if (this.#outgoing === undefined || this.#link.isBroken) return false;
    this.#seq += 1;
    this.#waiting += 1;
    this.#outgoing.write({ send: { seqId: Long.fromNumber(this.#seq, true), payload } } satisfies Request);
    return true;
  }

  /** Runs until the signal fires (it throws the signal's reason) or the service refuses. */
  async run(): Promise<never> {
    for (;;) {
      try {
        await this.#attempt().finally(() => this.#drop());
        await this.#link.pause();
      } catch (error) {
        this.#position = await this.#link.recover(error, this.#position);
      }
    }
  }

  async #attempt(): Promise<void> {
    const { line } = await this.#service.channel();
    const outgoing = new PassThrough({ objectMode: true });
    this.#outgoing = outgoing;
    outgoing.write({ log: { ...this.#position, follow: true } } satisfies Request);
    const requests = outgoing as AsyncIterable<Request>;
    const onHeader = (): void => void this.#stands();
    for await (const { sent, log } of line.session(requests, { signal: this.#stop, onHeader })) {
      this.#link.progress();
      await this.#stands();
      if (log != null) {
        await this.#events.log(log);
        this.#position = positionAfter(this.#position, log);
      }
      if (sent != null) {
        this.#waiting -= 1;
        this.#release();
        await this.#events.answered(sent);
      }
    }
  }

  async #stands(): Promise<void> {
    this.#standing.resolve();
    await this.#link.stands();
  }

  #drop(): void {
    this.#outgoing?.end();
    this.#outgoing = undefined;
    this.#waiting = 0;
    this.#release();
  }

  #release(): void {
    for (const resolve of this.#roomy.splice(0)) resolve();
  }
}
