/**
 * The states of the hub under `lineside serve`, as a table of states and events. Pure.
 *
 *   waiting --due--> running --exited--> waiting --...      (restarted, later each time that it dies young)
 *      |                |
 *     stop             stop --> stopping --overdue--> killing
 *      |                           |                     |
 *      +-------------------------> ended <----exited-----+
 */
import { backoffMs } from '../shared/base/backoff.ts';

export type HubState =
  /** No process; one is started when the wait is over. `failures`: how often in a row it died young. */
  | { readonly name: 'waiting'; readonly failures: number }
  | { readonly name: 'running'; readonly failures: number; readonly sinceMs: number }
  /** Asked to end, and given a limit. */
  | { readonly name: 'stopping' }
  | { readonly name: 'killing' }
  | { readonly name: 'ended' };

/** `due`: the wait is over. `exited`: the process is gone, or could not be started. `overdue`: the limit of a stop. */
export type HubEvent = 'due' | 'exited' | 'stop' | 'overdue';

export type HubEffect =
  | { readonly kind: 'spawn' }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'terminate' }
  | { readonly kind: 'kill' }
  /** Nothing is left to wait for. */
  | { readonly kind: 'end' };

export interface HubStep {
  readonly state: HubState;
  readonly effects: readonly HubEffect[];
}

const FIRST_WAIT_MS = 1_000;
/** A hub that cannot start costs a process start a minute, and comes back within one when the cause is gone. */
const LONGEST_WAIT_MS = 60_000;
/** One that ran so long had started well: the next failure is a new one. */
const RAN_WELL_MS = 60_000;

export const initialHub: HubState = { name: 'waiting', failures: 0 };

/** `nowMs`: monotonic. An event that means nothing in a state changes nothing. */
export function stepHub(state: HubState, event: HubEvent, nowMs: number): HubStep {
  switch (state.name) {
    case 'waiting':
      if (event === 'due') return to({ name: 'running', failures: state.failures, sinceMs: nowMs }, { kind: 'spawn' });
      return event === 'stop' ? to({ name: 'ended' }, { kind: 'end' }) : to(state);
    case 'running':
      if (event === 'exited') return again(nowMs - state.sinceMs >= RAN_WELL_MS ? 0 : state.failures);
      return event === 'stop' ? to({ name: 'stopping' }, { kind: 'terminate' }) : to(state);
    case 'stopping':
      if (event === 'exited') return to({ name: 'ended' }, { kind: 'end' });
      return event === 'overdue' ? to({ name: 'killing' }, { kind: 'kill' }) : to(state);
    case 'killing':
      return event === 'exited' ? to({ name: 'ended' }, { kind: 'end' }) : to(state);
    case 'ended':
      return to(state);
  }
}

function again(failures: number): HubStep {
  const ms = backoffMs(failures, FIRST_WAIT_MS, LONGEST_WAIT_MS);
  return to({ name: 'waiting', failures: failures + 1 }, { kind: 'wait', ms });
}

function to(state: HubState, ...effects: readonly HubEffect[]): HubStep {
  return { state, effects };
}
