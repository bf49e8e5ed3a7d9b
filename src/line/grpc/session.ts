/**
 * One Session stream: packets in, their answers out in the same order, and the live log between them. Nothing here
 * waits without need: a packet goes to the line in the step that decoded it, and its answer leaves in the step that
 * the line gave it.
 */
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
  /** Wakes the writer (something to hand over), the reader (room for a packet), the log (its batch is taken). */
  readonly #writer = new Waiter();
  readonly #reader = new Waiter();
  readonly #log = new Waiter();

  constructor(parts: ServiceContext, caller: string, subscription: Subscription) {
    this.#parts = parts;
    this.#caller = caller;
    this.#subscription = subscription;
    this.#signal = subscription.signal;
  }

  /** Ends when the client has ended its side, every answer is out, and the log (if begun) has ended; or by the signal. */
  async *run(requests: AsyncIterable<lineside.v1.SessionRequest>): AsyncGenerator<Buffer, void, undefined> {
    const signal = this.#signal;
    const wake = (): void => this.#wakeAll();
    signal.addEventListener('abort', wake, { once: true });
    this.#watch(this.#read(requests), () => {
      this.#reading = false;
    });
    for (;;) {
      const answer = this.#slots[0]?.answer;
      if (answer !== undefined) {
        this.#slots.shift();
        this.#reader.wake();
        yield answer;
      }
      const batch = this.#batch;
      if (batch !== undefined) {
        yield batch;
        this.#batch = undefined;
        this.#log.wake();
      }
      if (answer !== undefined || batch !== undefined) continue;
      if (this.#failure !== undefined) throw this.#failure;
      if (signal.aborted) return;
      if (!this.#reading && !this.#following && this.#slots.length === 0) return;
      await this.#writer.wait();
    }
  }

  async #read(requests: AsyncIterable<lineside.v1.SessionRequest>): Promise<void> {
    const signal = this.#signal;
    for await (const { send, log } of requests) {
      while (this.#slots.length >= MAX_SESSION_OUTSTANDING && !signal.aborted) await this.#reader.wait();
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
    this.#watch(
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
    this.#watch(this.#pump(batches), () => {
      this.#following = false;
    });
  }

  async #pump(batches: AsyncIterable<Buffer>): Promise<void> {
    const signal = this.#signal;
    for await (const batch of batches) {
      this.#batch = sessionResponse('log', batch);
      this.#writer.wake();
      while (this.#batch !== undefined && !signal.aborted) await this.#log.wait();
      if (signal.aborted) return;
    }
  }

  /** The writer hears of the end of everything, and of the first failure. */
  #watch(work: Promise<void>, after?: () => void): void {
    work
      .catch((error: unknown) => {
        // A client that went away fails its reader too; the signal says so already.
        if (!this.#signal.aborted) this.#failure ??= error;
      })
      .then(() => {
        after?.();
        this.#writer.wake();
      }, unreachable);
  }

  #wakeAll(): void {
    this.#writer.wake();
    this.#reader.wake();
    this.#log.wake();
  }
}

/** Nothing in the chain above can throw. */
function unreachable(): void {}

/** One waits, others wake it; a wake that comes before the wait is not lost. */
class Waiter {
  #woken = false;
  #resolve: (() => void) | undefined;

  wake(): void {
    if (this.#resolve === undefined) {
      this.#woken = true;
      return;
    }
    const resolve = this.#resolve;
    this.#resolve = undefined;
    resolve();
  }

  async wait(): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
      });
    }
    this.#woken = false;
  }
}
