/** The deliveries in hand: under way, or ended and not committed yet. None of them is taken again meanwhile. Pure. */
import type { PendingDelivery } from '../parts.ts';

export class InFlightDeliveries {
  readonly #bySubscription = new Map<number, Set<number>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  of(subscriptionId: number): readonly number[] {
    return [...(this.#bySubscription.get(subscriptionId) ?? [])];
  }

  add({ id, subscriptionId }: PendingDelivery): void {
    const ids = this.#bySubscription.get(subscriptionId) ?? new Set();
    this.#bySubscription.set(subscriptionId, ids.add(id));
    this.#size++;
  }

  remove({ id, subscriptionId }: PendingDelivery): void {
    const ids = this.#bySubscription.get(subscriptionId);
    if (ids?.delete(id) !== true) return;
    if (ids.size === 0) this.#bySubscription.delete(subscriptionId);
    this.#size--;
  }
}
