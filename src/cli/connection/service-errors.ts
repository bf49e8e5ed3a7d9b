/** What the service answered, as a failure that says what to do next. Pure. */
import { CliFailure, type Outcome } from '../failure.ts';
import { safeText } from '../output/hex.ts';

type Meaning = readonly [code: string, outcome: Outcome, next: string];

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
  4: ['DEADLINE_EXCEEDED', 'unreachable', 'Look at lineside status, or give more time: --timeout.'],
  5: ['NOT_FOUND', 'nothing', ''],
  7: ['PERMISSION_DENIED', 'denied', 'This needs a token (or certificate) with the role operator.'],
  8: ['RESOURCE_EXHAUSTED', 'refused', 'Try again in a moment.'],
  9: ['FAILED_PRECONDITION', 'refused', ''],
  11: ['OUT_OF_RANGE', 'lost', 'The log was replaced: read it with --from-start.'],
  12: ['UNIMPLEMENTED', 'refused', ''],
  13: ['INTERNAL', 'refused', seeLog],
  14: ['UNAVAILABLE', 'unreachable', 'Try again: the service may be starting or stopping.'],
  15: ['DATA_LOSS', 'lost', 'Read what is left with --from-start.'],
  16: [
    'UNAUTHENTICATED',
    'denied',
    'Give a valid one: --token-file FILE, or LINESIDE_TOKEN_FILE; "lineside token list" on the box names them.',
  ],
};

export const grpcUnavailable = 14;
export const grpcCancelled = 1;
export const grpcOutOfRange = 11;
export const grpcDataLoss = 15;

export function grpcFailure(number: number, details: string, cause: unknown): CliFailure {
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

/** Throws unless the answer's status is OK. The set of codes may grow: an unknown one is a refusal. */
export function checkAnswer({ status, error }: { readonly status: number; readonly error: string }): void {
  if (status === 0) return;
  const known: Readonly<Record<number, Meaning>> = contractMeanings;
  const [code, outcome, next] = known[status] ?? [`STATUS_${status}`, 'refused', ''];
  throw new CliFailure(outcome, code, error === '' ? code : inWordsOfTheCli(error), { next });
}
