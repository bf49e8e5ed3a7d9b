/** The attempts under way, each of which can be given up. */
import type { Clock } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Outcome, PendingDelivery } from '../parts.ts';
import { truncated } from './attempt-result.ts';

interface UnderWay {
  readonly delivery: PendingDelivery;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

export class Attempts {
  readonly #clock: Clock;
  readonly #running = new Map<number, UnderWay>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#running.size;
  }

  /** `onEnded`: when nothing of it is left; undefined: it was given up. */
  begin(
    delivery: PendingDelivery,
    send: (signal: AbortSignal) => Promise<Outcome>,
    onEnded: (outcome: Outcome | undefined) => void,
  ): void {
    const controller = new AbortController();
    const { signal } = controller;
    const ended = this.#outcome(() => send(signal)).then((outcome) => {
      this.#running.delete(delivery.id);
      onEnded(signal.aborted ? undefined : outcome);
    });
    this.#running.set(delivery.id, { delivery, controller, ended });
  }

  cancel(isMeant: (delivery: PendingDelivery) => boolean): void {
    for (const { delivery, controller } of this.#running.values()) if (isMeant(delivery)) controller.abort();
  }

  /** Those under way now have ended. */
  async end(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  async #outcome(send: () => Promise<Outcome>): Promise<Outcome> {
    const beganMs = this.#clock.monoMs();
    try {
      return await send();
    } catch (error) {
      return truncated(messageOf(error), this.#clock.monoMs() - beganMs);
    }
  }
}
