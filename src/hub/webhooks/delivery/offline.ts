/**
 * Whether the device is offline: it has no route to anywhere, or none of the remote hosts that it calls (at least two)
 * takes a connection. The state begins with an attempt that failed before its connection was established. It ends when
 * there is a route again, or with the first connection that is established.
 */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import type { Remote, Remotes } from '../egress/remotes.ts';

export type OfflineReason = 'no route' | 'no host answers';

export interface OfflineOptions {
  readonly online: () => boolean;
  readonly remotes: Remotes;
  readonly clock: Clock;
  /** undefined: online again. */
  readonly onChanged: (reason: OfflineReason | undefined) => void;
}

/** Reading the kernel's tables costs no traffic. */
const routePollMs = 5_000;
/**
 * Two endpoints each 10 s: a probe that nothing answers sends two SYNs of 60 bytes, so both take about 2 MB a day, and a
 * network that is back is noticed within 13 s.
 */
export const probeEveryMs = 10_000;
const probesEachRound = 2;
/** With webhooks.timeout_ms of 10 s a delivery over a link with longer round trips never ends in time either. */
export const probeLimitMs = 3_000;
/** Of the question whether the device is offline; those not asked have their turn in the rounds afterwards. */
const maxProbes = 16;
const minHosts = 2;

export class Offline {
  readonly #o: OfflineOptions;
  readonly #stopping = new AbortController();
  #reason: OfflineReason | undefined;
  #timer: Timer | undefined;
  /** When a connection to a remote host was last established. */
  #reachedMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<number> | undefined;
  /** Rounds of probes so far. */
  #rounds = 0;

  constructor(options: OfflineOptions) {
    this.#o = options;
  }

  get is(): boolean {
    return this.#reason !== undefined;
  }

  /** An attempt that began at `beganMs` (monotonic) established no connection: whether that is because the device is offline. */
  async ask(beganMs: number): Promise<boolean> {
    const { online, remotes } = this.#o;
    if (this.is) return true;
    if (!online()) return this.#begin('no route');
    if (this.#reachedMs >= beganMs) return false;
    const all = remotes.all();
    if (hostsOf(all) < minHosts) return false;
    this.#asking ??= this.#silentHosts(all).finally(() => {
      this.#asking = undefined;
    });
    const silent = await this.#asking;
    if (this.is) return true;
    return silent >= minHosts && this.#reachedMs < beganMs && this.#begin('no host answers');
  }

  /** A connection to a remote host was established. */
  reached(): void {
    this.#reachedMs = this.#o.clock.monoMs();
    if (this.#reason === 'no host answers') this.#end();
  }

  stop(): void {
    this.#stopping.abort();
    this.#timer?.cancel();
  }

  #begin(reason: OfflineReason): true {
    if (this.#stopping.signal.aborted) return true;
    this.#reason = reason;
    this.#poll();
    this.#o.onChanged(reason);
    return true;
  }

  #end(): void {
    this.#timer?.cancel();
    this.#reason = undefined;
    this.#o.onChanged(undefined);
  }

  #poll(): void {
    const { clock, online } = this.#o;
    this.#timer?.cancel();
    if (this.#reason === 'no host answers') {
      this.#timer = clock.timer(probeEveryMs, () => void this.#round());
    } else {
      this.#timer = clock.timer(routePollMs, () => (online() ? this.#end() : this.#poll()));
    }
  }

  async #round(): Promise<void> {
    const { online, remotes } = this.#o;
    const all = remotes.all();
    if (hostsOf(all) < minHosts) return this.#end();
    const first = (this.#rounds++ * probesEachRound) % all.length;
    const turn = [...all.slice(first), ...all.slice(0, first)].slice(0, probesEachRound);
    // An answer ends the state by reached().
    if (online()) await this.#silentHosts(turn);
    if (this.is && !this.#stopping.signal.aborted) this.#poll();
  }

  /** How many hosts took no connection; 0 as soon as one did. */
  async #silentHosts(all: readonly Remote[]): Promise<number> {
    const silent = new Set<string>();
    const over = new AbortController();
    const abandon = (): void => over.abort();
    const timer = this.#o.clock.timer(probeLimitMs, abandon);
    this.#stopping.signal.addEventListener('abort', abandon);
    const answer = async (remote: Remote): Promise<void> => {
      const probed = await this.#o.remotes.probe(remote, over.signal);
      if (probed?.answers === true) return this.reached();
      if (probed !== undefined) silent.add(probed.host);
      throw new Error('no connection');
    };
    try {
      await Promise.any(all.slice(0, maxProbes).map(answer));
      return 0;
    } catch {
      return silent.size;
    } finally {
      timer.cancel();
      this.#stopping.signal.removeEventListener('abort', abandon);
      abandon();
    }
  }
}

function hostsOf(remotes: readonly Remote[]): number {
  return new Set(remotes.map(({ hostname }) => hostname)).size;
}
