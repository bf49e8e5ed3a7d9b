/** Session of lineside.v1.LineService: packets, their answers and the live log on one stream. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type lineside, serial } from '../../shared/proto/services.ts';
import { readBatches } from './batches.ts';
import { sessionResponse } from './encode.ts';
import { MAX_SESSION_OUTSTANDING } from './limits.ts';
import { readRequest } from './log-requests.ts';
import { type ServiceContext, sendPacket } from './serial-service.ts';
import type { Subscription } from './subscriptions.ts';

/** One answer in their order, filled when the line is done with the packet. */
interface Slot {
  answer: Buffer | undefined;
}

/**
 * One Session stream: packets in, their answers out in the same order, and the live log between them. A packet goes to the line in
 * the step that decoded it, and its answer is sent in the step that the line gave it.
 */
export class Session {
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
