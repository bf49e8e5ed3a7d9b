/**
 * The one way to the system's resolver. dns.lookup (the hosts file counts) blocks a thread of Node's pool of four for as
 * long as the system likes, half a minute with a dead name server: few at a time, and never two for one name.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import type { Clock } from '../../../shared/base/clock.ts';
import { systemCode } from '../../../shared/base/errors.ts';

export class NameUnresolved extends Error {
  override readonly name = 'NameUnresolved';
  /** ENOTFOUND, EAI_AGAIN, ... */
  readonly code: string;
  constructor(hostname: string, code: string) {
    super(`the name ${hostname} cannot be resolved (${code})`);
    this.code = code;
  }
}

export interface Found {
  readonly address: string;
  readonly family: number;
}

export type Lookup = (hostname: string) => Promise<readonly Found[]>;

/** The fourth thread stays for the file system. */
export const maxLookups = 3;
/** A lookup that takes longer is mostly one that no name server answers: it ends when the system has asked them all. */
export const slowMs = 1_000;
/** Names that were slow last time may not take every slot: subscribers whose name server is dead would delay all others. */
const maxSlowLookups = 2;
export const maxSlowNames = 256;
/** Names that wait for a slot: more than all that may ask at a time (attempts, test-pings, registrations). */
export const maxWaitingNames = 64;
/** One burst of attempts asks once; a name that moves is followed at once. */
export const keepMs = 5_000;
export const maxKeptNames = 256;

interface Asked {
  readonly hostname: string;
  readonly answer: PromiseWithResolvers<readonly Found[]>;
  callers: number;
}

interface Kept {
  readonly found: readonly Found[];
  readonly untilMs: number;
}

export class Resolver {
  readonly #lookup: Lookup;
  readonly #clock: Clock;
  /** In the order they were asked; taken out when its slot is free, or when no attempt waits for it any more. */
  readonly #waiting = new Map<string, Asked>();
  readonly #running = new Map<string, Asked>();
  readonly #kept = new Map<string, Kept>();
  /** Whose last lookup was slow, whether it found something or not. */
  readonly #slow = new Set<string>();

  /** `lookup`: default: dns.lookup, all addresses in the system's order. */
  constructor(clock: Clock, lookup: Lookup = lookupAll) {
    this.#clock = clock;
    this.#lookup = lookup;
  }

  /** All addresses of a name, not checked. Rejects with NameUnresolved, or with the signal's reason; a lookup under way continues and keeps its slot until it ends. */
  async resolve(hostname: string, signal: AbortSignal): Promise<readonly Found[]> {
    signal.throwIfAborted();
    const kept = this.#kept.get(hostname);
    if (kept !== undefined && this.#clock.monoMs() < kept.untilMs) return kept.found;
    const asked = this.#ask(hostname);
    asked.callers += 1;
    try {
      return await unlessAborted(asked.answer.promise, signal);
    } finally {
      asked.callers -= 1;
      if (asked.callers === 0 && this.#waiting.get(hostname) === asked) this.#waiting.delete(hostname);
    }
  }

  /** Of a name whose address did not answer: the next one to ask gets a new answer. */
  forget(hostname: string): void {
    this.#kept.delete(hostname);
  }

  #ask(hostname: string): Asked {
    const present = this.#running.get(hostname) ?? this.#waiting.get(hostname);
    if (present !== undefined) return present;
    if (this.#waiting.size >= maxWaitingNames) throw new NameUnresolved(hostname, 'EAI_AGAIN');
    const asked: Asked = { hostname, answer: Promise.withResolvers(), callers: 0 };
    this.#waiting.set(hostname, asked);
    this.#fill();
    return asked;
  }

  #fill(): void {
    for (const asked of this.#waiting.values()) {
      if (this.#running.size >= maxLookups) return;
      if (this.#slow.has(asked.hostname) && this.#slowRunning() >= maxSlowLookups) continue;
      this.#waiting.delete(asked.hostname);
      this.#running.set(asked.hostname, asked);
      void this.#run(asked);
    }
  }

  #slowRunning(): number {
    return [...this.#running.keys()].filter((hostname) => this.#slow.has(hostname)).length;
  }

  async #run({ hostname, answer }: Asked): Promise<void> {
    const begunMs = this.#clock.monoMs();
    try {
      const found = await this.#lookup(hostname);
      if (found.length === 0) throw new NameUnresolved(hostname, 'ENODATA');
      this.#keep(hostname, found);
      answer.resolve(found);
    } catch (error) {
      answer.reject(
        error instanceof NameUnresolved ? error : new NameUnresolved(hostname, systemCode(error) || 'EAI_FAIL'),
      );
    } finally {
      this.#running.delete(hostname);
      this.#time(hostname, this.#clock.monoMs() - begunMs);
      this.#fill();
    }
  }

  #time(hostname: string, tookMs: number): void {
    this.#slow.delete(hostname);
    if (tookMs <= slowMs) return;
    const [oldest] = this.#slow;
    if (this.#slow.size >= maxSlowNames && oldest !== undefined) this.#slow.delete(oldest);
    this.#slow.add(hostname);
  }

  #keep(hostname: string, found: readonly Found[]): void {
    this.#kept.delete(hostname);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= maxKeptNames && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(hostname, { found, untilMs: this.#clock.monoMs() + keepMs });
  }
}

/** Rejects with the reason of the signal as soon as that fires, whether the work heeds it or not. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function lookupAll(hostname: string): ReturnType<Lookup> {
  return systemLookup(hostname, { all: true, verbatim: true });
}
