/** Asks the line for its status, at once for a scrape and every ten seconds for the alerts. */
import { type Alert, Alerts } from '../../shared/base/alerts.ts';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { RollingIncrease } from '../../shared/base/rolling-increase.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';
import { lineRules, RISE_WINDOW_S } from './alerts.ts';
import type { LineView } from './face.ts';

/** The line answers in milliseconds, or something is wrong with it: a scrape must not wait for it. */
const ANSWER_LIMIT_MS = 2_000;
/** Several who scrape at the same time ask once. */
const FRESH_MS = 1_000;

export interface LineWatchOptions {
  /** Rejects where the line does not answer. */
  readonly ask: (signal: AbortSignal) => Promise<LineNumbers>;
  readonly clock: Clock;
}

export class LineWatch {
  readonly #o: LineWatchOptions;
  readonly #alerts = new Alerts(lineRules);
  readonly #errors = new RollingIncrease(RISE_WINDOW_S * 1_000);
  readonly #dropped = new RollingIncrease(RISE_WINDOW_S * 1_000);
  readonly #fetched = new RollingIncrease(RISE_WINDOW_S * 1_000);
  #view: LineView | undefined;
  #viewAtMs = 0;
  #asking: Promise<LineView> | undefined;

  constructor(options: LineWatchOptions) {
    this.#o = options;
  }

  /** Not older than a second; never rejects. */
  async look(): Promise<LineView> {
    if (this.#view !== undefined && this.#o.clock.monoMs() - this.#viewAtMs < FRESH_MS) return this.#view;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** The latest; undefined: there was no answer. */
  get status(): LineNumbers | undefined {
    return this.#view?.status;
  }

  /** By the latest look; before the first one, none. */
  alerts(): readonly Alert[] {
    if (this.#view === undefined) return [];
    const nowMs = this.#o.clock.monoMs();
    return this.#alerts.look(
      {
        ...this.#view,
        recentErrors: this.#errors.within(nowMs),
        recentDropped: this.#dropped.within(nowMs),
        recentFetched: this.#fetched.within(nowMs),
      },
      nowMs,
    );
  }

  async #ask(): Promise<LineView> {
    const view = await this.#answer();
    this.#view = view;
    this.#viewAtMs = this.#o.clock.monoMs();
    const { status } = view;
    if (status !== undefined) {
      this.#dropped.note(status.counters.rxDroppedPackets, this.#viewAtMs);
      this.#fetched.note(status.counters.rxFetchedPackets, this.#viewAtMs);
      if (status.kernel !== null) {
        const { frame, parity, overrun, bufOverrun } = status.kernel;
        this.#errors.note(frame + parity + overrun + bufOverrun, this.#viewAtMs);
      }
    }
    return view;
  }

  async #answer(): Promise<LineView> {
    const limit = new AbortController();
    let status: LineNumbers | undefined;
    const asked = this.#o.ask(limit.signal).then((answer) => {
      status = answer;
    });
    try {
      if (await endsWithin(this.#o.clock, ANSWER_LIMIT_MS, asked)) return { status, reason: '' };
      return { status: undefined, reason: `no answer within ${ANSWER_LIMIT_MS / 1_000} s` };
    } catch (error) {
      return { status: undefined, reason: messageOf(error) };
    } finally {
      limit.abort();
      asked.catch(() => undefined);
    }
  }
}
