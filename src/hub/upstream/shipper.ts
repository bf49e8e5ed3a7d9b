/**
 * Ships the serial log to the central side: reads what is stored, packs it, sends it in batches, and moves its position when the
 * remote has one and all before it. The loop around the table of next-step.ts. Whatever fails is tried again for as long as it
 * takes; memory holds the batches in flight, one that waits, and the entries read for the next.
 */
import type { Alert } from '../../shared/base/alerts.ts';
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, endsWithin, withLimit } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { Loop } from '../../shared/base/loop.ts';
import { correctionsOf, nothingUnset, unsetAfter } from './corrections.ts';
import type { LineLog } from './line-log.ts';
import { MIN_BYTES, Pace } from './link-limits.ts';
import { LogCursor } from './log-cursor.ts';
import { type Action, nextStep, type Situation, type Waiting } from './next-step.ts';
import { CORRECTION_BYTES, type Correction, encode, FRAME_BYTES, type Packed, unsetIn } from './packer.ts';
import { PersistedState, type Positions } from './persisted-state.ts';
import { type UpstreamState, type UpstreamStatus, upstreamAlerts } from './status.ts';
import type { SendOutcome, Transport, UpstreamSettings } from './transport.ts';
import { UpstreamStats } from './upstream-stats.ts';

export interface ShipperOptions {
  readonly transport: Transport;
  readonly line: LineLog;
  readonly file: Positions;
  readonly deviceId: string;
  readonly settings: Pick<UpstreamSettings, 'batchBytes' | 'lingerMs' | 'maxKbitPerS' | 'maxBytesPerDay'>;
  /** Change events wait that can go now: they go first. */
  readonly busy: () => boolean;
  /** A batch in flight for longer is abandoned. */
  readonly sendLimitMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 to below 1: boxes that lost the same broker do not come back all at once. */
  readonly random?: () => number;
}

/** The remote is tried again after a time that doubles between these. */
const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** Nothing to send for so long: a connection that is kept costs more than one that is made again (56 KiB at 100 bytes a second). */
const REST_MS = 600_000;
/** After an unexpected failure, and while the position file cannot be read. */
const FAILED_PASS_MS = 1_000;
/** Beyond the time limits of the calls. */
const STILL_MS = 90_000;

interface Held {
  readonly packed: Packed;
  readonly bytes: Uint8Array;
  readonly cost: number;
  /** The batch corrects times that were sent before the clock was set, up to this entry; 0: none. */
  readonly correctsTo: number;
}

interface InFlight extends Held {
  readonly fromMs: number;
  outcome?: SendOutcome;
  /** A transport threw, which it must not. */
  fault?: unknown;
  /** When there is an outcome. */
  settled: Promise<void>;
}

export class Shipper {
  readonly #o: ShipperOptions;
  readonly #stats: UpstreamStats;
  readonly #cursor: LogCursor;
  readonly #persistedState: PersistedState;
  readonly #pace: Pace;
  readonly #loop: Loop;
  readonly #alertsOf: ReturnType<typeof upstreamAlerts>;
  #held: Held | undefined;
  readonly #inFlight: InFlight[] = [];
  /** Those in flight. */
  #abandoning = new AbortController();
  /** Bytes of a batch, where the remote has found a larger one too large. */
  #mostBytes: number;
  /** The log whose position the remote has given since it last failed; '': none. */
  #asked = '';
  #failures = 0;
  #retryAtMs = 0;
  #refusal = '';
  #idleSinceMs: number | undefined;
  #state: UpstreamState = 'waiting for the line';
  readonly #acts: Readonly<Record<Action, (signal: AbortSignal) => Promise<void> | void>> = {
    refresh: (signal) => this.#cursor.refresh(signal),
    read: (signal) => this.#cursor.read(this.#wantedBytes(), signal),
    correct: (signal) => this.#correct(signal),
    pack: () => this.#pack(),
    ask: (signal) => this.#ask(signal),
    send: () => this.#send(),
  };

  constructor(options: ShipperOptions) {
    this.#o = options;
    const { clock, settings, transport, logger, sendLimitMs } = options;
    const { batchBytes, lingerMs, maxKbitPerS, maxBytesPerDay } = settings;
    this.#mostBytes = Math.min(batchBytes, transport.maxBytes - FRAME_BYTES);
    this.#pace = new Pace(maxKbitPerS, this.#mostBytes, clock.monoMs());
    this.#alertsOf = upstreamAlerts(clock.monoMs());
    this.#stats = new UpstreamStats(logger, transport.name);
    this.#cursor = new LogCursor({ ...options, lingerMs, stats: this.#stats });
    this.#persistedState = new PersistedState({ ...options, maxBytesPerDay, stats: this.#stats, cursor: this.#cursor });
    // One entry that cannot be sent does not stop the other passes.
    const failures = { failed: (error: string) => this.#stats.unexpected.failed(error), recovered: () => undefined };
    const limits = { retryFirstMs: FAILED_PASS_MS, retryMaxMs: FAILED_PASS_MS, stalledMs: sendLimitMs + STILL_MS };
    this.#loop = new Loop({ pass: (signal) => this.#pass(signal), failures, clock, ...limits });
  }

  start(): void {
    this.#o.transport.start(() => this.#transportChanged());
    this.#loop.start();
  }

  /** Batches in flight get up to limitMs to arrive. */
  async stop(limitMs: number): Promise<void> {
    const { clock, line } = this.#o;
    const endMs = clock.monoMs() + limitMs;
    await this.#loop.stop(limitMs);
    await endsWithin(clock, Math.max(0, endMs - clock.monoMs()), this.#allSettled());
    this.#settleStored();
    await this.#abandon();
    line.end();
    await this.#o.transport.stop();
    await this.#persistedState.close();
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#loop.assertAlive();
  }

  status(): UpstreamStatus {
    const { transport, clock } = this.#o;
    const nowMs = clock.monoMs();
    const { current, all } = this.#cursor.positions;
    return {
      to: transport.name,
      state: this.#state,
      reason: this.#reason(),
      connected: transport.state().connected,
      lagEntries: all.reduce((sum, { lastId, afterId }) => sum + Math.max(0, lastId - afterId), 0),
      oldestUnsentAgeS: Math.floor(this.#cursor.ageMs(nowMs) / 1_000),
      ...this.#stats.counters,
      budgetUsedBytes: this.#persistedState.budget.used(nowMs),
      budgetLimitBytes: this.#persistedState.budget.limit,
      position: current?.afterId ?? 0,
      logId: current?.logId ?? '',
    };
  }

  alerts(): readonly Alert[] {
    return this.#alertsOf(this.status(), this.#o.clock.monoMs());
  }

  async #pass(signal: AbortSignal): Promise<number> {
    if (!(await this.#persistedState.load())) return FAILED_PASS_MS;
    this.#overhead();
    await this.#settle();
    const step = nextStep(this.#situation());
    if (step.do !== 'wait' && step.do !== 'refresh') this.#idleSinceMs = undefined;
    if (step.do === 'wait') this.#idle(step.state);
    else await this.#acts[step.do](signal);
    await this.#persistedState.saveIfDue();
    return step.do === 'wait' ? step.ms : 0;
  }

  #situation(): Situation {
    const { clock, busy, transport } = this.#o;
    const nowMs = clock.monoMs();
    const held = this.#held;
    const asked = this.#asked !== '' && this.#asked === this.#cursor.positions.current?.logId;
    return {
      lineAnswers: this.#cursor.trouble === '',
      refreshInMs: this.#cursor.refreshInMs(nowMs),
      hasMore: this.#cursor.hasMore,
      read: this.#cursor.readState(this.#wantedBytes()),
      lingerMs: this.#cursor.lingerMs(nowMs),
      correctable:
        this.#persistedState.unset.ranges.length > 0 && this.#cursor.isClockSet(this.#persistedState.unset.logId),
      packed: held !== undefined,
      inFlight: this.#inFlight.length > 0,
      hasRoom: held !== undefined && this.#hasRoom(held.bytes.length),
      retryMs: this.#retryAtMs - nowMs,
      busy: held !== undefined && busy(),
      affordable: held === undefined || this.#affordable(held.cost + (asked ? 0 : transport.connectBytes), nowMs),
      asked,
      paceMs: held === undefined || !asked ? 0 : this.#pace.waitMs(held.cost, nowMs),
    };
  }

  #hasRoom(bytes: number): boolean {
    if (this.#inFlight.length === 0) return true;
    const all = this.#inFlight.reduce((sum, one) => sum + one.bytes.length, bytes);
    return this.#pace.carries(all) && this.#o.transport.hasRoom(bytes);
  }

  #affordable(bytes: number, nowMs: number): boolean {
    const affordable = this.#persistedState.budget.left(nowMs) >= bytes;
    this.#stats.budget(affordable, this.#persistedState.budget.used(nowMs), this.#persistedState.budget.limit);
    return affordable;
  }

  /** Of the next batch: what the link, the remote and the budget have room for. */
  #wantedBytes(): number {
    const left = this.#persistedState.budget.left(this.#o.clock.monoMs()) / 2;
    return Math.min(this.#pace.batchBytes, this.#mostBytes, Math.max(MIN_BYTES, left));
  }

  /** Sent at once, in a batch of its own: the next entry may come much later. */
  async #correct(signal: AbortSignal): Promise<void> {
    const { line } = this.#o;
    const { logId, ranges } = this.#persistedState.unset;
    const corrections = await this.#cursor.asked(signal, () =>
      correctionsOf(ranges, (id) => {
        // Many reads, each with a time limit of its own.
        this.#loop.beat();
        return line.timeAt(logId, id, signal);
      }),
    );
    if (corrections === undefined) return;
    const packed = this.#cursor.emptyBatch();
    if (corrections.length === 0 || packed === undefined) this.#persistedState.unset = nothingUnset;
    else this.#hold(packed, corrections.slice(0, Math.max(1, Math.floor(this.#mostBytes / CORRECTION_BYTES))));
  }

  #pack(): void {
    const packed = this.#cursor.take(this.#wantedBytes());
    if (packed !== undefined) this.#hold(packed);
  }

  #hold(packed: Packed, corrections: readonly Correction[] = []): void {
    const { transport, deviceId } = this.#o;
    const bytes = encode(packed, deviceId, corrections);
    const { limit } = this.#persistedState.budget;
    const cost = transport.cost(bytes);
    if (bytes.length > transport.maxBytes && packed.entries > 0)
      this.#cursor.cut(packed, `${bytes.length} bytes are more than the ${transport.maxBytes} that can be sent`);
    // It would block, without end, everything behind it.
    else if (limit > 0 && cost + transport.connectBytes > limit && packed.entries > 0)
      this.#cursor.cut(packed, `${cost} bytes on the link are more than the data budget of a day has room for`);
    else this.#held = { packed, bytes, cost, correctsTo: corrections.at(-1)?.lastId ?? 0 };
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { current } = this.#cursor.positions;
    if (current === undefined) return;
    try {
      const position = await this.#o.transport.position(current.logId, signal);
      this.#asked = current.logId;
      this.#stats.reached();
      if (position !== undefined && this.#cursor.resumeAt(position)) this.#held = undefined;
    } catch (error) {
      if (!signal.aborted) this.#failed(messageOf(error));
    }
  }

  async #send(): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    this.#state = 'sending';
    await this.#persistedState.noteUnset(held.packed, unsetIn(held.packed) ?? []);
    const fromMs = this.#o.clock.monoMs();
    this.#pace.spent(held.cost, fromMs);
    // Not when there is an outcome: a kill would forget what is in flight.
    this.#persistedState.charge(held.cost, fromMs);
    this.#held = undefined;
    const sent: InFlight = { ...held, fromMs, settled: Promise.resolve() };
    this.#inFlight.push(sent);
    sent.settled = this.#outcomeOf(sent);
  }

  async #outcomeOf(sent: InFlight): Promise<void> {
    const { clock, transport, sendLimitMs } = this.#o;
    const send = (limit: AbortSignal): Promise<SendOutcome> => transport.send(sent.bytes, sent.packed, limit);
    try {
      // With a limit, so that a transport that hangs does not hold up the others.
      sent.outcome = await withLimit(clock, sendLimitMs, this.#abandoning.signal, send);
    } catch (error) {
      sent.fault = error;
      sent.outcome = { kind: 'unreached', reason: messageOf(error) };
    }
    this.#loop.wake();
  }

  async #settle(): Promise<void> {
    this.#settleStored();
    const [first] = this.#inFlight;
    if (first?.outcome !== undefined && first.outcome.kind !== 'stored') await this.#notStored(first, first.outcome);
  }

  /** In order: the position moves when all before are stored. */
  #settleStored(): void {
    for (let [first] = this.#inFlight; first?.outcome?.kind === 'stored'; [first] = this.#inFlight) this.#stored(first);
  }

  #stored(sent: InFlight): void {
    const { packed, cost, bytes, fromMs, correctsTo } = sent;
    this.#inFlight.shift();
    this.#stats.counters.wireBytes += cost;
    this.#failures = 0;
    this.#refusal = '';
    this.#pace.arrived(bytes.length, cost, this.#o.clock.monoMs() - fromMs);
    this.#stats.connected();
    this.#stats.sent(packed);
    this.#cursor.acknowledged(packed);
    if (correctsTo > 0) this.#persistedState.unset = unsetAfter(this.#persistedState.unset, correctsTo);
  }

  #abandoned({ cost, outcome }: InFlight): void {
    const nowMs = this.#o.clock.monoMs();
    if (outcome?.kind !== 'unreached' || outcome.unsent !== true) {
      this.#stats.counters.wireBytes += cost;
      return;
    }
    this.#pace.spent(-cost, nowMs);
    this.#persistedState.charge(-cost, nowMs);
  }

  /** With those behind it, which are packed again: the remote gets no entry before the ones in front of it. */
  async #notStored(first: InFlight, outcome: Exclude<SendOutcome, { kind: 'stored' }>): Promise<void> {
    const { packed, bytes, correctsTo, fault } = first;
    this.#stats.counters.repeatedBatches += this.#inFlight.length;
    await this.#abandon(packed);
    const isPermanent = outcome.kind === 'refused' && outcome.permanent;
    const isTooLarge = isPermanent && packed.entries > 0;
    if (isTooLarge) {
      this.#mostBytes = Math.max(MIN_BYTES, Math.min(this.#mostBytes, Math.floor(bytes.length / 2)));
      this.#cursor.cut(packed, outcome.reason);
    } else {
      this.#cursor.again();
      // No entry waits for a correction that can never be sent.
      if (isPermanent && correctsTo > 0)
        this.#persistedState.unset = unsetAfter(this.#persistedState.unset, correctsTo);
    }
    if (fault !== undefined) throw fault;
    if (outcome.kind === 'unreached') this.#pace.failed();
    this.#failed(outcome.reason, outcome.kind === 'refused' && !isTooLarge);
  }

  /** Nothing is in flight afterwards; all that was but `but` waits to be packed again. */
  async #abandon(but?: Packed): Promise<void> {
    this.#abandoning.abort();
    await this.#allSettled();
    this.#abandoning = new AbortController();
    for (const sent of this.#inFlight.splice(0)) this.#abandoned(sent);
    this.#held = undefined;
    this.#cursor.again(but);
  }

  #allSettled(): Promise<unknown> {
    return Promise.all(this.#inFlight.map(({ settled }) => settled));
  }

  #failed(reason: string, refused = false): void {
    this.#refusal = refused ? reason : '';
    if (refused) this.#stats.refused(reason);
    else this.#stats.disconnected(reason);
    this.#asked = '';
    const { clock, random = Math.random } = this.#o;
    this.#retryAtMs = clock.monoMs() + backoffMs(this.#failures++, RETRY_FIRST_MS, RETRY_MAX_MS, random);
  }

  /** Bytes on the link beside the batches. */
  #overhead(): void {
    const bytes = this.#o.transport.takeOverhead();
    const nowMs = this.#o.clock.monoMs();
    this.#pace.spent(bytes, nowMs);
    this.#persistedState.charge(bytes, nowMs);
    this.#stats.counters.wireBytes += bytes;
  }

  #transportChanged(): void {
    if (this.#o.transport.state().connected) this.#retryAtMs = 0;
    this.#loop.wake();
  }

  #idle(state: Waiting['state']): void {
    this.#state = state === 'waiting for the transport' ? this.#waitingForTransport() : state;
    const nowMs = this.#o.clock.monoMs();
    if (state === 'up to date') this.#idleSinceMs ??= nowMs;
    // The budget has no room even for a kept connection.
    const rests = this.#idleSinceMs !== undefined && nowMs - this.#idleSinceMs >= REST_MS;
    if ((rests || state === 'waiting for the budget') && this.#inFlight.length === 0) {
      this.#o.transport.rest();
      this.#asked = '';
    }
  }

  #waitingForTransport(): UpstreamState {
    if (this.#refusal !== '') return 'refused';
    return this.#o.transport.name === 'kafka' ? 'waiting for the broker' : 'waiting for the collector';
  }

  #reason(): string {
    switch (this.#state) {
      case 'waiting for the line':
        return this.#cursor.trouble;
      case 'refused':
        return this.#refusal;
      case 'waiting for the broker':
      case 'waiting for the collector':
        return this.#o.transport.state().reason;
      default:
        return '';
    }
  }
}
