/**
 * The state machine of the port owner. Pure: state and input give the next state and what is to be done, in order.
 *
 *   closed     nothing is open
 *   opening    Open was called; `previous` is restored if it fails
 *   restoring  the new settings were refused after the old port was closed: it is being opened again as it was
 *   open       the port is open
 *   lost       it vanished; the next attempt comes with a timer or when a port appears
 *   reopening  an attempt to get it back is under way (also the first one after a start with at_start = "resume")
 *   closing    the port is being closed
 */
import { LinesideError } from '../../shared/base/errors.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { EventKind } from '../log/log-api.ts';
import type { Port } from './inventory.ts';
import { type LineConfig, settingsText } from './line-config.ts';

const { BACK, CLOSED, LOST, OPENED } = lineside.v1.RecordedEvent.Kind;

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
  | { readonly kind: 'open'; readonly target: Target; readonly by: string }
  /** At start: get back what was open when the service last ran. */
  | { readonly kind: 'resume'; readonly target: Target; readonly error: LinesideError }
  /** The open under way succeeded; `target` carries the port as it was found. */
  | { readonly kind: 'opened'; readonly target: Target }
  | { readonly kind: 'openFailed'; readonly error: LinesideError }
  | { readonly kind: 'close'; readonly by: string }
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
  /** Ignore the outcome of the open in flight. */
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

interface Step {
  readonly state: State;
  readonly effects: readonly Effect[];
}

type Kind<Union extends { readonly kind: string }, K> = Extract<Union, { readonly kind: K }>;
type Handlers<S extends State['kind']> = {
  readonly [I in Input['kind']]?: (state: Kind<State, S>, input: Kind<Input, I>) => Step;
};

/** What happens in each state on each input. Where nothing is named, nothing happens: the owner lets one Open or Close in at a time. */
const transitions: { readonly [S in State['kind']]: Handlers<S> } = {
  closed: {
    open: (_, { target }) => opening(target, { kind: 'nothing' }, []),
    resume: (_, { target, error }) => reopen(target, 0, error),
  },
  opening: {
    opened: ({ previous }, { target }) => ({
      state: { kind: 'open', target },
      effects: [
        ...(previous.kind === 'standing' ? [{ kind: 'closeThen' } as const] : []),
        { kind: 'adopt', fresh: true },
        { kind: 'remember', config: target.config },
        { kind: 'answerOpen', error: undefined },
      ],
    }),
    openFailed: ({ previous }, { error }) => backTo(previous, error),
    close: ({ previous }) => {
      const stands = previous.kind === 'standing';
      const error = new LinesideError('NOT_SENT', 'Close came while the port was being opened');
      const closeOld: Effect[] = stands ? [{ kind: 'closeDevice' }] : [];
      return {
        state: { kind: stands ? 'closing' : 'closed' },
        effects: [{ kind: 'abandonOpen' }, { kind: 'answerOpen', error }, forget, ...closeOld],
      };
    },
    lost: (state, { error }) => {
      if (state.previous.kind !== 'standing') return stay(state);
      return {
        state: { ...state, previous: { kind: 'lost', target: state.previous.target, error } },
        effects: [{ kind: 'dropDevice' }],
      };
    },
  },
  restoring: {
    opened: ({ refusal }, { target }) => ({
      state: { kind: 'open', target },
      effects: [
        { kind: 'adopt', fresh: false },
        { kind: 'answerOpen', error: refusal },
      ],
    }),
    openFailed: ({ refusal }, { error }) => ({
      state: { kind: 'closed' },
      effects: [forget, { kind: 'answerOpen', error: notRestored(refusal, error) }],
    }),
    close: ({ refusal }) => closed({ kind: 'abandonOpen' }, { kind: 'answerOpen', error: refusal }, forget),
  },
  open: {
    open: (state, { target }) =>
      state.target.port?.devicePath === target.port?.devicePath
        ? opening(target, { kind: 'closed', target: state.target }, [{ kind: 'closeThen' }])
        : opening(target, { kind: 'standing', target: state.target }, []),
    close: () => ({ state: { kind: 'closing' }, effects: [forget, { kind: 'closeDevice' }] }),
    lost: ({ target }, { error }) => lost(target, 0, error, [{ kind: 'dropDevice' }]),
  },
  lost: {
    open: ({ target: before, error }, { target }) =>
      opening(target, { kind: 'lost', target: before, error }, [{ kind: 'stopRetryTimer' }]),
    close: () => closed({ kind: 'stopRetryTimer' }, forget),
    retry: ({ target, attempt, error }) => reopen(target, attempt, error),
  },
  reopening: {
    open: ({ target: before, error }, { target }) =>
      opening(target, { kind: 'lost', target: before, error }, [{ kind: 'abandonOpen' }]),
    opened: (_, { target }) => ({ state: { kind: 'open', target }, effects: [{ kind: 'adopt', fresh: false }] }),
    openFailed: ({ target, attempt, again }, { error }) =>
      again ? reopen(target, attempt + 1, error) : lost(target, attempt + 1, error, []),
    close: () => closed({ kind: 'abandonOpen' }, forget),
    retry: (state) => stay({ ...state, again: true }),
  },
  // closeDevice ends and reports also when the port is lost meanwhile.
  closing: { closed: () => closed() },
};

export function step(state: State, input: Input): Step {
  // The table is typed by both kinds; TypeScript cannot relate the two look-ups.
  const handle = transitions[state.kind][input.kind] as ((s: State, i: Input) => Step) | undefined;
  return handle?.(state, input) ?? stay(state);
}

function notRestored(refusal: LinesideError, restore: LinesideError): LinesideError {
  const message = `${refusal.message}; the former configuration could not be restored either: ${restore.message}; the port is closed`;
  return new LinesideError(refusal.code, message, { cause: refusal });
}

const forget: Effect = { kind: 'remember', config: undefined };

function opening(target: Target, previous: Previous, effects: readonly Effect[]): Step {
  return { state: { kind: 'opening', target, previous }, effects: [...effects, { kind: 'openDevice', target }] };
}

function closed(...effects: Effect[]): Step {
  return { state: { kind: 'closed' }, effects };
}

function backTo(previous: Previous, error: LinesideError): Step {
  const answer: Effect = { kind: 'answerOpen', error };
  switch (previous.kind) {
    case 'nothing':
      return closed(answer);
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

function stay(state: State): Step {
  return { state, effects: [] };
}

type Logged = {
  readonly level: 'info' | 'warn';
  readonly message: string;
  readonly fields?: Record<string, string | number>;
  readonly event?: { readonly kind: EventKind; readonly detail: string };
};

const closedEvent = { kind: CLOSED, detail: '' };

/** The line of the operator's log for a change that matters, and its event in the serial log; undefined for any other, such as an attempt like those before it. */
export function logLine(before: State, now: State, device: string): Logged | undefined {
  if (before.kind === now.kind) return undefined;
  switch (now.kind) {
    case 'open': {
      const { portName, baudRate } = now.target.config;
      const line = { level: 'info', message: 'port open', fields: { port: portName, device, baud: baudRate } } as const;
      // An Open of another port was refused: this one stayed open.
      if (before.kind === 'opening' && before.previous.kind === 'standing' && before.previous.target === now.target)
        return line;
      const kind = before.kind === 'reopening' ? BACK : OPENED;
      return { ...line, event: { kind, detail: `${portName}, ${settingsText(now.target.config)}` } };
    }
    case 'lost': {
      if (before.kind === 'reopening' && now.attempt !== 1) return undefined;
      const message =
        before.kind === 'reopening' ? 'port cannot be opened yet, trying again' : 'port lost, waiting for it to return';
      const fields = { port: now.target.config.portName, error: now.error.message };
      const event = { kind: LOST, detail: now.error.message };
      return { level: 'warn', message, fields, ...(before.kind === 'open' && { event }) };
    }
    case 'closed':
      // Nothing was open when an Open was refused.
      return { level: 'info', message: 'port closed', ...(before.kind !== 'opening' && { event: closedEvent }) };
    default:
      return undefined;
  }
}
