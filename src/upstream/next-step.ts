/** What the shipper does next, from how things stand: the table behind its loop. Pure. */
import type { UpstreamState } from './face.ts';

export interface Situation {
  /** The line has answered since it last failed to. */
  readonly lineAnswers: boolean;
  /** Milliseconds until it is to be asked again where its log stands. */
  readonly lookInMs: number;
  /** The log holds more than was read. */
  readonly hasMore: boolean;
  /** Read and not packed: nothing, less than a batch, a batch. */
  readonly read: 'nothing' | 'some' | 'enough';
  /** Milliseconds that what was read still waits for company. */
  readonly lingerMs: number;
  /** A batch is made and waits to be sent. */
  readonly packed: boolean;
  /** Milliseconds until the other side is tried again. */
  readonly retryMs: number;
  /** Change events wait that go first. */
  readonly busy: boolean;
  /** The budget has room for it. */
  readonly affordable: boolean;
  /** The other side was asked where to go on, and answered. */
  readonly asked: boolean;
  /** Milliseconds until the cap has room for it. */
  readonly paceMs: number;
}

export type Step =
  | { readonly do: 'look' | 'read' | 'pack' | 'ask' | 'send' }
  | { readonly do: 'wait'; readonly ms: number; readonly state: UpstreamState | 'waiting for the way' };

/** How often it is looked whether change events still wait, and whether the budget has room. */
const BUSY_LOOK_MS = 100;
const BUDGET_LOOK_MS = 60_000;

export function nextStep(now: Situation): Step {
  if (now.lookInMs <= 0) return { do: 'look' };
  const wait = (ms: number, state: UpstreamState | 'waiting for the way'): Step => {
    return { do: 'wait', ms: Math.max(1, Math.min(ms, now.lookInMs)), state };
  };
  if (now.packed) {
    if (now.retryMs > 0) return wait(now.retryMs, 'waiting for the way');
    if (now.busy) return wait(BUSY_LOOK_MS, 'waiting for change events');
    if (!now.affordable) return wait(BUDGET_LOOK_MS, 'waiting for the budget');
    if (!now.asked) return { do: 'ask' };
    if (now.paceMs > 0) return wait(now.paceMs, 'sending');
    return { do: 'send' };
  }
  if (now.read === 'enough') return { do: 'pack' };
  if (now.hasMore && now.lineAnswers) return { do: 'read' };
  if (now.read === 'some' && now.lingerMs <= 0) return { do: 'pack' };
  if (!now.lineAnswers) return wait(now.lookInMs, 'waiting for the line');
  return now.read === 'some' ? wait(now.lingerMs, 'sending') : wait(now.lookInMs, 'up to date');
}
