/** The shipper's next step, by its situation: the table behind its loop. Pure. */
import type { UpstreamState } from './status.ts';

export interface Situation {
  /** The line has answered since it last failed to. */
  readonly lineAnswers: boolean;
  /** Milliseconds until the state of its log is read again. */
  readonly refreshInMs: number;
  readonly hasMore: boolean;
  /** Read and not packed: nothing, less than a batch, a batch. */
  readonly read: 'nothing' | 'some' | 'enough';
  /** Milliseconds until what was read is sent, even if it fills no batch. */
  readonly lingerMs: number;
  /** The times of entries that were sent can be corrected now. */
  readonly correctable: boolean;
  readonly packed: boolean;
  readonly inFlight: boolean;
  /** It may be sent beside them. */
  readonly hasRoom: boolean;
  /** Milliseconds until the remote is tried again. */
  readonly retryMs: number;
  /** Change events wait that go first. */
  readonly busy: boolean;
  /** The budget has room for it. */
  readonly affordable: boolean;
  /** The remote has answered where to resume. */
  readonly asked: boolean;
  /** Milliseconds until the cap has room for it. */
  readonly paceMs: number;
}

export type Action = 'refresh' | 'read' | 'correct' | 'pack' | 'ask' | 'send';

export interface Waiting {
  readonly do: 'wait';
  readonly ms: number;
  readonly state: UpstreamState | 'waiting for the transport';
}

export type Step = { readonly do: Action } | Waiting;

/** How often the shipper checks whether change events still wait, and whether the budget has room. */
const BUSY_CHECK_MS = 100;
const BUDGET_CHECK_MS = 60_000;

export function nextStep(now: Situation): Step {
  if (now.refreshInMs <= 0) return { do: 'refresh' };
  const step = now.packed ? withBatch(now) : withoutBatch(now);
  return step.do === 'wait' ? { ...step, ms: Math.max(1, Math.min(step.ms, now.refreshInMs)) } : step;
}

function withBatch(now: Situation): Step {
  if (now.retryMs > 0) return { do: 'wait', ms: now.retryMs, state: 'waiting for the transport' };
  if (now.busy) return { do: 'wait', ms: BUSY_CHECK_MS, state: 'waiting for change events' };
  if (!now.affordable) return { do: 'wait', ms: BUDGET_CHECK_MS, state: 'waiting for the budget' };
  if (!now.asked) return { do: 'ask' };
  if (now.paceMs > 0) return { do: 'wait', ms: now.paceMs, state: 'sending' };
  // The end of one in flight ends the wait.
  if (!now.hasRoom) return { do: 'wait', ms: now.refreshInMs, state: 'sending' };
  return { do: 'send' };
}

function withoutBatch(now: Situation): Step {
  const { lineAnswers, read, refreshInMs, lingerMs, inFlight } = now;
  const correct: Step = inFlight ? { do: 'wait', ms: refreshInMs, state: 'sending' } : { do: 'correct' };
  if (now.correctable && lineAnswers) return correct;
  if (read === 'enough') return { do: 'pack' };
  if (now.hasMore && lineAnswers) return { do: 'read' };
  if (read === 'some' && lingerMs <= 0) return { do: 'pack' };
  if (!lineAnswers) return { do: 'wait', ms: refreshInMs, state: 'waiting for the line' };
  if (read === 'some') return { do: 'wait', ms: lingerMs, state: 'sending' };
  return { do: 'wait', ms: refreshInMs, state: inFlight ? 'sending' : 'up to date' };
}
