/** Reads the log in batches, and continues after the last id when the connection breaks. */
import Long from 'long';
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, pause } from '../../shared/base/clock.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { grpcCancelled, grpcDataLoss, grpcOutOfRange, grpcUnavailable, type Service } from '../connection/service.ts';
import { CliFailure, failureLine } from '../failure.ts';
import { RemotePort } from '../port/remote-port.ts';
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

/** Waits for the time of an attempt. Throws the signal's reason. */
export async function retryPause(clock: Clock, attempt: number, stop: AbortSignal): Promise<void> {
  await pause(clock, backoffMs(attempt, firstRetryMs, longestRetryMs), stop);
  stop.throwIfAborted();
}

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

  async pause(): Promise<void> {
    await retryPause(this.#settings.clock, this.#failures, this.#settings.stop);
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
      if (isLast) {
        const { afterId } = this.#query;
        batch.entries = batch.entries.filter(({ id }) => id.greaterThan(afterId));
        batch.gaps = batch.gaps.filter(({ lastId }) => lastId.greaterThan(afterId));
      }
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

interface LiveEvents extends ReaderEvents {
  /** As the port receives them. */
  received(bytes: Uint8Array): Promise<void>;
  /** `isLive`: what the port received in it came by received() before. */
  log(batch: lineside.v1.LogBatch, isLive: boolean): Promise<void>;
  portState(state: lineside.v1.PortState): Promise<void>;
  /** Received bytes were not taken in time; the log is handed over again from its last batch on. */
  behind(): Promise<void>;
}

type LiveSettings = Pick<LinkSettings, 'clock' | 'stop'> & { readonly events: LiveEvents };

/** The open port with its log, connected again after a loss: what came meanwhile is read from the log, before what is received then. */
export class LiveSession {
  readonly #service: Service;
  readonly #stop: AbortSignal;
  readonly #events: LiveEvents;
  readonly #link: Link;
  readonly #standing = Promise.withResolvers<void>();
  #position: Position;
  #isLive = false;
  /** The received bytes were not taken in time: the log has them. */
  #isBehind = false;
  /** undefined: there is no connection. */
  port: RemotePort | undefined;

  /** `position`: the head of the log at the start. */
  constructor(service: Service, position: Position, { clock, stop, events }: LiveSettings) {
    this.#service = service;
    this.#position = position;
    this.#stop = stop;
    this.#events = events;
    const lost = (failure: CliFailure): void | Promise<void> =>
      this.#isBehind ? events.behind() : events.lost(failure);
    const settings = { clock, stop, events: { ...events, lost } };
    this.#link = new Link(service, { ...settings, retries: Number.POSITIVE_INFINITY, follow: true });
  }

  /** Resolves when it is connected for the first time: what comes from then on is handed over. */
  get standing(): Promise<void> {
    return this.#standing.promise;
  }

  /** Runs until the signal fires (it throws the signal's reason) or the service refuses. */
  async run(): Promise<never> {
    for (;;) {
      try {
        await this.#attempt();
        await this.#link.pause();
      } catch (error) {
        const position = await this.#link.recover(error, this.#position);
        if (!this.#isBehind) this.#position = position;
      }
    }
  }

  async #attempt(): Promise<void> {
    [this.#isLive, this.#isBehind] = [false, false];
    const { line } = await this.#service.channel();
    const port: RemotePort = new RemotePort(line, {
      received: (bytes) => this.#events.received(bytes),
      event: (event) => this.#stands(port).then(() => this.#event(event)),
      log: (batch) => this.#stands(port).then(() => this.#log(batch)),
    });
    port.receive({ afterLog: true });
    port.followLog(this.#position);
    const end = (): void => void port.end();
    this.#stop.addEventListener('abort', end, { once: true });
    const why = await port.ended;
    this.#stop.removeEventListener('abort', end);
    this.port = undefined;
    await port.delivered;
    if (why !== undefined) throw why;
  }

  async #stands(port: RemotePort): Promise<void> {
    this.port = port;
    this.#standing.resolve();
    this.#link.progress();
    await this.#link.stands();
  }

  async #log(batch: lineside.v1.LogBatch): Promise<void> {
    await this.#events.log(batch, this.#isLive);
    this.#position = positionAfter(this.#position, batch);
  }

  async #event({ portState, lostBytes }: lineside.v1.LineEvent): Promise<void> {
    if (lostBytes != null) this.#isBehind = true;
    if (portState == null) return;
    this.#isLive = true;
    await this.#events.portState(portState);
  }
}
