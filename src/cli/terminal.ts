/** The technician's terminal in raw mode, and back again whatever happens. */
import type { CliInput } from './io.ts';

/** Ctrl-] leaves, as in telnet: it is the one key that no device's prompt needs. */
const leaveKey = 0x1d;

export class RawTerminal {
  readonly #input: CliInput;
  #raw = false;

  constructor(input: CliInput) {
    this.#input = input;
  }

  get isTerminal(): boolean {
    return this.#input.isTTY === true && this.#input.setRawMode !== undefined;
  }

  /** Every key comes as it is, Ctrl-C too. A crash restores as well: Node resets the terminal on its way out. */
  enter(): void {
    if (!this.isTerminal) return;
    this.#input.setRawMode?.(true);
    this.#raw = true;
  }

  /** Idempotent. */
  restore(): void {
    if (!this.#raw) return;
    this.#raw = false;
    this.#input.setRawMode?.(false);
  }
}

/** What the keys of one read mean: bytes to send, and whether they ask to leave. */
export function keysToSend(data: Uint8Array, enter: Uint8Array): { bytes: Buffer; leave: boolean } {
  const end = data.indexOf(leaveKey);
  const typed = end === -1 ? data : data.subarray(0, end);
  const parts: Uint8Array[] = [];
  let from = 0;
  for (let at = typed.indexOf(carriageReturn); at !== -1; at = typed.indexOf(carriageReturn, from)) {
    parts.push(typed.subarray(from, at), enter);
    from = at + 1;
  }
  parts.push(typed.subarray(from));
  return { bytes: Buffer.concat(parts), leave: end !== -1 };
}

/** What the Enter key gives in raw mode. */
const carriageReturn = 0x0d;

/** Lines of a text stream, without their ends; the last one counts without an end too. */
export class LineSplitter {
  #held: Buffer = Buffer.alloc(0);

  push(data: Uint8Array): Buffer[] {
    const all = Buffer.concat([this.#held, data]);
    const lines: Buffer[] = [];
    let from = 0;
    for (let at = all.indexOf(0x0a); at !== -1; at = all.indexOf(0x0a, from)) {
      const end = at > from && all[at - 1] === carriageReturn ? at - 1 : at;
      lines.push(all.subarray(from, end));
      from = at + 1;
    }
    this.#held = all.subarray(from);
    return lines;
  }

  end(): Buffer[] {
    const rest = this.#held;
    this.#held = Buffer.alloc(0);
    return rest.length === 0 ? [] : [rest];
  }
}
