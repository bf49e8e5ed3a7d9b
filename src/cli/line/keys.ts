/** What is typed in the monitor: bytes for the line, commands of the session, answers to its questions; or lines of a stream. Pure. */

/** Ctrl-] leaves, as in telnet: it is the one key that no device's prompt needs. */
const leaveKey = 0x1d;
/** Ctrl-T begins a command, as in tio; twice, it is sent. */
const commandKey = 0x14;
/** What the Enter key gives in raw mode. */
const carriageReturn = 0x0d;

/** As long as that of `lineside break`. */
export const breakMs = 250;

/** After Ctrl-T, as in tio where it has the command. */
const sessionKeys = {
  '?': 'list these keys',
  q: 'leave, as Ctrl-]',
  b: `send a break of ${breakMs} ms`,
  d: 'toggle DTR',
  r: 'toggle RTS',
  t: 'timestamps on or off',
  e: 'show what is typed, or not',
  h: 'hex or text',
  n: 'line ends of the device: as-is, cr, no-cr',
  o: 'what Enter sends: cr, lf, crlf',
  l: 'log to a file, or end that',
  f: 'send a file as it is',
  x: 'send a file by XMODEM (needs sz of lrzsz)',
  y: 'send a file by YMODEM',
  z: 'send a file by ZMODEM',
} as const;
export type SessionKey = keyof typeof sessionKeys;

export const keyList = Object.entries(sessionKeys)
  .map(([key, help]) => `  Ctrl-T ${key}  ${help}\n`)
  .join('');

export type Typed =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'command'; readonly key: string }
  /** To be shown while an answer is typed. */
  | { readonly kind: 'edit'; readonly echo: Buffer }
  /** '': none is given. */
  | { readonly kind: 'answer'; readonly text: string };

/** A path has no more. */
const longestAnswer = 4096;
const escape = 0x1b;
const cancels = [0x03, escape, leaveKey];
const erases = [0x08, 0x7f];

export class Keys {
  #state: 'line' | 'command' | 'question' = 'line';
  #answer: number[] = [];
  /** What Enter sends. */
  enter: Uint8Array;

  constructor(enter: Uint8Array) {
    this.enter = enter;
  }

  /** What follows up to Enter is an answer. */
  ask(): void {
    this.#state = 'question';
    this.#answer = [];
  }

  /** The keys of one read. A command may ask a question before the next key is looked at. */
  *read(data: Uint8Array): Generator<Typed> {
    let held: number[] = [];
    for (const byte of data) {
      const found = this.#next(byte, held);
      if (found === undefined) continue;
      if (held.length > 0) yield { kind: 'bytes', bytes: Buffer.from(held) };
      held = [];
      yield found;
      // An arrow key at a question is one read that begins with Escape: its other bytes are not for the line.
      if (found.kind === 'answer' && byte === escape) return;
    }
    if (held.length > 0) yield { kind: 'bytes', bytes: Buffer.from(held) };
  }

  #next(byte: number, held: number[]): Typed | undefined {
    if (this.#state === 'question') return this.#answered(byte);
    const isCommand = this.#state === 'command';
    this.#state = 'line';
    if (byte === leaveKey) return { kind: 'command', key: 'q' };
    if (isCommand && byte !== commandKey) {
      return { kind: 'command', key: String.fromCharCode(byte).toLowerCase() };
    }
    if (!isCommand && byte === commandKey) this.#state = 'command';
    else if (byte === carriageReturn) held.push(...this.enter);
    else held.push(byte);
    return undefined;
  }

  #answered(byte: number): Typed | undefined {
    const isEnd = byte === carriageReturn || byte === 0x0a;
    if (isEnd || cancels.includes(byte)) {
      this.#state = 'line';
      return { kind: 'answer', text: isEnd ? Buffer.from(this.#answer).toString('utf8').trim() : '' };
    }
    if (erases.includes(byte)) return this.#erase();
    if (byte < 0x20 || this.#answer.length >= longestAnswer) return undefined;
    this.#answer.push(byte);
    return { kind: 'edit', echo: Buffer.from([byte]) };
  }

  /** The last character, with all its bytes of UTF-8. */
  #erase(): Typed | undefined {
    if (this.#answer.length === 0) return undefined;
    while (((this.#answer.at(-1) ?? 0) & 0xc0) === 0x80) this.#answer.pop();
    this.#answer.pop();
    return { kind: 'edit', echo: Buffer.from('\b \b') };
  }
}

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
