/** Numbers for Prometheus. What others count is asked for at a scrape; labels come from fixed sets only. */

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Histogram, Registry } from 'prom-client';
import type { Clock } from '../../shared/base/clock.ts';
import { residentBytes } from '../../shared/base/resident-bytes.ts';
import type { HostFacts } from '../../shared/host/host-facts.ts';
import type { WatchAdmin } from '../health/face.ts';
import type { OutboxStatus } from '../outbox/face.ts';
import type { UpstreamStatus } from '../upstream/face.ts';
import type { WebhookStatus } from '../webhooks/face.ts';
import { HOLD_RESOLUTION_MS, HOLD_WINDOW_MS } from './limits.ts';
import { hostMetrics } from './metrics-host.ts';
import { type HttpFigures, hubMetrics, type StorageFigures } from './metrics-hub.ts';
import { lineMetrics } from './metrics-line.ts';
import { outboxMetrics } from './metrics-outbox.ts';
import type { Reading } from './metrics-readings.ts';
import { upstreamMetrics } from './metrics-upstream.ts';
import { webhookMetrics } from './metrics-webhooks.ts';

// How long the event loop was held: what an import or a large answer costs everybody else.

/** Of the window that runs and the one before, so that no scrape takes it from another. */
class EventLoopLag {
  readonly #clock: Clock;
  readonly #delays = monitorEventLoopDelay({ resolution: HOLD_RESOLUTION_MS });
  #windowAtMs: number;
  #before = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#windowAtMs = clock.monoMs();
    this.#delays.enable();
  }

  seconds(): number {
    // What is measured is the time from tick to tick; of that, one resolution is no delay.
    const now = Math.max(0, this.#delays.max / 1e9 - HOLD_RESOLUTION_MS / 1e3);
    const longest = Math.max(now, this.#before);
    if (this.#clock.monoMs() - this.#windowAtMs >= HOLD_WINDOW_MS) {
      this.#windowAtMs = this.#clock.monoMs();
      this.#before = now;
      this.#delays.reset();
    }
    return longest;
  }

  stop(): void {
    this.#delays.disable();
  }
}

export type { StorageFigures } from './metrics-hub.ts';

export interface MetricSources {
  readonly outbox: () => OutboxStatus;
  readonly webhooks: () => WebhookStatus;
  readonly host: () => HostFacts;
  /** undefined: not known. */
  readonly storage: () => StorageFigures | undefined;
  /** undefined: nothing is known of the line and of certificates. */
  readonly watch: WatchAdmin | undefined;
  /** undefined: nothing ships the serial log. */
  readonly upstream: () => UpstreamStatus | undefined;
  readonly http: () => HttpFigures;
  readonly version: string;
  readonly clock: Clock;
}

export interface ListedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** From a read in memory to an import of 100,000 records. */
const SECONDS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60];
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
/** The route label of what reached none. */
export const NO_ROUTE = 'none';

export class Metrics {
  readonly #sources: MetricSources;
  readonly #registry = new Registry();
  readonly #requests: Counter<'route' | 'method' | 'status'>;
  readonly #seconds: Histogram<'route'>;
  readonly #holds: EventLoopLag;
  readonly #readings: (() => Promise<void> | void)[];
  #rendering: Promise<string> | undefined;

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#holds = new EventLoopLag(sources.clock);
    const registers = [this.#registry];
    this.#requests = new Counter({
      name: 'lineside_http_requests_total',
      help: 'HTTP requests answered.',
      labelNames: ['route', 'method', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'lineside_http_request_seconds',
      help: 'Seconds from a request to the end of its answer.',
      labelNames: ['route'],
      buckets: SECONDS,
      registers,
    });
    this.#readings = this.#all();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Every metric there is, whatever it has to show: the reference is made of it. */
  list(): readonly ListedMetric[] {
    return this.#registry.getMetricsAsArray().map((metric) => {
      const { name, help, type } = metric;
      const { labelNames = [] } = metric as { readonly labelNames?: readonly string[] };
      return { name, help, type: String(type), labels: labelNames };
    });
  }

  /** `route`: the pattern, never the path. */
  answered(route: string, method: string, status: number, seconds: number): void {
    this.#requests.inc({ route, method: METHODS.has(method) ? method : 'other', status: String(status) });
    this.#seconds.observe({ route }, seconds);
  }

  /** One rendering for all who ask while it runs: the line is asked once, and figures of two do not mix in one text. */
  text(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = undefined;
    });
    return this.#rendering;
  }

  async #render(): Promise<string> {
    for (const read of this.#readings) await read();
    return this.#registry.metrics();
  }

  stop(): void {
    this.#holds.stop();
  }

  /** Each sets the metrics of one source to what it says now. */
  #all(): (() => Promise<void> | void)[] {
    const { outbox, webhooks, host, storage, watch, upstream, http, version } = this.#sources;
    const reading = <S>(register: (registry: Registry) => Reading<S>, source: () => S) => {
      const read = register(this.#registry);
      return (): void => read(source());
    };
    const readLine = lineMetrics(this.#registry);
    return [
      reading(outboxMetrics, outbox),
      reading(webhookMetrics, webhooks),
      reading(hostMetrics, host),
      async () => readLine(await watch?.askLine()),
      reading(upstreamMetrics, upstream),
      reading(hubMetrics, () => ({
        version,
        residentBytes: residentBytes(),
        uptimeSeconds: Math.floor(process.uptime()),
        longestHoldSeconds: this.#holds.seconds(),
        http: http(),
        storage: storage(),
        certificates: watch?.certificates() ?? [],
        closedSockets: watch?.closedSockets() ?? [],
      })),
    ];
  }
}
