/**
 * The traffic of one open device, from its start to its end: received bytes become chunks, which go in one step to
 * the receive buffer and to the log (its live tail and its store); packets to send take turns and are written whole,
 * one after the other. Single-use, as the device is.
 */
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../shared/base/errors.ts';
import { RX, TX } from '../log/entry.ts';
import type { LineRecorder } from '../log/log-api.ts';
import { CHUNK_BYTES, type Chunk, ChunkCutter, characterMs, defaultGapMs } from './chunks.ts';
import type { LastBytes, LineCounters, SendRequest, Turn } from './line.ts';
import { type LineConfig, payloadFault } from './line-config.ts';
import type { Device } from './linux/tty.ts';
import { caughtUp, type WriteResult } from './linux/writer.ts';
import type { PacketBuffer } from './receive-buffer.ts';

/** What may change while a port is open. */
export interface LineLimits {
  readonly maxPayloadBytes: number;
  readonly writeTimeoutMs: number;
  /** Where Open asked for none; counts from the next open on, one after a loss included. undefined: 3.5 character times, at least 2 ms. */
  readonly rxGapMs: number | undefined;
}

interface TrafficOptions {
  readonly device: Device;
  readonly config: LineConfig;
  readonly packets: PacketBuffer;
  readonly log: Omit<LineRecorder, 'event'>;
  readonly clock: Clock;
  readonly counters: LineCounters;
  readonly last: LastBytes;
  /** Read for each packet: a reload may change them. */
  readonly limits: () => LineLimits;
  readonly txLimits: QueueLimits;
  /** Packets were dropped from the full receive buffer. */
  readonly onDropped: (packets: number) => void;
}

interface Waiting extends SendRequest {
  /** Of `act`, beside what the kernel holds before it. */
  readonly lastsMs?: number;
  /** Done instead of sending the payload, which is empty. The signal fires when the traffic ends, or at the limit. */
  readonly act: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly settle: (error: LinesideError | undefined) => void;
  /** Ends the write under way; the reason is a LinesideError. */
  readonly abort: AbortController;
}

export class Traffic {
  readonly #options: TrafficOptions;
  #config: LineConfig;
  #cutter: ChunkCutter;
  readonly #queue: SendQueue<Waiting>;
  #gapTimer: Timer | undefined;
  #underWay: Waiting | undefined;
  /** Nothing is read: until the log has room, or for a rest. */
  #paused = false;
  #rest: Timer | undefined;
  #restedMs = Number.NEGATIVE_INFINITY;
  /** Of one millisecond. */
  #reads = { ms: 0, count: 0 };
  #ended: LinesideError | undefined;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#cutter = this.#newCutter();
    this.#queue = new SendQueue(options.txLimits);
  }

  get queued(): Pick<SendQueue<Waiting>, 'packets' | 'bytes'> {
    return this.#queue;
  }

  /** Takes bytes that arrived now. */
  received(bytes: Uint8Array): void {
    if (this.#ended !== undefined) return;
    const { clock, counters, last } = this.#options;
    counters.rxBytes += bytes.length;
    const monoMs = clock.monoMs();
    last.receivedMs = monoMs;
    for (const chunk of this.#cutter.feed(bytes, clock.wallMs(), monoMs)) this.#deliver(chunk);
    this.#armGapTimer(monoMs);
    this.#pauseIfNeeded(bytes.length, monoMs);
  }

  /** The silence that ends a chunk now. */
  get rxGapMs(): number {
    return this.#cutter.gapMs;
  }

  /** Bytes that are no chunk yet. */
  get unfinished(): Uint8Array {
    return this.#cutter.unfinished;
  }

  /** The log has room again. */
  relieve(): void {
    if (this.#paused && this.#rest === undefined) this.#readOn();
  }

  #readOn(): void {
    if (this.#ended !== undefined) return;
    this.#paused = false;
    this.#options.device.resumeReading();
    // While nothing was read, nothing is known of the line.
    const monoMs = this.#options.clock.monoMs();
    this.#cutter.polled(monoMs);
    this.#armGapTimer(monoMs);
  }

  /** Resolves when the kernel has accepted every byte. */
  send(request: SendRequest): Promise<void> {
    const fault = payloadFault(request.payload.length, this.#config.packetSize, this.#options.limits().maxPayloadBytes);
    return this.#enqueue({ ...request, act: undefined }, fault);
  }

  /** Done after what its caller asked for before. `lastsMs`: what it takes at best. */
  inTurn(turn: Turn, act: (signal: AbortSignal) => Promise<void>, lastsMs = 0): Promise<void> {
    return this.#enqueue({ ...turn, payload: NOTHING, act, lastsMs }, undefined);
  }

  /** Packets and commands of all others that wait are not done. */
  refuseOthers(caller: string, reason: LinesideError): void {
    for (const waiting of this.#queue.takeOthers(caller)) waiting.settle(reason);
  }

  /** Packets of the caller that have not left the port are not sent; nor is what the kernel still holds. */
  purgeTransmit(caller: string): void {
    const purged = new LinesideError('NOT_SENT', 'the packet was purged before it was sent');
    for (const waiting of this.#queue.takeOf(caller)) waiting.settle(purged);
    if (this.#underWay?.caller === caller) this.#underWay.abort.abort(purged);
    this.#options.device.discardUnsent();
  }

  /** Settings of the device have changed: what was received before belongs to the chunk before. */
  reconfigured(config: LineConfig): void {
    for (const chunk of this.#cutter.end()) this.#deliver(chunk);
    this.#config = config;
    this.#cutter = this.#newCutter();
  }

  #newCutter(): ChunkCutter {
    const rxGapMs = this.#config.rxGapMs ?? this.#options.limits().rxGapMs;
    return new ChunkCutter(rxGapMs ?? defaultGapMs(this.#config), characterMs(this.#config));
  }

  #enqueue(request: SendRequest & Pick<Waiting, 'act' | 'lastsMs'>, fault: LinesideError | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const refuse = (error: LinesideError): void => {
        if (request.act === undefined) this.#options.counters.txFailedPackets += 1;
        reject(error);
      };
      if (fault !== undefined) return refuse(fault);
      if (this.#ended !== undefined) return refuse(this.#ended);
      if (request.signal.aborted) return refuse(cancelled());
      if (this.#isLate(request)) return refuse(late());
      const watch = { deadline: undefined as Timer | undefined };
      const waiting: Waiting = {
        ...request,
        abort: new AbortController(),
        settle: (error) => {
          watch.deadline?.cancel();
          request.signal.removeEventListener('abort', onCancel);
          if (error === undefined) resolve();
          else refuse(error);
        },
      };
      const onCancel = (): void => {
        // The packet that is first in line is the device's to cancel.
        if (this.#queue.remove(waiting)) waiting.settle(cancelled());
        else if (waiting.act !== undefined) waiting.abort.abort(cancelled());
      };
      if (!this.#queue.push(waiting)) return refuse(this.#queueFull());
      request.signal.addEventListener('abort', onCancel, { once: true });
      watch.deadline = this.#watchDeadline(waiting, request.deadlineMs);
      void this.#pump();
    });
  }

  /** Ends it: the open chunk is delivered, and every packet that was not sent whole fails with the reason. */
  end(reason: LinesideError): void {
    if (this.#ended !== undefined) return;
    this.#gapTimer?.cancel();
    this.#rest?.cancel();
    for (const chunk of this.#cutter.end()) this.#deliver(chunk);
    this.#ended = reason;
    this.#underWay?.abort.abort(reason);
    for (const waiting of this.#queue.drain()) waiting.settle(reason);
  }

  #deliver(chunk: Chunk): void {
    const { counters, packets, log } = this.#options;
    counters.rxChunks += 1;
    const atMs = this.#stamp(chunk);
    log.record(RX, atMs, chunk.data);
    const dropped = packets.add(chunk.data, atMs);
    if (dropped.packets === 0) return;
    counters.rxDroppedPackets += dropped.packets;
    counters.rxDroppedBytes += dropped.bytes;
    this.#options.onDropped(dropped.packets);
  }

  /** A moment by the clock as it is set now: all entries after a step of the clock bear its new time, as the log counts on. */
  #stamp({ atMs, monoMs }: { readonly atMs: number; readonly monoMs: number }): number {
    const { clock } = this.#options;
    const nowMs = clock.wallMs() - (clock.monoMs() - monoMs);
    return Math.abs(nowMs - atMs) < CLOCK_STEP_MS ? atMs : Math.round(nowMs);
  }

  /** One timer at most, which looks again when bytes came meanwhile: re-arming it for each read would cost more. */
  #armGapTimer(monoMs: number): void {
    if (this.#gapTimer !== undefined || this.#paused) return;
    const lookInMs = this.#cutter.lookInMs(monoMs);
    if (lookInMs === undefined) return;
    this.#gapTimer = this.#options.clock.timer(lookInMs, () => void this.#lookForSilence());
  }

  async #lookForSilence(): Promise<void> {
    const { clock } = this.#options;
    const late = this.#cutter.late(clock.monoMs());
    if (late) await caughtUp(clock);
    this.#gapTimer = undefined;
    if (this.#ended !== undefined || this.#paused) return;
    const monoMs = clock.monoMs();
    if (late) this.#cutter.polled(monoMs);
    for (const chunk of this.#cutter.look(monoMs)) this.#deliver(chunk);
    this.#armGapTimer(monoMs);
  }

  #pauseIfNeeded(bytes: number, monoMs: number): void {
    if (this.#paused) return;
    const { clock, counters, device, log } = this.#options;
    if (log.pressed) counters.rxPauses += 1;
    else if (this.#isDense(bytes, monoMs)) this.#rest = clock.timer(REST_MS, () => this.#endRest());
    else return;
    this.#paused = true;
    device.pauseReading();
  }

  /** Reads follow each other so fast that each costs more than its bytes. Never where every read is a chunk. */
  #isDense(bytes: number, monoMs: number): boolean {
    if (!this.#cutter.joinsReads || bytes > MOST_REST_BYTES) return false;
    const ms = Math.floor(monoMs);
    this.#reads = { ms, count: ms === this.#reads.ms ? this.#reads.count + 1 : 1 };
    return this.#reads.count > READS_PER_MS || monoMs - this.#restedMs < WAITED_MS;
  }

  #endRest(): void {
    this.#rest = undefined;
    this.#restedMs = this.#options.clock.monoMs();
    if (this.#options.log.pressed) this.#options.counters.rxPauses += 1;
    else this.#readOn();
  }

  #watchDeadline(sending: Waiting, deadlineMs: number | undefined): Timer | undefined {
    if (deadlineMs === undefined) return undefined;
    const { clock } = this.#options;
    return clock.timer(Math.max(0, deadlineMs - clock.monoMs()), () => {
      if (this.#queue.remove(sending)) sending.settle(late());
      else sending.abort.abort(late());
    });
  }

  #isLate({ deadlineMs }: { readonly deadlineMs: number | undefined }): boolean {
    return deadlineMs !== undefined && deadlineMs <= this.#options.clock.monoMs();
  }

  async #pump(): Promise<void> {
    if (this.#underWay !== undefined) return;
    for (let next = this.#queue.next(); next !== undefined; next = this.#queue.next()) {
      this.#underWay = next;
      // Its timer may be overdue: the process did not run.
      next.settle(this.#isLate(next) ? late() : await this.#carryOut(next));
      // The cancellation of the next packet may wait to be read.
      if (this.#queue.packets > 0) await caughtUp(this.#options.clock);
    }
    this.#underWay = undefined;
  }

  async #carryOut(next: Waiting): Promise<LinesideError | undefined> {
    // What the kernel holds has to leave the port first, where something waits for that.
    const bytes = next.act === undefined ? next.payload.length : KERNEL_BYTES;
    const limit = this.#options.clock.timer(this.#writeLimitMs(bytes, next.lastsMs), () => {
      next.abort.abort(new LinesideError('WRITE_TIMEOUT', 'the line is stuck: nothing reads at the other end'));
    });
    try {
      return next.act === undefined ? await this.#write(next) : await this.#act(next.act, next.abort.signal);
    } finally {
      limit.cancel();
    }
  }

  async #act(act: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<LinesideError | undefined> {
    try {
      await act(signal);
      return signal.aborted ? asLinesideError(signal.reason) : undefined;
    } catch (error) {
      return asLinesideError(error);
    }
  }

  async #write(sending: Waiting): Promise<LinesideError | undefined> {
    const { device, clock, log, counters, last } = this.#options;
    const began = { atMs: clock.wallMs(), monoMs: clock.monoMs() };
    const result = await device.write(sending.payload, sending.abort.signal, sending.signal);
    const atMs = this.#stamp(began);
    counters.txBytes += result.accepted;
    if (result.accepted > 0) last.sentMs = clock.monoMs();
    if (result.error === undefined) {
      counters.txPackets += 1;
      log.record(TX, atMs, sending.payload);
      return undefined;
    }
    if (result.accepted > 0) {
      const note = `incomplete: ${result.accepted} of ${sending.payload.length} bytes reached the port`;
      log.record(TX, atMs, sending.payload.subarray(0, result.accepted), note);
    }
    return this.#writeFailure(sending, result, result.error);
  }

  #writeFailure(sending: Waiting, result: WriteResult, error: Error): LinesideError {
    const reason: unknown =
      sending.abort.signal.reason ?? (sending.signal.aborted && result.accepted === 0 ? cancelled() : undefined);
    const { code, message } =
      reason instanceof LinesideError ? reason : { code: 'PORT_IO' as const, message: error.message };
    const done = `${result.accepted} of ${sending.payload.length} bytes had reached the port`;
    return new LinesideError(code, `${message}; ${done}`, { cause: error });
  }

  /** The time the bytes take on the wire comes on top: 64 KiB at 300 baud are 36 minutes. */
  #writeLimitMs(bytes: number, lastsMs = 0): number {
    // A frame has 12 bit times at most: start, 8 data, parity, 2 stop.
    const wireMs = (bytes * 12 * 1_000) / this.#config.baudRate;
    return Math.min(MAX_TIMER_MS, this.#options.limits().writeTimeoutMs + wireMs + lastsMs);
  }

  #queueFull(): LinesideError {
    const waiting = `${this.#queue.packets} packets, ${this.#queue.bytes} bytes`;
    return new LinesideError('QUEUE_FULL', `the send queue is full (${waiting})`, {
      hint: 'send again when earlier packets have been answered',
    });
  }
}

const NOTHING = new Uint8Array();
/**
 * The kernel gathers the bytes of a line with more reads than this in a millisecond (460,800 baud, 8 bytes at a time) for the
 * length of a rest: 12 Mbaud in 64-byte writes then take 14 % of a core instead of 25. Bytes that waited at the end of a rest
 * show that the line is still so fast. A rest hands bytes on up to 2 ms late, as long as the least gap.
 */
const READS_PER_MS = 4;
const REST_MS = 1;
const WAITED_MS = 0.25;
/** Half of what the line discipline holds: a rest could overrun a line that fills it so fast. */
const MOST_REST_BYTES = CHUNK_BYTES / 2;
/** What the kernel holds of a UART's or an adapter's output at most. */
const KERNEL_BYTES = 4_096;
/** Far above what reading two clocks one after the other can differ by; smaller steps are not made (time sync slews). */
const CLOCK_STEP_MS = 400;
/** Longer timers fire at once in Node (32-bit milliseconds). */
const MAX_TIMER_MS = 2_147_483_647;

function late(): LinesideError {
  return new LinesideError('WRITE_TIMEOUT', 'the line is stuck: the deadline passed');
}

function cancelled(): LinesideError {
  return new LinesideError('NOT_SENT', 'the caller cancelled or disconnected before the packet reached the port');
}

// Packets that wait for the line. Bounded in packets and bytes, and fair: callers take turns, and each caller's packets keep their
// order, so one who floods delays the others by one packet each and no more.

interface QueueLimits {
  readonly maxPackets: number;
  readonly maxBytes: number;
}

export class SendQueue<T extends Pick<SendRequest, 'caller' | 'payload'>> {
  readonly #limits: QueueLimits;
  /** Insertion order is the order of turns. */
  readonly #byCaller = new Map<string, T[]>();
  #packets = 0;
  #bytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get packets(): number {
    return this.#packets;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False when the queue is full: the item is not taken. One packet is always taken by an empty queue. */
  push(item: T): boolean {
    const tooMany = this.#packets >= this.#limits.maxPackets;
    const tooLarge = this.#packets > 0 && this.#bytes + item.payload.length > this.#limits.maxBytes;
    if (tooMany || tooLarge) return false;
    const own = this.#byCaller.get(item.caller);
    if (own === undefined) this.#byCaller.set(item.caller, [item]);
    else own.push(item);
    this.#packets += 1;
    this.#bytes += item.payload.length;
    return true;
  }

  /** The oldest packet of the caller whose turn it is; its next turn comes after all others'. */
  next(): T | undefined {
    for (const [caller, own] of this.#byCaller) {
      const item = own.shift();
      this.#byCaller.delete(caller);
      if (own.length > 0) this.#byCaller.set(caller, own);
      if (item === undefined) continue;
      this.#count(item);
      return item;
    }
    return undefined;
  }

  /** False when it was not waiting any more. */
  remove(item: T): boolean {
    const own = this.#byCaller.get(item.caller);
    const at = own?.indexOf(item) ?? -1;
    if (own === undefined || at < 0) return false;
    own.splice(at, 1);
    if (own.length === 0) this.#byCaller.delete(item.caller);
    this.#count(item);
    return true;
  }

  /** Takes all of a caller out of the queue, in their order. */
  takeOf(caller: string): readonly T[] {
    const own = this.#byCaller.get(caller) ?? [];
    this.#byCaller.delete(caller);
    for (const item of own) this.#count(item);
    return own;
  }

  takeOthers(caller: string): readonly T[] {
    return [...this.#byCaller.keys()].flatMap((other) => (other === caller ? [] : this.takeOf(other)));
  }

  /** Empties the queue and gives what waited, in turn order. */
  drain(): T[] {
    const all: T[] = [];
    for (let item = this.next(); item !== undefined; item = this.next()) all.push(item);
    return all;
  }

  #count(item: T): void {
    this.#packets -= 1;
    this.#bytes -= item.payload.length;
  }
}
