/**
 * The state machine of the port owner. Pure: state and input give the next state and what is to be done, in order.
 *
 *   closed     nothing is open
 *   opening    Open was called; `previous` says what to go back to when it fails
 *   restoring  the new settings were refused after the old port was closed: it is being opened again as it was
 *   open       the port is open
 *   lost       it vanished; the next attempt comes with a timer or when a port appears
 *   reopening  an attempt to get it back is under way (also the first one after a start with at_start = "resume")
 *   closing    the port is being closed
 */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Port } from './ports.ts';
import type { LineConfig } from './settings.ts';

/** What to open. `port` is undefined after a start until the port was found for the first time. */
export interface Target {
  readonly config: LineConfig;
  readonly port: Port | undefined;
}

/** What stood when Open came, and what a refused Open goes back to. */
type Previous =
  | { readonly kind: 'nothing' }
  /** Another port, which stays open until the new one is. */
  | { readonly kind: 'standing'; readonly target: Target }
  /** The same port: it had to be closed first. */
  | { readonly kind: 'closed'; readonly target: Target }
  | { readonly kind: 'lost'; readonly target: Target; readonly error: LinesideError };

export type State =
  | { readonly kind: 'closed' }
  | { readonly kind: 'opening'; readonly target: Target; readonly previous: Previous }
  | { readonly kind: 'restoring'; readonly target: Target; readonly refusal: LinesideError }
  | { readonly kind: 'open'; readonly target: Target }
  | { readonly kind: 'lost'; readonly target: Target; readonly attempt: number; readonly error: LinesideError }
  | {
      readonly kind: 'reopening';
      readonly target: Target;
      readonly attempt: number;
      readonly error: LinesideError;
      /** A port appeared while this attempt was under way: when it fails, the next one comes at once. */
      readonly again: boolean;
    }
  | { readonly kind: 'closing' };

export type Input =
  | { readonly kind: 'open'; readonly target: Target }
  /** At start: get back what was open when the service last ran. */
  | { readonly kind: 'resume'; readonly target: Target; readonly error: LinesideError }
  /** The open under way succeeded; `target` carries the port as it was found. */
  | { readonly kind: 'opened'; readonly target: Target }
  | { readonly kind: 'openFailed'; readonly error: LinesideError }
  | { readonly kind: 'close' }
  | { readonly kind: 'closed' }
  /** The open device is gone. */
  | { readonly kind: 'lost'; readonly error: LinesideError }
  /** The timer of `lost` ran out, or a port appeared or became accessible. */
  | { readonly kind: 'retry' };

export type Effect =
  /** Open the device of the target; its outcome comes back as opened or openFailed. */
  | { readonly kind: 'openDevice'; readonly target: Target }
  /** Find the target's port again by its stable name, then as openDevice. */
  | { readonly kind: 'findAndOpen'; readonly target: Target }
  /** The outcome of the open under way is of no interest any more. */
  | { readonly kind: 'abandonOpen' }
  /** The device that was just opened is the open one now; `fresh`: by Open, so the receive buffer begins again. */
  | { readonly kind: 'adopt'; readonly fresh: boolean }
  /** Close the open device; `closed` comes back. */
  | { readonly kind: 'closeDevice' }
  /** Close the open device, then do what follows. */
  | { readonly kind: 'closeThen' }
  /** The open device is gone: end what was under way on it. */
  | { readonly kind: 'dropDevice' }
  | { readonly kind: 'startRetryTimer'; readonly attempt: number }
  | { readonly kind: 'stopRetryTimer' }
  /** Remember over restarts what is to be open. */
  | { readonly kind: 'remember'; readonly config: LineConfig | undefined }
  /** Answer the Open under way: OK, or why not. */
  | { readonly kind: 'answerOpen'; readonly error: LinesideError | undefined };

export interface Step {
  readonly state: State;
  readonly effects: readonly Effect[];
}

/** Both failures in one error: why it was refused, and why what stood before could not be brought back. */
export type JoinErrors = (refusal: LinesideError, restore: LinesideError) => LinesideError;

export function step(state: State, input: Input, join: JoinErrors): Step {
  switch (input.kind) {
    case 'open':
      return onOpen(state, input.target);
    case 'resume':
      return state.kind === 'closed' ? reopen(input.target, 0, input.error) : stay(state);
    case 'opened':
      return onOpened(state, input.target);
    case 'openFailed':
      return onOpenFailed(state, input.error, join);
    case 'close':
      return onClose(state);
    case 'closed':
      return state.kind === 'closing' ? { state: { kind: 'closed' }, effects: [] } : stay(state);
    case 'lost':
      return onLost(state, input.error);
    case 'retry':
      return onRetry(state);
  }
}

function onRetry(state: State): Step {
  if (state.kind === 'lost') return reopen(state.target, state.attempt, state.error);
  if (state.kind === 'reopening') return stay({ ...state, again: true });
  return stay(state);
}

function onOpen(state: State, target: Target): Step {
  const opening = (previous: Previous, effects: readonly Effect[]): Step => ({
    state: { kind: 'opening', target, previous },
    effects: [...effects, { kind: 'openDevice', target }],
  });
  switch (state.kind) {
    case 'closed':
      return opening({ kind: 'nothing' }, []);
    case 'open':
      if (state.target.port?.devicePath !== target.port?.devicePath)
        return opening({ kind: 'standing', target: state.target }, []);
      return opening({ kind: 'closed', target: state.target }, [{ kind: 'closeThen' }]);
    case 'lost':
      return opening({ kind: 'lost', target: state.target, error: state.error }, [{ kind: 'stopRetryTimer' }]);
    case 'reopening':
      return opening({ kind: 'lost', target: state.target, error: state.error }, [{ kind: 'abandonOpen' }]);
    case 'opening':
    case 'restoring':
    case 'closing':
      // The owner lets one Open or Close in at a time.
      return stay(state);
  }
}

function onOpened(state: State, target: Target): Step {
  const open: State = { kind: 'open', target };
  switch (state.kind) {
    case 'opening': {
      const closeOld: Effect[] = state.previous.kind === 'standing' ? [{ kind: 'closeThen' }] : [];
      const remember: Effect = { kind: 'remember', config: target.config };
      return {
        state: open,
        effects: [...closeOld, { kind: 'adopt', fresh: true }, remember, { kind: 'answerOpen', error: undefined }],
      };
    }
    case 'restoring':
      return {
        state: open,
        effects: [
          { kind: 'adopt', fresh: false },
          { kind: 'answerOpen', error: state.refusal },
        ],
      };
    case 'reopening':
      return { state: open, effects: [{ kind: 'adopt', fresh: false }] };
    case 'closed':
    case 'open':
    case 'lost':
    case 'closing':
      return stay(state);
  }
}

function onOpenFailed(state: State, error: LinesideError, join: JoinErrors): Step {
  switch (state.kind) {
    case 'opening':
      return backTo(state.previous, error);
    case 'restoring':
      return {
        state: { kind: 'closed' },
        effects: [
          { kind: 'remember', config: undefined },
          { kind: 'answerOpen', error: join(state.refusal, error) },
        ],
      };
    case 'reopening':
      if (state.again) return reopen(state.target, state.attempt + 1, error);
      return lost(state.target, state.attempt + 1, error, []);
    case 'closed':
    case 'open':
    case 'lost':
    case 'closing':
      return stay(state);
  }
}

function backTo(previous: Previous, error: LinesideError): Step {
  const answer: Effect = { kind: 'answerOpen', error };
  switch (previous.kind) {
    case 'nothing':
      return { state: { kind: 'closed' }, effects: [answer] };
    case 'standing':
      return { state: { kind: 'open', target: previous.target }, effects: [answer] };
    case 'closed':
      return {
        state: { kind: 'restoring', target: previous.target, refusal: error },
        effects: [{ kind: 'openDevice', target: previous.target }],
      };
    case 'lost':
      return lost(previous.target, 0, previous.error, [answer]);
  }
}

function onClose(state: State): Step {
  const forget: Effect = { kind: 'remember', config: undefined };
  switch (state.kind) {
    case 'closed':
    case 'closing':
      return stay(state);
    case 'open':
      return { state: { kind: 'closing' }, effects: [forget, { kind: 'closeDevice' }] };
    case 'opening': {
      const stands = state.previous.kind === 'standing';
      const closeOld: Effect[] = stands ? [{ kind: 'closeDevice' }] : [];
      return {
        state: { kind: stands ? 'closing' : 'closed' },
        effects: [{ kind: 'abandonOpen' }, { kind: 'answerOpen', error: closedMeanwhile() }, forget, ...closeOld],
      };
    }
    case 'restoring':
      return {
        state: { kind: 'closed' },
        effects: [{ kind: 'abandonOpen' }, { kind: 'answerOpen', error: state.refusal }, forget],
      };
    case 'reopening':
      return { state: { kind: 'closed' }, effects: [{ kind: 'abandonOpen' }, forget] };
    case 'lost':
      return { state: { kind: 'closed' }, effects: [{ kind: 'stopRetryTimer' }, forget] };
  }
}

function onLost(state: State, error: LinesideError): Step {
  switch (state.kind) {
    case 'open':
      return lost(state.target, 0, error, [{ kind: 'dropDevice' }]);
    case 'opening':
      if (state.previous.kind !== 'standing') return stay(state);
      return {
        state: { ...state, previous: { kind: 'lost', target: state.previous.target, error } },
        effects: [{ kind: 'dropDevice' }],
      };
    case 'closing':
      // closeDevice ends all the same and reports.
      return stay(state);
    case 'closed':
    case 'restoring':
    case 'lost':
    case 'reopening':
      return stay(state);
  }
}

function lost(target: Target, attempt: number, error: LinesideError, effects: readonly Effect[]): Step {
  return {
    state: { kind: 'lost', target, attempt, error },
    effects: [...effects, { kind: 'startRetryTimer', attempt }],
  };
}

function reopen(target: Target, attempt: number, error: LinesideError): Step {
  return {
    state: { kind: 'reopening', target, attempt, error, again: false },
    effects: [{ kind: 'stopRetryTimer' }, { kind: 'findAndOpen', target }],
  };
}

function closedMeanwhile(): LinesideError {
  return new LinesideError('NOT_SENT', 'Close came while the port was being opened');
}

function stay(state: State): Step {
  return { state, effects: [] };
}
