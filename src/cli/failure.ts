/** A command that did not succeed, said in three parts (what failed, why, what to do next), and its exit status. */

/** The exit statuses, in one table: `lineside help exit-status` prints it. */
export const exitStatus = {
  ok: 0,
  refused: 1,
  usage: 2,
  unreachable: 3,
  denied: 4,
  nothing: 5,
  closed: 6,
  lost: 7,
} as const;
export type Outcome = keyof typeof exitStatus;

const exitMeaning: Readonly<Record<Outcome, string>> = {
  ok: 'Done. (`config` and `status` of a closed port too: the question was answered.)',
  refused:
    'The service refused or failed, or a local file could not be used. `status`: the port is lost, or the log is not being kept. `alerts`: there is one above info. `webhook ping`: it was not accepted. `doctor`: something failed.',
  usage: 'The command line or the configuration file is wrong.',
  unreachable: 'The service cannot be reached, its certificate is not trusted, or it did not answer in time.',
  denied: 'No valid token or certificate, or one without the role this needs.',
  nothing:
    'Nothing there: no such port, dictionary, record, backup or identity, nothing received (or less than --count), nothing found (`log --grep`). `discover`: no box answered.',
  closed: 'No port is open.',
  lost: 'Log entries that were asked for are gone: removed by retention, or the log was replaced.',
};

/** Added to the signal's number when a signal ended a command: the shell's habit. */
const signalBase = 128;
const signalNumber: Readonly<Record<string, number>> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };

export function signalStatus(signal: string): number {
  return signalBase + (signalNumber[signal] ?? 0);
}

export interface FailureDetails {
  /** What could not be done: "cannot open /dev/ttyUSB0"; '' when the command's own phrase fits. */
  readonly what?: string;
  /** What to do next, a sentence; '' when there is nothing to say. */
  readonly next?: string;
  /** Every single fault, where there may be several: a line each below the failure. */
  readonly reasons?: readonly string[];
  readonly cause?: unknown;
}

export class CliFailure extends Error {
  override readonly name = 'CliFailure';
  readonly outcome: Outcome;
  /** For scripts: a gRPC status, a status of the contract, or a word of the CLI's own. */
  readonly code: string;
  readonly what: string;
  readonly next: string;
  readonly reasons: readonly string[];

  constructor(outcome: Outcome, code: string, why: string, details: FailureDetails = {}) {
    const { what = '', next = '', reasons = [], cause } = details;
    super(why, cause === undefined ? undefined : { cause });
    this.outcome = outcome;
    this.code = code;
    this.what = what;
    this.next = next;
    this.reasons = reasons;
  }

  get status() {
    return exitStatus[this.outcome];
  }

  with(details: FailureDetails): CliFailure {
    const { outcome, code, message, what, next, reasons, cause } = this;
    return new CliFailure(outcome, code, message, { what, next, reasons, cause, ...details });
  }

  /** The same failure with the phrase of what was being done, unless it has one. */
  during(what: string): CliFailure {
    return this.what === '' ? this.with({ what }) : this;
  }
}

export function usageFailure(why: string, next = ''): CliFailure {
  return new CliFailure('usage', 'USAGE', why, { what: 'bad command line', next });
}

/** `lineside: what failed: why. What to do next.`, and below it the reasons. */
export function failureLine(failure: CliFailure): string {
  const why = failure.message.replace(/[.\s]+$/, '');
  const head = ['lineside', failure.what, why].filter((part) => part !== '').join(': ');
  const first = failure.next === '' ? `${head}.\n` : `${head}. ${failure.next}\n`;
  // A single one is often the message itself.
  const reasons = failure.reasons.length === 1 ? failure.reasons.filter((one) => !head.includes(one)) : failure.reasons;
  return first + reasons.map((reason) => `  ${reason}\n`).join('');
}

export function failureJson(failure: CliFailure): object {
  const { code, what, message, next, reasons, status } = failure;
  const listed = reasons.length === 0 ? {} : { reasons };
  return { error: { code, what, message, next, ...listed, exitStatus: status } };
}

/** Each status with its meaning, those of signals last. */
export function exitStatuses(): (readonly [status: string, meaning: string])[] {
  const own = Object.entries(exitStatus).map(
    ([name, number]) => [String(number), exitMeaning[name as Outcome]] as const,
  );
  const quiet = '`log --follow`, `status --watch`, `outbox --watch` and `monitor` end with 0 on Ctrl-C.';
  return [...own, [`${signalBase}+n`, `Ended by signal n (130: Ctrl-C). ${quiet}`]];
}

export function exitStatusTable(): string {
  return `Exit status:\n${exitStatuses()
    .map(([status, meaning]) => `  ${status}  ${meaning}\n`)
    .join('')}`;
}
