/** The attempts under way, each of which can be given up. */
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { brokenOff } from './attempt-result.ts';
import type { Due, Outcome } from './parts.ts';

interface UnderWay {
  readonly due: Due;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

export class Attempts {
  readonly #clock: Clock;
  readonly #underWay = new Map<number, UnderWay>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#underWay.size;
  }

  /** `onEnded`: when nothing of it is left; undefined: it was given up. */
  begin(
    due: Due,
    send: (signal: AbortSignal) => Promise<Outcome>,
    onEnded: (outcome: Outcome | undefined) => void,
  ): void {
    const controller = new AbortController();
    const { signal } = controller;
    const ended = this.#outcome(() => send(signal)).then((outcome) => {
      this.#underWay.delete(due.id);
      onEnded(signal.aborted ? undefined : outcome);
    });
    this.#underWay.set(due.id, { due, controller, ended });
  }

  giveUp(isMeant: (due: Due) => boolean): void {
    for (const { due, controller } of this.#underWay.values()) if (isMeant(due)) controller.abort();
  }

  /** Those under way now have ended. */
  async end(): Promise<void> {
    await Promise.all([...this.#underWay.values()].map(({ ended }) => ended));
  }

  async #outcome(send: () => Promise<Outcome>): Promise<Outcome> {
    const beganMs = this.#clock.monoMs();
    try {
      return await send();
    } catch (error) {
      return brokenOff(messageOf(error), this.#clock.monoMs() - beganMs);
    }
  }
}
