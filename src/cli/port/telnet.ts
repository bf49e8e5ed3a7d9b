/** Telnet (RFC 854, 855) as bytes: what a client sends taken apart, and what a server sends put together. Pure and bounded. */

export const IAC = 255;
const SB = 250;
const SE = 240;

/** Verbs of a negotiation. */
const verbs = { will: 251, wont: 252, do: 253, dont: 254 } as const;
export type Verb = keyof typeof verbs;
const verbOf: ReadonlyMap<number, Verb> = new Map(Object.entries(verbs).map(([name, byte]) => [byte, name as Verb]));

/** Far more than any option of a serial port has (a signature is the longest). A longer one is read to its end and dropped. */
const MAX_SUBNEGOTIATION_BYTES = 256;

export type TelnetItem =
  | { readonly kind: 'data'; readonly bytes: Uint8Array }
  | { readonly kind: 'negotiate'; readonly verb: Verb; readonly option: number }
  | { readonly kind: 'sub'; readonly option: number; readonly value: Uint8Array };

type State = 'data' | 'command' | 'option' | 'sub' | 'subCommand';

/** Takes any bytes, cut anywhere; what is no telnet is skipped, and never an error. */
export class TelnetParser {
  #state: State = 'data';
  #verb: Verb = 'will';
  #sub: number[] = [];

  push(bytes: Uint8Array): TelnetItem[] {
    const items: TelnetItem[] = [];
    // Of the data that is not handed out yet; -1: none.
    let from = this.#state === 'data' ? 0 : -1;
    const flush = (to: number): void => {
      if (from >= 0 && to > from) items.push({ kind: 'data', bytes: bytes.subarray(from, to) });
      from = -1;
    };
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (!this.#isData) {
        const again = this.#take(byte, items);
        // A doubled IAC is one byte of data: the second of the two.
        if (this.#isData) from = again ? at : at + 1;
      } else if (byte === IAC) {
        flush(at);
        this.#state = 'command';
      }
    }
    if (this.#isData) flush(bytes.length);
    return items;
  }

  get #isData(): boolean {
    return this.#state === 'data';
  }

  /** Answers whether the byte is data after all. */
  #take(byte: number, items: TelnetItem[]): boolean {
    switch (this.#state) {
      case 'command':
        return this.#command(byte);
      case 'option':
        items.push({ kind: 'negotiate', verb: this.#verb, option: byte });
        this.#state = 'data';
        return false;
      case 'sub':
        if (byte === IAC) this.#state = 'subCommand';
        else this.#keep(byte);
        return false;
      default:
        this.#subCommand(byte, items);
        return false;
    }
  }

  #command(byte: number): boolean {
    const verb = verbOf.get(byte);
    if (verb !== undefined) {
      this.#verb = verb;
      this.#state = 'option';
    } else if (byte === SB) {
      this.#sub = [];
      this.#state = 'sub';
    } else this.#state = 'data';
    return byte === IAC;
  }

  #subCommand(byte: number, items: TelnetItem[]): void {
    this.#state = 'sub';
    if (byte === IAC) return this.#keep(byte);
    // Anything else than the end is a client that is broken: what was begun ends here.
    this.#state = 'data';
    const [option, ...value] = this.#sub;
    if (byte === SE && option !== undefined && this.#sub.length <= MAX_SUBNEGOTIATION_BYTES)
      items.push({ kind: 'sub', option, value: Uint8Array.from(value) });
    this.#sub = [];
  }

  #keep(byte: number): void {
    if (this.#sub.length <= MAX_SUBNEGOTIATION_BYTES) this.#sub.push(byte);
  }
}

/** Data with every IAC doubled. */
export function telnetData(bytes: Uint8Array): Uint8Array {
  const doubles = bytes.reduce((count, byte) => (byte === IAC ? count + 1 : count), 0);
  if (doubles === 0) return bytes;
  const out = new Uint8Array(bytes.length + doubles);
  let at = 0;
  for (const byte of bytes) {
    out[at++] = byte;
    if (byte === IAC) out[at++] = IAC;
  }
  return out;
}

export function negotiation(verb: Verb, option: number): Uint8Array {
  return Uint8Array.of(IAC, verbs[verb], option);
}

export function subnegotiation(option: number, value: Uint8Array): Uint8Array {
  return Buffer.concat([Uint8Array.of(IAC, SB, option), telnetData(value), Uint8Array.of(IAC, SE)]);
}
