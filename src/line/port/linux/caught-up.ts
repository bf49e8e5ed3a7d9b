/** Whether what has arrived on the sockets of the process was read: a cancellation may be among it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../../shared/base/clock.ts';

/** A turn of the event loop that takes longer was stopped (by a signal, by other processes): more may have arrived. */
const LONG_TURN_MS = 5;
/** A machine on which every turn is so long still sends. */
const MAX_TURNS = 10;

export async function caughtUp(clock: Clock): Promise<void> {
  for (let turns = 0; turns < MAX_TURNS; turns += 1) {
    const from = clock.monoMs();
    // The event loop reads its sockets before it gets here.
    await nextTurn();
    if (clock.monoMs() - from <= LONG_TURN_MS) return;
  }
}
