/** Of each subscription, until when nothing of it need be looked for: so that an idle one costs no reading. Pure. */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { RunMs } from '../parts.ts';

interface NextDue {
  /** 0: at once. Infinity: nothing waits. */
  fromRunMs: RunMs;
  /** Readings that failed in a row. */
  failures: number;
}

const firstRetryMs = 1_000;
const longestRetryMs = 60_000;

export class NextDueCache {
  readonly #nextDue = new Map<number, NextDue>();

  /** Answers those that are new. */
  keep(ids: readonly number[]): readonly number[] {
    const kept = new Set(ids);
    for (const id of this.#nextDue.keys()) if (!kept.has(id)) this.#nextDue.delete(id);
    const added = ids.filter((id) => !this.#nextDue.has(id));
    for (const id of added) this.#nextDue.set(id, { fromRunMs: 0, failures: 0 });
    return added;
  }

  isDue(id: number, runMs: RunMs): boolean {
    return (this.#nextDue.get(id)?.fromRunMs ?? Number.POSITIVE_INFINITY) <= runMs;
  }

  /** It was read: nothing of it is due before then. */
  from(id: number, fromRunMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = fromRunMs;
  }

  /** Reading and all that follows from it. */
  succeeded(id: number): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.failures = 0;
  }

  /** Something of it is due then, and perhaps other things before. */
  notLaterThan(id: number, runMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = Math.min(reload.fromRunMs, runMs);
  }

  failed(id: number, runMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = runMs + backoffMs(reload.failures++, firstRetryMs, longestRetryMs);
  }

  all(): void {
    for (const reload of this.#nextDue.values()) if (reload.failures === 0) reload.fromRunMs = 0;
  }

  /** Infinity: none. */
  nextAfter(runMs: RunMs): RunMs {
    let next = Number.POSITIVE_INFINITY;
    for (const { fromRunMs } of this.#nextDue.values()) if (fromRunMs > runMs && fromRunMs < next) next = fromRunMs;
    return next;
  }
}
