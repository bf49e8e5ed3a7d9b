/**
 * The only use of the system's resolver. dns.lookup (with the hosts file) blocks a thread of Node's pool of four, for half a
 * minute if the name server is dead: so few lookups run at a time, and never two for one name.
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
/** A lookup that takes longer has mostly no name server that answers. */
export const slowMs = 1_000;
/** Names that were slow last time must not take every slot: a dead name server would delay all other subscribers. */
const maxSlowLookups = 2;
export const maxSlowNames = 256;
/** Names that wait for a slot: more than all attempts, test-pings and registrations at a time. */
export const maxWaitingNames = 64;
/** One lookup for a burst of attempts; a name with a new address is noticed soon. */
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
  /** In order; removed when a slot is free, or when no caller waits any more. */
  readonly #waiting = new Map<string, Asked>();
  readonly #running = new Map<string, Asked>();
  readonly #kept = new Map<string, Kept>();
  /** Names whose last lookup was slow. */
  readonly #slow = new Set<string>();

  /** `lookup`: default dns.lookup, all addresses in the system's order. */
  constructor(clock: Clock, lookup: Lookup = (hostname) => systemLookup(hostname, { all: true, verbatim: true })) {
    this.#clock = clock;
    this.#lookup = lookup;
  }

  /** All addresses, unchecked. Rejects with NameUnresolved or the signal's reason; the lookup keeps its slot until it ends. */
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

  /** Called when an address did not answer. */
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

/** Rejects with the signal's reason at once, even if the work ignores the signal. */
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
