/** The line as the commands see it: calls with a time limit, and what a call throws as a failure people can act on. */
import { CliFailure, type Outcome } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { OutputClosed } from '../output/output.ts';
import type { OpenedChannel } from './channel.ts';
import { unreachable } from './diagnose.ts';
import type { Place } from './secrets.ts';

/** With the signal that ends the call. */
export type Send<T> = (channel: OpenedChannel, options: { readonly signal: AbortSignal }) => Promise<T>;

/** Channels to the line, opened again after a loss. */
export class Service {
  readonly #place: Place;
  #channel: OpenedChannel | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  async channel(): Promise<OpenedChannel> {
    const { openChannel } = await import('./channel.ts');
    this.#channel ??= openChannel(this.#place);
    return this.#channel;
  }

  /** Closes the channel; the next call opens a new one, at once and not after gRPC's own delay. */
  drop(): void {
    this.#channel?.close();
    this.#channel = undefined;
  }

  /** One call with a time limit; `stop` ends it earlier. Failures come out as CliFailure. */
  async call<T>(limitMs: number, stop: AbortSignal, send: Send<T>): Promise<T> {
    const channel = await this.channel();
    const limit = AbortSignal.timeout(limitMs);
    try {
      return await send(channel, { signal: AbortSignal.any([limit, stop]) });
    } catch (error) {
      if (limit.aborted && !stop.aborted) throw tooSlow(limitMs);
      stop.throwIfAborted();
      throw await this.failure(error);
    }
  }

  async failure(error: unknown): Promise<unknown> {
    if (error instanceof CliFailure || error instanceof OutputClosed) return error;
    const { grpcStatus } = await import('./channel.ts');
    const status = grpcStatus(error);
    if (status === undefined) return error;
    if (status.code === grpcUnavailable) return unreachable(this.#place, status.details);
    return grpcFailure(status.code, status.details, error);
  }
}

export function tooSlow(limitMs: number): CliFailure {
  return new CliFailure('unreachable', 'TIMEOUT', `no answer within ${limitMs / 1000} s`, {
    next: 'Check lineside status; give more time with --timeout SECONDS.',
  });
}

// What the service answered, as a failure that says what to do next.

type Meaning = readonly [code: string, outcome: Outcome, next: string];

/** Of both interfaces. */
export const giveToken =
  'Give a valid one: --token-file FILE, or LINESIDE_TOKEN_FILE; "lineside token list" on the box names them.';
const openFirst = 'Open one: lineside open PORT (lineside devices lists them).';
const seeLog = 'See the log of the service: journalctl -u lineside.';
/** What the service says to callers of its RPCs; the command says it in its own words. */
const wordsForRpcs =
  /^cannot open [^:]+: |^port_name: | \((open a port first|ListDevices names the ports there are)\)$/g;

function inWordsOfTheCli(said: string): string {
  return safeText(said.replace(wordsForRpcs, ''));
}

/** gRPC statuses by number. */
const grpcMeanings: Readonly<Record<number, Meaning>> = {
  1: ['CANCELLED', 'refused', ''],
  2: ['UNKNOWN', 'refused', seeLog],
  3: ['INVALID_ARGUMENT', 'refused', ''],
  4: ['DEADLINE_EXCEEDED', 'unreachable', 'Check lineside status, or give more time: --timeout.'],
  5: ['NOT_FOUND', 'nothing', ''],
  7: ['PERMISSION_DENIED', 'denied', 'This needs a token (or certificate) with the role operator.'],
  8: ['RESOURCE_EXHAUSTED', 'refused', 'Try again in a moment.'],
  9: ['FAILED_PRECONDITION', 'refused', ''],
  11: ['OUT_OF_RANGE', 'lost', 'The log was replaced: read it with --from-start.'],
  12: ['UNIMPLEMENTED', 'refused', ''],
  13: ['INTERNAL', 'refused', seeLog],
  14: ['UNAVAILABLE', 'unreachable', 'Try again: the service may be starting or stopping.'],
  15: ['DATA_LOSS', 'lost', 'Read what is left with --from-start.'],
  16: ['UNAUTHENTICATED', 'denied', giveToken],
};

export const grpcUnavailable = 14;
export const grpcCancelled = 1;
export const grpcOutOfRange = 11;
export const grpcDataLoss = 15;

function grpcFailure(number: number, details: string, cause: unknown): CliFailure {
  const meaning = grpcMeanings[number] ?? [`GRPC_${number}`, 'refused', ''];
  const isClosed = details.startsWith('NOT_CONNECTED');
  const [code, outcome, next] = isClosed ? contractMeanings[4] : meaning;
  const why = details === '' ? code : inWordsOfTheCli(details.replace(/^NOT_CONNECTED: /, ''));
  return new CliFailure(outcome, code, why, { next, cause });
}

/** serial.StatusCode by number; 0 is OK. */
const contractMeanings = {
  1: ['INVALID_ARGUMENT', 'refused', ''],
  2: ['NOT_FOUND', 'nothing', 'lineside devices lists the ports.'],
  3: ['INTERNAL_ERROR', 'refused', 'lineside status shows the state of the line.'],
  4: ['NOT_CONNECTED', 'closed', openFirst],
} satisfies Readonly<Record<number, Meaning>>;

interface Answer {
  readonly status: number;
  readonly error: string;
}

/** Throws unless the answer's status is OK. */
export function checkAnswer(answer: Answer): void {
  if (answer.status !== 0) throw answerFailure(answer);
}

/** The set of codes may grow: an unknown one is a refusal. */
function answerFailure({ status, error }: Answer): CliFailure {
  const known: Readonly<Record<number, Meaning>> = contractMeanings;
  const [code, outcome, next] = known[status] ?? [`STATUS_${status}`, 'refused', ''];
  return new CliFailure(outcome, code, error === '' ? code : inWordsOfTheCli(error), { next });
}

export const noOpenPort = (): CliFailure => answerFailure({ status: 4, error: 'no port is open' });
