/** What the hub answered when it did not do what was asked (RFC 9457), as a failure that says what to do next. Pure. */
import { CliFailure, type ExitStatus, exitStatus } from './failure.ts';
import { safeText } from './hex.ts';
import type { JsonObject } from './json.ts';

interface Meaning {
  readonly status: ExitStatus;
  /** Where the hub gives no hint of its own. */
  readonly next: string;
}

const meanings: Readonly<Record<number, Meaning>> = {
  401: {
    status: exitStatus.denied,
    next: 'Name the file that holds your token: --token-file FILE, or LINESIDE_TOKEN_FILE.',
  },
  403: { status: exitStatus.denied, next: 'This needs a token with another role: see lineside token list on the box.' },
  404: { status: exitStatus.nothing, next: '' },
  410: { status: exitStatus.nothing, next: '' },
  413: { status: exitStatus.refused, next: 'Send less at a time, or raise the limit in the configuration of the box.' },
  429: { status: exitStatus.refused, next: 'Try again in a moment.' },
  500: { status: exitStatus.refused, next: 'See the log of the service: journalctl -u lineside-hub.' },
  503: { status: exitStatus.refused, next: 'Try again in a moment.' },
  507: {
    status: exitStatus.refused,
    next: 'Nothing was written. Look at lineside outbox: what waits goes when the broker is back; or free space on the disk.',
  },
};

/** More than a person reads; the count of the rest is said. The hub itself lists up to 10,000. */
const mostReasons = 10_000;
/** A line of a terminal or a few: what is longer is not made for reading. */
const mostChars = 2000;

/** `problem`: the body, where it was JSON. */
export function problemFailure(httpStatus: number, problem: JsonObject | undefined): CliFailure {
  const known = meanings[httpStatus] ?? { status: exitStatus.refused, next: '' };
  const strange = 'Is that the HTTP interface of lineside? Check --host and its port, or --socket.';
  const meaning = problem === undefined && known.next === '' ? { ...known, next: strange } : known;
  const code = text(problem?.['code']);
  const detail = text(problem?.['detail']) || text(problem?.['title']);
  const stopping = code === 'SHUTTING_DOWN';
  return new CliFailure({
    status: stopping ? exitStatus.unreachable : meaning.status,
    code: code === '' ? `HTTP_${httpStatus}` : code,
    why: detail === '' ? `the answer is HTTP status ${httpStatus} and no word more` : detail,
    // What the hub advises a client without a token is about headers.
    next: httpStatus === 401 ? meaning.next : sentence(text(problem?.['hint'])) || meaning.next,
    reasons: reasonsOf(problem?.['reasons']),
  });
}

function reasonsOf(given: unknown): readonly string[] {
  const all = Array.isArray(given) ? given : [];
  const shown = all.slice(0, mostReasons).map((reason) => text(reason));
  return all.length > shown.length ? [...shown, `... and ${all.length - shown.length} more`] : shown;
}

function text(value: unknown): string {
  return typeof value === 'string' ? safeText(value.slice(0, mostChars)) : '';
}

/** "free some space" as "Free some space." */
function sentence(hint: string): string {
  const begun = hint.charAt(0).toUpperCase() + hint.slice(1);
  return begun === '' || /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
