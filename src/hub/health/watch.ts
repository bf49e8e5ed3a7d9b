/** The loop that checks the line, the certificates and the alerts of all rooms, and writes alerts to the operator's log. */
import { type Alert, type AlertSource, Alerts } from '../../shared/base/alerts.ts';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../shared/base/loop.ts';
import { RollingIncrease } from '../../shared/base/rolling-increase.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { type LineNumbers, statusNumbers } from '../../shared/proto/line-status.ts';
import { type LineView, lineRules, RISE_WINDOW_S, type ServiceFaults, serviceRules } from './alerts.ts';
import { type CertificateFile, Certificates } from './certificates.ts';

/** An alert is logged within this; the shortest `for` of an alert is six of these. */
const PERIOD_MS = 10_000;
/** Operators replace certificate files by hand: every tenth minute is enough. */
const LOOKS_PER_CERTIFICATES = 60;
/** systemd is asked by a process of its own: each minute. */
const LOOKS_PER_SOCKETS = 6;

export interface WatchOptions {
  /** undefined: no address of the line is known. */
  readonly client: Pick<LineClient, 'line'> | undefined;
  readonly certificates: readonly CertificateFile[];
  /** Asks for the units of sockets that should be open and are not; never rejects. */
  readonly findClosedSockets: () => Promise<readonly string[]>;
  /** Of the hub itself. */
  readonly hubFaults: () => ServiceFaults;
  /** The rooms with alerts of their own. */
  readonly sources: readonly AlertSource[];
  readonly clock: Clock;
  readonly logger: Logger;
}

export type Watch = ReturnType<typeof startWatch>;
/** What the HTTP interface shows of it. */
export type WatchAdmin = Omit<Watch, 'stop'>;

export function startWatch(options: WatchOptions) {
  const { client, certificates: files, findClosedSockets, hubFaults, sources, clock, logger } = options;
  const certificates = new Certificates(files, clock);
  const ask = async (line: LineClient['line'], signal: AbortSignal) =>
    statusNumbers(await line.getStatus({}, { signal }));
  const line = client && new LineWatch((signal) => ask(client.line, signal), clock);
  const serviceAlerts = new Alerts(serviceRules);
  let closedSockets: readonly string[] = [];
  const alerts = (): readonly Alert[] => [
    ...(line?.alerts() ?? []),
    ...certificates.alerts(),
    ...serviceAlerts.look(
      { closedSockets, faults: [hubFaults(), ...(line?.status ? [line.status] : [])] },
      clock.monoMs(),
    ),
  ];
  const journal = alertJournal(clock, logger);
  const alertsOfRooms = sources.map((source) => lastKnown(source, logger));
  let round = 0;
  const pass = async (signal: AbortSignal): Promise<number> => {
    if (round % LOOKS_PER_CERTIFICATES === 0) await certificates.look();
    if (round % LOOKS_PER_SOCKETS === 0) closedSockets = await findClosedSockets();
    round += 1;
    await line?.look();
    if (!signal.aborted) journal([...alertsOfRooms.flatMap((known) => known()), ...alerts()]);
    return PERIOD_MS;
  };
  const failures = new FailureLog(logger, 'the watch of the hub failed', 'the watch of the hub works again');
  const loop = new Loop({ pass, failures, clock, retryFirstMs: PERIOD_MS });
  loop.start();
  return {
    /** Asks the line, unless it was asked less than a second ago; never rejects. undefined: no address of the line is known. */
    askLine: async (): Promise<LineView | undefined> => line?.look(),
    certificates: () => certificates.ends,
    closedSockets: () => closedSockets,
    hubFaults,
    /** Of the line, the certificates, the sockets, the configuration and the addresses of both processes. */
    alerts,
    stop: () => loop.stop(),
  };
}

// The line's status: at each scrape, and every ten seconds for the alerts.

/** A line that works answers in milliseconds; a scrape must not wait for another. */
const ANSWER_LIMIT_MS = 2_000;
/** Scrapes at the same time share one call. */
const FRESH_MS = 1_000;

export class LineWatch {
  readonly #request: (signal: AbortSignal) => Promise<LineNumbers>;
  readonly #clock: Clock;
  readonly #alerts = new Alerts(lineRules);
  readonly #errors = new RollingIncrease(RISE_WINDOW_S * 1_000);
  readonly #dropped = new RollingIncrease(RISE_WINDOW_S * 1_000);
  readonly #fetched = new RollingIncrease(RISE_WINDOW_S * 1_000);
  #view: LineView | undefined;
  #viewAtMs = 0;
  #asking: Promise<LineView> | undefined;

  /** `request`: rejects if the line does not answer. */
  constructor(request: (signal: AbortSignal) => Promise<LineNumbers>, clock: Clock) {
    this.#request = request;
    this.#clock = clock;
  }

  /** Not older than a second; never rejects. */
  async look(): Promise<LineView> {
    if (this.#view !== undefined && this.#clock.monoMs() - this.#viewAtMs < FRESH_MS) return this.#view;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** The latest; undefined: there was no answer. */
  get status(): LineNumbers | undefined {
    return this.#view?.status;
  }

  /** By the latest answer; before the first one, none. */
  alerts(): readonly Alert[] {
    if (this.#view === undefined) return [];
    const nowMs = this.#clock.monoMs();
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
    this.#viewAtMs = this.#clock.monoMs();
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
    try {
      return { status: await withLimit(this.#clock, ANSWER_LIMIT_MS, undefined, this.#request), reason: '' };
    } catch (error) {
      return { status: undefined, reason: messageOf(error) };
    }
  }
}

/** If a source cannot report its alerts (its file cannot be read), it keeps its last ones, and the other sources still report theirs. */
function lastKnown(source: AlertSource, logger: Logger): () => readonly Alert[] {
  const failures = new FailureLog(logger, 'alerts could not be checked', 'alerts can be checked again');
  let last: readonly Alert[] = [];
  return () => {
    try {
      last = source.alerts();
      failures.recovered();
    } catch (error) {
      failures.failed(messageOf(error));
    }
    return last;
  };
}

/** An alert that fires again within so long is still the same alert: at most two lines in this time. */
const QUIET_MS = 60_000;

interface Reported {
  readonly firedMs: number;
  seenMs: number;
}

/** Alerts in the operator's log: one line when one fires, one when it has ended, however often they are read. */
function alertJournal(clock: Clock, logger: Logger): (alerts: readonly Alert[]) => void {
  /** By name: at most one for each rule. */
  const reported = new Map<string, Reported>();
  return (alerts) => {
    const nowMs = clock.monoMs();
    for (const alert of alerts) {
      const known = reported.get(alert.name);
      if (known !== undefined) {
        known.seenMs = nowMs;
        continue;
      }
      reported.set(alert.name, { firedMs: nowMs - alert.forSeconds * 1_000, seenMs: nowMs });
      logFired(logger, alert);
    }
    for (const [name, { firedMs, seenMs }] of reported) {
      if (nowMs - seenMs < QUIET_MS) continue;
      reported.delete(name);
      logger.info('alert ended', { alert: name, lasted_s: Math.floor((seenMs - firedMs) / 1_000) });
    }
  };
}

function logFired(logger: Logger, { name, severity, summary }: Alert): void {
  const fields = { alert: name, severity, summary };
  if (severity === 'critical') logger.error('alert fired', fields);
  else if (severity === 'warning') logger.warn('alert fired', fields);
  else logger.info('alert fired', fields);
}
