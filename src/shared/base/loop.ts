/**
 * A loop of the service: one pass after the other until stop(), with a wait in between that a wake shortens, a backoff after
 * failures, a heartbeat for the watchdog, and two lines in the operator's log for each outage: "failed" and "recovered".
 */
import { backoffMs } from './backoff.ts';
import { type Clock, endsWithin, type Timer } from './clock.ts';
import { messageOf } from './errors.ts';
import type { Logger } from './logger.ts';

/** A failed pass is repeated after a time that doubles between these, unless the loop has limits of its own. */
const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 60_000;
/** Without a pass or a beat for so long the loop has stalled, unless it has a limit of its own. */
const STALLED_MS = 60_000;
/** Reasons that are remembered during one outage: a library's words may alternate for weeks. */
const MAX_REASONS = 20;

export interface LoopOptions {
  /** Answers the milliseconds until the next pass; a failure is reported and followed by the backoff. The signal fires at the end of stop()'s grace. */
  readonly pass: (signal: AbortSignal) => number | Promise<number>;
  /** undefined: the pass never fails. */
  readonly failures?: Pick<FailureLog, 'failed' | 'recovered'>;
  readonly clock: Clock;
  /** From 0 to below 1: boxes that lost the same peer do not come back all at once. Default: the backoff is exact. */
  readonly random?: (() => number) | undefined;
  readonly retryFirstMs?: number;
  readonly retryMaxMs?: number;
  /** The longest pass or wait of a loop that is alive. */
  readonly stalledMs?: number;
}

export class Loop {
  readonly #o: LoopOptions;
  readonly #stopping = new AbortController();
  #state: 'new' | 'running' | 'stopped' = 'new';
  #running: Promise<void> | undefined;
  #passing: Promise<number> | undefined;
  #failures = 0;
  /** undefined: not begun, or stopped on purpose. */
  #beatMs: number | undefined;
  #timer: Timer | undefined;
  #resume: () => void = () => undefined;
  /** Monotonic: the earliest moment that a wake asked for since the last pass began. */
  #wokenMs = Number.POSITIVE_INFINITY;

  constructor(options: LoopOptions) {
    this.#o = options;
  }

  /** The first pass begins at once, before this returns, or after delayMs. */
  start(delayMs = 0): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#running = this.#run(delayMs);
  }

  /** Begins no other pass; one under way gets graceMs before its signal fires. Resolves when it has ended; never rejects. */
  async stop(graceMs = 0): Promise<void> {
    this.#state = 'stopped';
    this.#beatMs = undefined;
    this.#resume();
    if (graceMs > 0 && this.#running !== undefined) await endsWithin(this.#o.clock, graceMs, this.#running);
    this.#stopping.abort();
    await this.#running;
  }

  /** The next pass begins within delayMs. During a backoff it does not come sooner. */
  wake(delayMs = 0): void {
    const nowMs = this.#o.clock.monoMs();
    if (nowMs + delayMs >= this.#wokenMs) return;
    this.#wokenMs = nowMs + delayMs;
    if (this.#timer !== undefined && this.#failures === 0) this.#arm(delayMs);
  }

  /** Makes a pass now, or waits for the one under way. Rejects as the pass does. */
  async passNow(): Promise<void> {
    this.wake(await this.#pass());
  }

  /** A pass that takes long is still at work. */
  beat(): void {
    if (this.#state === 'running') this.#beatMs = this.#o.clock.monoMs();
  }

  /** Throws if the loop has begun and stalls. */
  assertAlive(): void {
    const { clock, stalledMs = STALLED_MS } = this.#o;
    if (this.#beatMs === undefined) return;
    const stillMs = clock.monoMs() - this.#beatMs;
    if (stillMs > stalledMs) throw new Error(`it has not turned for ${Math.round(stillMs / 1_000)} s`);
  }

  get #isStopped(): boolean {
    return this.#state === 'stopped';
  }

  async #run(firstMs: number): Promise<void> {
    this.beat();
    for (let waitMs = firstMs; ; waitMs = await this.#pass().catch(() => this.#backoffMs())) {
      if (waitMs > 0 && !this.#isStopped) await this.#wait(waitMs);
      if (this.#isStopped) return;
    }
  }

  /** One at a time. */
  #pass(): Promise<number> {
    this.#passing ??= this.#attempt().finally(() => {
      this.#passing = undefined;
    });
    return this.#passing;
  }

  async #attempt(): Promise<number> {
    const { pass, failures } = this.#o;
    this.beat();
    this.#wokenMs = Number.POSITIVE_INFINITY;
    try {
      const waitMs = await pass(this.#stopping.signal);
      this.#failures = 0;
      if (!this.#isStopped) failures?.recovered();
      return waitMs;
    } catch (error) {
      this.#failures += 1;
      if (!this.#isStopped) failures?.failed(messageOf(error));
      throw error;
    }
  }

  #backoffMs(): number {
    const { retryFirstMs = RETRY_FIRST_MS, retryMaxMs = RETRY_MAX_MS, random } = this.#o;
    return backoffMs(this.#failures - 1, retryFirstMs, retryMaxMs, random);
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = () => {
        this.#timer?.cancel();
        this.#timer = undefined;
        resolve();
      };
      const wokenMs = this.#wokenMs - this.#o.clock.monoMs();
      this.#arm(this.#failures > 0 ? ms : Math.min(ms, wokenMs));
    });
  }

  #arm(ms: number): void {
    if (ms <= 0) return this.#resume();
    this.#timer?.cancel();
    this.#timer = this.#o.clock.timer(ms, this.#resume);
  }
}

/** An outage in the operator's log: each reason once (numbers aside) until it is over, and one line when it is. */
export class FailureLog {
  readonly #logger: Logger;
  readonly #failed: string;
  readonly #recovered: string;
  readonly #reasons = new Set<string>();

  constructor(logger: Logger, failed: string, recovered: string) {
    this.#logger = logger;
    this.#failed = failed;
    this.#recovered = recovered;
  }

  failed(error: string): void {
    const reason = error.replaceAll(/\d+/g, '');
    if (this.#reasons.has(reason) || this.#reasons.size >= MAX_REASONS) return;
    this.#reasons.add(reason);
    this.#logger.warn(this.#failed, { error });
  }

  recovered(): void {
    if (this.#reasons.size === 0) return;
    this.#reasons.clear();
    this.#logger.info(this.#recovered);
  }
}
