/** What administrators did, a line of JSON each, where the hub cannot change it. Two files of a bounded size: the older one goes. */
import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import { instantOfMs } from '../shared/base/instant.ts';
import { objectIn } from '../shared/base/json.ts';
import type { AdminRequest } from './verbs.ts';

/** About 5,000 lines. */
const MAX_BYTES = 1_024 * 1_024;
const WRITE_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW;
/** Below the longest answer that the hub reads; a record has some hundred bytes. */
const MAX_PAGE_CHARS = 512 * 1_024;

/** The first line of a verb that changes something. */
export const BEGUN = 'begun';

interface Action {
  readonly caller: string;
  readonly verb: string;
  readonly args: AdminRequest['args'];
}

interface Line extends Action {
  /** Counts the lines: no file has two with the same number. */
  readonly n: number;
  readonly at: string;
  readonly outcome: string;
}

/** A verb as it was asked for and as it ended: the AdministrationAction of the HTTP interface. */
interface AuditedAction extends Action {
  readonly id: number;
  readonly at: string;
  readonly endedAt: string | null;
  readonly outcome: string;
}

interface AuditPage {
  readonly items: readonly AuditedAction[];
  /** The id before which the next page begins; null: this was the last one. */
  readonly next: number | null;
}

export class AuditFile {
  readonly #path: string;
  readonly #clock: Clock;
  /** Number of the newest line; undefined: not read yet. */
  #last: number | undefined;

  constructor(dir: string, clock: Clock) {
    this.#path = join(dir, 'audit.jsonl');
    this.#clock = clock;
  }

  /** On the card when it returns. STORAGE_FAILED: it could not be written; then the verb is not run, or not answered. */
  append(action: Action & { readonly outcome: string }): void {
    try {
      const n = (this.#last ?? this.#lines().at(-1)?.n ?? 0) + 1;
      const fd = openSync(this.#path, WRITE_FLAGS, 0o600);
      try {
        const { size } = fstatSync(fd);
        const isTorn = size > 0 && readAt(fd, size - 1, 1) !== '\n';
        writeSync(
          fd,
          `${isTorn ? '\n' : ''}${JSON.stringify({ n, at: instantOfMs(this.#clock.wallMs()), ...action })}\n`,
        );
        fsyncSync(fd);
        this.#last = n;
        if (fstatSync(fd).size > MAX_BYTES) renameSync(this.#path, `${this.#path}.1`);
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      throw new LinesideError('STORAGE_FAILED', `cannot write the audit of the administration: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Newest first. `isWanted`: of a verb. */
  page(before: number | undefined, limit: number, isWanted: (verb: string) => boolean): AuditPage {
    const items: AuditedAction[] = [];
    let chars = 0;
    for (const action of actionsIn(this.#lines(), before ?? Infinity)) {
      if (!isWanted(action.verb)) continue;
      chars += JSON.stringify(action).length;
      const last = items.at(-1);
      if (last !== undefined && (items.length === limit || chars > MAX_PAGE_CHARS)) return { items, next: last.id };
      items.push(action);
    }
    return { items, next: null };
  }

  /** Oldest first, without those that a power failure has torn. */
  #lines(): Line[] {
    const lines: Line[] = [];
    for (const text of [...textOf(`${this.#path}.1`).split('\n'), ...textOf(this.#path).split('\n')]) {
      const { n, at, caller, verb, args, outcome } = objectIn(text) ?? {};
      if (typeof args !== 'object' || args === null) continue;
      const last = lines.at(-1)?.n ?? 0;
      lines.push({
        // Lines of the first builds have no number.
        n: typeof n === 'number' && n > last ? n : last + 1,
        at: String(at),
        caller: String(caller),
        verb: String(verb),
        args: args as Action['args'],
        outcome: String(outcome),
      });
    }
    return lines;
  }
}

/** Newest first; a verb's two lines are one action. One verb runs at a time: its lines follow each other. */
function* actionsIn(lines: readonly Line[], before: number): Generator<AuditedAction> {
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i];
    if (line === undefined || line.n >= before) continue;
    const { n, at, caller, verb, args, outcome } = line;
    const first = lines[i - 1];
    if (outcome === BEGUN) {
      yield { id: n, at, endedAt: null, caller, verb, args, outcome: 'interrupted' };
    } else if (first?.outcome === BEGUN && isSame(first, line)) {
      i--;
      yield { id: first.n, at: first.at, endedAt: at, caller, verb, args, outcome };
    } else yield { id: n, at, endedAt: at, caller, verb, args, outcome };
  }
}

function isSame(a: Action, b: Action): boolean {
  return a.caller === b.caller && a.verb === b.verb && isDeepStrictEqual(a.args, b.args);
}

/** '': there is no such file. Of one that is too long, its end. */
function textOf(path: string): string {
  let fd: number;
  try {
    fd = openSync(path, READ_FLAGS);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return '';
    throw new LinesideError('STORAGE_FAILED', `cannot read the audit of the administration: ${messageOf(error)}`, {
      cause: error,
    });
  }
  try {
    const { size } = fstatSync(fd);
    const from = Math.max(0, size - 2 * MAX_BYTES);
    return readAt(fd, from, size - from);
  } finally {
    closeSync(fd);
  }
}

function readAt(fd: number, position: number, length: number): string {
  const buffer = Buffer.alloc(length);
  return buffer.toString('utf8', 0, readSync(fd, buffer, 0, length, position));
}
