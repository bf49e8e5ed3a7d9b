/** Beyond the contract: lineside.v1.LineService. */

import Long from 'long';
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { LinesideError } from '../../shared/base/errors.ts';
import { residentBytes } from '../../shared/base/memory.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/log-api.ts';
import type { LineSnapshot } from '../port/line.ts';
import { callerOf } from './auth-interceptor.ts';
import { readBatches } from './batches.ts';
import { sessionResponse, u64 } from './encode.ts';
import { MAX_SESSION_OUTSTANDING } from './limits.ts';
import { readRequest } from './log-requests.ts';
import { type ServiceContext, sendPacket, standing } from './serial-service.ts';
import { type Subscription, subscribed } from './subscriptions.ts';
import type { LineServer } from './wire.ts';

export function lineService(
  parts: ServiceContext,
  version: string,
  faults: () => Pick<ServiceFacts, 'configurationRefused' | 'listenerFault'>,
): ServiceImplementation<typeof LineServer> {
  const { line, log, clock, errorMapper, subscriptions } = parts;
  const startedMs = clock.monoMs();
  let sessions = 0;
  return {
    getStatus: () =>
      errorMapper.answer(async () =>
        lineStatus(line.snapshot(), await log.status(), {
          uptimeMs: whole(clock.monoMs() - startedMs),
          version,
          residentBytes: u64(residentBytes()),
          subscribers: log.readers,
          ...faults(),
        }),
      ),

    readLog: (request: lineside.v1.ReadLogRequest, context: CallContext) =>
      subscribed(parts, context, (subscription) => {
        const batches = readBatches(log, readRequest(request, log.logId), subscription, () => subscriptions.count > 1);
        standing(context, log);
        return batches;
      }),

    getModemLines: () => errorMapper.answer(() => line.modemLines()),

    setModemLines: ({ dtr, rts }: lineside.v1.SetModemLinesRequest) =>
      errorMapper.answer(() =>
        // `optional` fields that were not sent are null in the generated class.
        line.setModemLines({ ...(typeof dtr === 'boolean' && { dtr }), ...(typeof rts === 'boolean' && { rts }) }),
      ),

    sendBreak: ({ durationMs }: lineside.v1.SendBreakRequest) =>
      errorMapper.answer(async () => {
        await line.sendBreak(durationMs);
        return {};
      }),

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      const caller = `${callerOf(context)}#${sessions}`;
      return subscribed(parts, context, (subscription) => {
        standing(context, log);
        return new Session(parts, caller, subscription).run(requests);
      });
    },
  };
}

/** One answer in their order, filled when the line is done with the packet. */
interface Slot {
  answer: Buffer | undefined;
}

/**
 * One Session stream: packets in, their answers out in the same order, and the live log between them. A packet goes to the line in
 * the step that decoded it, and its answer is sent in the step that the line gave it.
 */
class Session {
  readonly #parts: ServiceContext;
  readonly #caller: string;
  readonly #subscription: Subscription;
  readonly #signal: AbortSignal;
  readonly #slots: Slot[] = [];
  /** The next batch of the log, until the client takes it: its reader makes no other before. */
  #batch: Buffer | undefined;
  #reading = true;
  #following = false;
  #logBegun = false;
  #failure: unknown;
  /** The next change: something to hand over, room for a packet, a batch that was taken. Who waits checks its own condition again. */
  #change = Promise.withResolvers<void>();

  constructor(parts: ServiceContext, caller: string, subscription: Subscription) {
    this.#parts = parts;
    this.#caller = caller;
    this.#subscription = subscription;
    this.#signal = subscription.signal;
  }

  /** Ends when the client has ended its side, every answer is out, and the log (if begun) has ended; or by the signal. */
  async *run(requests: AsyncIterable<lineside.v1.SessionRequest>): AsyncGenerator<Buffer, void, undefined> {
    const signal = this.#signal;
    signal.addEventListener('abort', () => this.#changed(), { once: true });
    void this.#watch(this.#read(requests), () => {
      this.#reading = false;
    });
    for (;;) {
      const answer = this.#slots[0]?.answer;
      if (answer !== undefined) {
        this.#slots.shift();
        this.#changed();
        yield answer;
      }
      const batch = this.#batch;
      if (batch !== undefined) {
        yield batch;
        this.#batch = undefined;
        this.#changed();
      }
      if (answer !== undefined || batch !== undefined) continue;
      if (this.#failure !== undefined) throw this.#failure;
      if (signal.aborted) return;
      if (!this.#reading && !this.#following && this.#slots.length === 0) return;
      await this.#change.promise;
    }
  }

  async #read(requests: AsyncIterable<lineside.v1.SessionRequest>): Promise<void> {
    const signal = this.#signal;
    for await (const { send, log } of requests) {
      while (this.#slots.length >= MAX_SESSION_OUTSTANDING && !signal.aborted) await this.#change.promise;
      if (signal.aborted) return;
      if (send) this.#send(send);
      else if (log) this.#follow(log);
      else throw new LinesideError('INVALID_ARGUMENT', 'request: neither send nor log');
    }
  }

  #send(packet: serial.Packet): void {
    const slot: Slot = { answer: undefined };
    this.#slots.push(slot);
    const signal = this.#signal;
    const sent = sendPacket(this.#parts, packet, { caller: this.#caller, signal, deadlineMs: undefined });
    void this.#watch(
      sent.then((answer) => {
        slot.answer = sessionResponse('sent', serial.SendResponse.encode(answer).finish());
      }),
    );
  }

  #follow(request: lineside.v1.ReadLogRequest): void {
    if (this.#logBegun) throw new LinesideError('INVALID_ARGUMENT', 'log: has begun on this stream already');
    const { log, subscriptions } = this.#parts;
    const isShared = (): boolean => subscriptions.count > 1;
    const batches = readBatches(log, readRequest(request, log.logId), this.#subscription, isShared);
    this.#logBegun = true;
    this.#following = true;
    void this.#watch(this.#pump(batches), () => {
      this.#following = false;
    });
  }

  async #pump(batches: AsyncIterable<Buffer>): Promise<void> {
    const signal = this.#signal;
    for await (const batch of batches) {
      this.#batch = sessionResponse('log', batch);
      this.#changed();
      while (this.#batch !== undefined && !signal.aborted) await this.#change.promise;
      if (signal.aborted) return;
    }
  }

  /** The end of the work is a change; the first failure ends the stream. */
  async #watch(work: Promise<void>, after?: () => void): Promise<void> {
    try {
      await work;
    } catch (error) {
      // A client that disconnected fails its reader too; the signal reports that already.
      if (!this.#signal.aborted) this.#failure ??= error;
    }
    after?.();
    this.#changed();
  }

  #changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }
}

// The state of the line and its log as lineside.v1.LineStatus.

const { ClockState, EffectiveSettings, LineCounters, LogState, LogStatus, PortState } = lineside.v1;

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

type ServiceFacts = Pick<
  lineside.v1.LineStatus.$Properties,
  'uptimeMs' | 'version' | 'residentBytes' | 'subscribers' | 'configurationRefused' | 'listenerFault'
>;

function lineStatus(
  { state, stateAgeMs, requested, effective, devicePath, error, kernel, counters, portListChanges }: LineSnapshot,
  log: LogSnapshot,
  service: ServiceFacts,
): lineside.v1.LineStatus.$Properties {
  return {
    ...service,
    portState: PortState[`PORT_STATE_${upper(state)}`],
    ...(requested !== undefined && { requested: serial.SerialConfig.fromObject({ ...requested }) }),
    ...(effective !== undefined && { effective: EffectiveSettings.fromObject({ ...effective }) }),
    portError: error,
    currentPortName: devicePath,
    portStateAgeMs: whole(stateAgeMs),
    counters: LineCounters.fromObject({ ...counters }),
    ...(kernel !== undefined && { kernel }),
    log: LogStatus.fromObject({ ...log, state: LogState[`LOG_STATE_${upper(log.state)}`] }),
    portListChanges: u64(portListChanges),
    clock: { state: clockStates[log.time], correctedByMs: Long.fromNumber(log.correctedByMs ?? 0) },
  };
}

function upper<S extends string>(state: S): Uppercase<S> {
  return state.toUpperCase() as Uppercase<S>;
}

/** Monotonic times come with fractions. */
function whole(ms: number): Long {
  return u64(Math.max(0, Math.floor(ms)));
}
