/** How bad a delivery's state is, as the style sheet names it. */
import type { DeliveryState } from '../shapes.ts';

export function lookOf(state: DeliveryState): string {
  if (state === 'delivered') return 'good';
  return state === 'rejected' || state === 'failed' ? 'bad' : state === 'retrying' ? 'warn' : 'idle';
}
