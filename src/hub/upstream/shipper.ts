/**
 * Ships the serial log to the central side: reads what is stored, packs it, sends it a batch at a time, and moves its position
 * when the other side has it. The loop around the table of next-step.ts. Whatever fails is tried again for as long as it
 * takes; what is held in memory is one batch and what was read for the next.
 */
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, endsWithin, pause } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { Heartbeat } from '../../shared/base/heartbeat.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { correctionsOf } from './corrections.ts';
import type { SendOutcome, Transport, UpstreamState, UpstreamStatus } from './face.ts';
import { Journal } from './journal.ts';
import { isUnset, type LineLog, timeAt } from './line-log.ts';
import { nextStep, type Situation, type Step } from './next-step.ts';
import { LEAST_BYTES, Pace } from './pace.ts';
import { CORRECTION_BYTES, type Correction, encode, FRAME_BYTES, type Packed } from './packer.ts';
import { PersistedState } from './persisted-state.ts';
import type { Positions } from './position-file.ts';
import { Reading } from './reading.ts';
import { nothingUnset, unsetAfter } from './unset-ranges.ts';

export interface ShipperOptions {
  readonly transport: Transport;
  readonly line: LineLog;
  readonly file: Positions;
  readonly deviceId: string;
  readonly batchBytes: number;
  readonly lingerMs: number;
  /** 0: no cap. */
  readonly maxKbitPerS: number;
  /** 0: no budget. */
  readonly maxBytesPerDay: number;
  /** Change events wait that can go now: they go first. */
  readonly busy: () => boolean;
  /** A batch under way for longer is given up. */
  readonly sendLimitMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 to below 1: boxes that lost the same broker do not come back all at once. */
  readonly random?: () => number;
}

/** The other side is tried again after a time that doubles between these. */
const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** Nothing to send for so long: a connection that is kept costs more than one that is made again (56 KiB at 100 bytes a second). */
const REST_MS = 600_000;
/** After what was not foreseen, and where the position cannot be read. */
const TROUBLE_MS = 1_000;
/** Beyond the limits of asking and sending. */
const STILL_MS = 90_000;

interface Held {
  readonly packed: Packed;
  readonly bytes: Uint8Array;
  readonly cost: number;
  /** It tells of times that were sent before the clock was set, up to this entry; 0: it does not. */
  readonly correctsTo: number;
}

export class Shipper {
  readonly #o: ShipperOptions;
  readonly #journal: Journal;
  readonly #reading: Reading;
  readonly #persistedState: PersistedState;
  readonly #pace: Pace;
  readonly #heartbeat: Heartbeat;
  readonly #stopping = new AbortController();
  #isStopping = false;
  #running: Promise<void> | undefined;
  #held: Held | undefined;
  /** Bytes of a batch, where the other side has found a larger one too large. */
  #mostBytes: number;
  /** Which log the other side was asked about, since it last failed; '': none. */
  #asked = '';
  #failures = 0;
  #retryAtMs = 0;
  #refusal = '';
  #idleSinceMs: number | undefined;
  #state: UpstreamState = 'waiting for the line';
  #nudge = new AbortController();

  constructor(options: ShipperOptions) {
    this.#o = options;
    const { clock, batchBytes, maxKbitPerS, transport, logger, sendLimitMs } = options;
    this.#mostBytes = Math.min(batchBytes, transport.maxBytes - FRAME_BYTES);
    this.#pace = new Pace(maxKbitPerS, this.#mostBytes, clock.monoMs());
    this.#journal = new Journal(logger, transport.name);
    this.#reading = new Reading({ ...options, journal: this.#journal });
    this.#persistedState = new PersistedState({ ...options, journal: this.#journal, reading: this.#reading });
    this.#heartbeat = new Heartbeat(clock, sendLimitMs + STILL_MS);
  }

  start(): void {
    this.#o.transport.start(() => this.#wayChanged());
    this.#running ??= this.#run();
  }

  /** A batch under way gets up to limitMs to arrive. */
  async stop(limitMs: number): Promise<void> {
    this.#isStopping = true;
    this.#heartbeat.rest();
    this.#nudge.abort();
    if (this.#running !== undefined) await endsWithin(this.#o.clock, limitMs, this.#running);
    this.#stopping.abort();
    await this.#running;
    await this.#o.transport.stop(0);
    await this.#persistedState.close();
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#heartbeat.check();
  }

  status(): UpstreamStatus {
    const { transport, clock } = this.#o;
    const nowMs = clock.monoMs();
    const { current, all } = this.#reading.places;
    const { sentEntries, sentBytes, wireBytes, batches, repeatedBatches, gapsSent, entriesLost } = this.#journal;
    return {
      to: transport.name,
      state: this.#state,
      reason: this.#reason(),
      connected: transport.state().connected,
      lagEntries: all.reduce((sum, { lastId, afterId }) => sum + Math.max(0, lastId - afterId), 0),
      oldestUnsentAgeS: Math.floor(this.#reading.ageMs(nowMs) / 1_000),
      sentEntries,
      sentBytes,
      wireBytes,
      batches,
      repeatedBatches,
      gapsSent,
      entriesLost,
      budgetUsedBytes: this.#persistedState.budget.used(nowMs),
      budgetLimitBytes: this.#persistedState.budget.limit,
      position: current?.afterId ?? 0,
      logId: current?.logId ?? '',
    };
  }

  async #run(): Promise<void> {
    while (!this.#isStopping && !(await this.#persistedState.load())) {
      this.#heartbeat.beat();
      await this.#wait(TROUBLE_MS);
    }
    while (!this.#isStopping) {
      this.#heartbeat.beat();
      try {
        this.#overhead();
        await this.#turn(nextStep(this.#situation()));
        await this.#persistedState.saveIfDue();
      } catch (error) {
        if (this.#isStopping) return;
        this.#journal.trouble(messageOf(error));
        await this.#wait(TROUBLE_MS);
      }
    }
  }

  async #turn(step: Step): Promise<void> {
    const { signal } = this.#stopping;
    if (step.do !== 'wait' && step.do !== 'look') this.#idleSinceMs = undefined;
    switch (step.do) {
      case 'look':
        return this.#reading.look(signal);
      case 'read':
        return this.#reading.read(this.#wantedBytes(), signal);
      case 'correct':
        return this.#correct();
      case 'pack':
        return this.#pack();
      case 'ask':
        return this.#ask();
      case 'send':
        return this.#send();
      case 'wait':
        return this.#idle(step.ms, step.state);
    }
  }

  #situation(): Situation {
    const { clock, busy, transport } = this.#o;
    const nowMs = clock.monoMs();
    const held = this.#held;
    const asked = this.#asked !== '' && this.#asked === this.#reading.places.current?.logId;
    return {
      lineAnswers: this.#reading.trouble === '',
      lookInMs: this.#reading.lookInMs(nowMs),
      hasMore: this.#reading.hasMore,
      read: this.#reading.soFar(this.#wantedBytes()),
      lingerMs: this.#reading.lingerMs(nowMs),
      correctable:
        this.#persistedState.unset.ranges.length > 0 && this.#reading.isClockSet(this.#persistedState.unset.logId),
      packed: held !== undefined,
      retryMs: this.#retryAtMs - nowMs,
      busy: held !== undefined && busy(),
      affordable: held === undefined || this.#affordable(held.cost + (asked ? 0 : transport.connectBytes), nowMs),
      asked,
      paceMs: held === undefined || !asked ? 0 : this.#pace.waitMs(held.cost, nowMs),
    };
  }

  #affordable(bytes: number, nowMs: number): boolean {
    const affordable = this.#persistedState.budget.left(nowMs) >= bytes;
    this.#journal.budget(affordable, this.#persistedState.budget.used(nowMs), this.#persistedState.budget.limit);
    return affordable;
  }

  /** Of the next batch: what the link, the other side and the budget have room for. */
  #wantedBytes(): number {
    const left = this.#persistedState.budget.left(this.#o.clock.monoMs()) / 2;
    return Math.min(this.#pace.batchBytes, this.#mostBytes, Math.max(LEAST_BYTES, left));
  }

  /** Told at once, in a batch of its own: the next entry may be long in coming. */
  async #correct(): Promise<void> {
    const { line } = this.#o;
    const { signal } = this.#stopping;
    const { logId, ranges } = this.#persistedState.unset;
    const corrections = await this.#reading.asked(signal, () =>
      correctionsOf(ranges, (id) => {
        // Many questions, each with a time limit of its own.
        this.#heartbeat.beat();
        return timeAt(line, logId, id, signal);
      }),
    );
    if (corrections === undefined) return;
    const packed = this.#reading.nothing();
    if (corrections.length === 0 || packed === undefined) this.#persistedState.unset = nothingUnset;
    else this.#hold(packed, corrections.slice(0, Math.max(1, Math.floor(this.#mostBytes / CORRECTION_BYTES))));
  }

  #pack(): void {
    const packed = this.#reading.take(this.#wantedBytes());
    if (packed !== undefined) this.#hold(packed);
  }

  #hold(packed: Packed, corrections: readonly Correction[] = []): void {
    const { transport, deviceId } = this.#o;
    const bytes = encode(packed, deviceId, corrections);
    const { limit } = this.#persistedState.budget;
    const cost = transport.cost(bytes);
    if (bytes.length > transport.maxBytes && packed.entries.length > 0)
      this.#reading.cut(packed, `${bytes.length} bytes are more than the ${transport.maxBytes} that can be sent`);
    // It would wait for ever, and all that is behind it.
    else if (limit > 0 && cost + transport.connectBytes > limit && packed.entries.length > 0)
      this.#reading.cut(packed, `${cost} bytes on the link are more than the data budget of a day has room for`);
    else this.#held = { packed, bytes, cost, correctsTo: corrections.at(-1)?.lastId ?? 0 };
  }

  async #ask(): Promise<void> {
    const { current } = this.#reading.places;
    if (current === undefined) return;
    try {
      const position = await this.#o.transport.position(current.logId, this.#stopping.signal);
      this.#asked = current.logId;
      this.#journal.reached();
      if (position !== undefined && this.#reading.goOnAt(position)) this.#held = undefined;
    } catch (error) {
      if (!this.#isStopping) this.#failed(messageOf(error));
    }
  }

  async #send(): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    const { clock } = this.#o;
    const { packed, cost, bytes } = held;
    this.#state = 'sending';
    await this.#persistedState.noteUnset(
      packed,
      packed.entries.filter(isUnset).map(({ id }) => Number(id)),
    );
    const fromMs = clock.monoMs();
    this.#pace.spent(cost, fromMs);
    const outcome = await this.#underWay(held);
    const nowMs = clock.monoMs();
    const onLink = outcome.wireBytes ?? cost;
    this.#pace.spent(onLink - cost, nowMs);
    this.#charge(onLink, nowMs);
    if (outcome.kind === 'stored') {
      this.#held = undefined;
      this.#failures = 0;
      this.#refusal = '';
      this.#pace.arrived(bytes.length, cost, nowMs - fromMs);
      this.#journal.connected();
      this.#journal.sent(packed);
      this.#reading.arrived(packed);
      if (held.correctsTo > 0) this.#persistedState.unset = unsetAfter(this.#persistedState.unset, held.correctsTo);
    } else if (!this.#isStopping) this.#notStored(outcome, held);
  }

  #notStored(outcome: Exclude<SendOutcome, { kind: 'stored' }>, { packed, bytes, correctsTo }: Held): void {
    this.#journal.repeatedBatches += 1;
    const tooLarge = outcome.kind === 'refused' && outcome.permanent && packed.entries.length > 0;
    if (tooLarge) {
      this.#held = undefined;
      this.#mostBytes = Math.max(LEAST_BYTES, Math.min(this.#mostBytes, Math.floor(bytes.length / 2)));
      this.#reading.cut(packed, outcome.reason);
    } else if (outcome.kind === 'refused' && outcome.permanent && correctsTo > 0) {
      // No entry waits for a correction that can never go.
      this.#held = undefined;
      this.#persistedState.unset = unsetAfter(this.#persistedState.unset, correctsTo);
    }
    if (outcome.kind === 'unreached') this.#pace.failed();
    this.#failed(outcome.reason, outcome.kind === 'refused' && !tooLarge);
  }

  /** With a limit, so that a way that hangs does not hang the loop. */
  async #underWay({ packed, bytes }: Held): Promise<SendOutcome> {
    const { transport, clock, sendLimitMs } = this.#o;
    const over = new AbortController();
    const timer = clock.timer(sendLimitMs, () => over.abort());
    try {
      return await transport.send(bytes, packed, AbortSignal.any([over.signal, this.#stopping.signal]));
    } finally {
      timer.cancel();
    }
  }

  #failed(reason: string, refused = false): void {
    const { clock, random = Math.random } = this.#o;
    this.#refusal = refused ? reason : '';
    if (refused) this.#journal.refused(reason);
    else this.#journal.disconnected(reason);
    this.#asked = '';
    const delayMs = backoffMs(this.#failures++, RETRY_FIRST_MS, RETRY_MAX_MS);
    this.#retryAtMs = clock.monoMs() + delayMs * (0.5 + random() / 2);
  }

  /** What the link has carried beside the batches. */
  #overhead(): void {
    const bytes = this.#o.transport.takeOverhead();
    const nowMs = this.#o.clock.monoMs();
    this.#pace.spent(bytes, nowMs);
    this.#charge(bytes, nowMs);
  }

  #charge(bytes: number, nowMs: number): void {
    this.#persistedState.charge(bytes, nowMs);
    this.#journal.wireBytes += bytes;
  }

  #wayChanged(): void {
    if (this.#o.transport.state().connected) this.#retryAtMs = 0;
    this.#nudge.abort();
  }

  async #idle(ms: number, state: Extract<Step, { do: 'wait' }>['state']): Promise<void> {
    this.#state = state === 'waiting for the way' ? this.#waitingForWay() : state;
    const nowMs = this.#o.clock.monoMs();
    if (state === 'up to date') this.#idleSinceMs ??= nowMs;
    // Without room in the budget not even for a connection that is kept.
    const rests = this.#idleSinceMs !== undefined && nowMs - this.#idleSinceMs >= REST_MS;
    if (rests || state === 'waiting for the budget') {
      this.#o.transport.rest();
      this.#asked = '';
    }
    await this.#wait(ms);
  }

  #waitingForWay(): UpstreamState {
    if (this.#refusal !== '') return 'refused';
    return this.#o.transport.name === 'kafka' ? 'waiting for the broker' : 'waiting for the collector';
  }

  #reason(): string {
    switch (this.#state) {
      case 'waiting for the line':
        return this.#reading.trouble;
      case 'refused':
        return this.#refusal;
      case 'waiting for the broker':
      case 'waiting for the collector':
        return this.#o.transport.state().reason;
      default:
        return '';
    }
  }

  async #wait(ms: number): Promise<void> {
    if (this.#isStopping) return;
    this.#nudge = new AbortController();
    await pause(this.#o.clock, ms, AbortSignal.any([this.#nudge.signal, this.#stopping.signal]));
  }
}
