/** What the service answered, as a failure that says what to do next. Pure. */
import { CliFailure, type ExitStatus, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';

interface Meaning {
  readonly code: string;
  readonly status: ExitStatus;
  readonly next: string;
}

const openFirst = 'Open one: lineside open PORT (lineside devices lists them).';
/** What the service says to callers of its RPCs; the command says it in its own words. */
const wordsForRpcs =
  /^cannot open [^:]+: |^port_name: | \((open a port first|ListDevices names the ports there are)\)$/g;

function inWordsOfTheCli(said: string): string {
  return safeText(said.replace(wordsForRpcs, ''));
}

/** gRPC statuses by number. */
const grpcMeanings: Readonly<Record<number, Meaning>> = {
  1: { code: 'CANCELLED', status: exitStatus.refused, next: '' },
  2: { code: 'UNKNOWN', status: exitStatus.refused, next: 'See the log of the service: journalctl -u lineside.' },
  3: { code: 'INVALID_ARGUMENT', status: exitStatus.refused, next: '' },
  4: {
    code: 'DEADLINE_EXCEEDED',
    status: exitStatus.unreachable,
    next: 'Look at lineside status, or give more time: --timeout.',
  },
  5: { code: 'NOT_FOUND', status: exitStatus.nothing, next: '' },
  7: {
    code: 'PERMISSION_DENIED',
    status: exitStatus.denied,
    next: 'This needs a token (or certificate) with the role operator.',
  },
  8: { code: 'RESOURCE_EXHAUSTED', status: exitStatus.refused, next: 'Try again in a moment.' },
  9: { code: 'FAILED_PRECONDITION', status: exitStatus.refused, next: '' },
  11: { code: 'OUT_OF_RANGE', status: exitStatus.lost, next: 'The log was replaced: read it with --from-start.' },
  12: { code: 'UNIMPLEMENTED', status: exitStatus.refused, next: '' },
  13: { code: 'INTERNAL', status: exitStatus.refused, next: 'See the log of the service: journalctl -u lineside.' },
  14: {
    code: 'UNAVAILABLE',
    status: exitStatus.unreachable,
    next: 'Try again: the service may be starting or stopping.',
  },
  15: { code: 'DATA_LOSS', status: exitStatus.lost, next: 'Read what is left with --from-start.' },
  16: {
    code: 'UNAUTHENTICATED',
    status: exitStatus.denied,
    next: 'Give a valid one: --token-file FILE, or LINESIDE_TOKEN_FILE; "lineside token list" on the box names them.',
  },
};

export const grpcUnavailable = 14;
export const grpcCancelled = 1;
export const grpcOutOfRange = 11;
export const grpcDataLoss = 15;

export function grpcFailure(number: number, details: string, cause: unknown): CliFailure {
  const meaning = grpcMeanings[number] ?? { code: `GRPC_${number}`, status: exitStatus.refused, next: '' };
  const why = details === '' ? meaning.code : inWordsOfTheCli(details.replace(/^NOT_CONNECTED: /, ''));
  if (details.startsWith('NOT_CONNECTED')) {
    return new CliFailure({ status: exitStatus.closed, code: 'NOT_CONNECTED', why, next: openFirst, cause });
  }
  return new CliFailure({ ...meaning, why, cause });
}

/** serial.StatusCode by number; 0 is OK. */
const contractMeanings: Readonly<Record<number, Meaning>> = {
  1: { code: 'INVALID_ARGUMENT', status: exitStatus.refused, next: '' },
  2: { code: 'NOT_FOUND', status: exitStatus.nothing, next: 'lineside devices lists the ports.' },
  3: { code: 'INTERNAL_ERROR', status: exitStatus.refused, next: 'lineside status shows the state of the line.' },
  4: { code: 'NOT_CONNECTED', status: exitStatus.closed, next: openFirst },
};

export function isRefusal(answer: { readonly status: number }): boolean {
  return answer.status !== 0;
}

/** Throws unless the answer's status is OK. The set of codes may grow: an unknown one is a refusal. */
export function checkAnswer(answer: { readonly status: number; readonly error: string }, what: string): void {
  if (!isRefusal(answer)) return;
  const meaning = contractMeanings[answer.status] ?? {
    code: `STATUS_${answer.status}`,
    status: exitStatus.refused,
    next: '',
  };
  throw new CliFailure({ ...meaning, what, why: answer.error === '' ? meaning.code : inWordsOfTheCli(answer.error) });
}
