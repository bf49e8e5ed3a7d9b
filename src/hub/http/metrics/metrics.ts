/** Metrics for Prometheus. Figures of other rooms are read at a scrape; labels come from fixed sets only. */

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Histogram, Registry } from 'prom-client';
import type { Clock } from '../../../shared/base/clock.ts';
import { residentBytes } from '../../../shared/base/memory.ts';
import type { HostFacts } from '../../../shared/host/host-facts.ts';
import type { LineView } from '../../health/alerts.ts';
import type { WatchAdmin } from '../../health/watch.ts';
import type { HistoryHealth } from '../../history/history.ts';
import type { OutboxStatus } from '../../outbox/admin.ts';
import type { UpstreamStatus } from '../../upstream/status.ts';
import type { WebhookStatus } from '../../webhooks/face.ts';
import { HOLD_WINDOW_MS } from '../limits.ts';
import {
  type HttpFigures,
  hostMetrics,
  hubMetrics,
  lineMetrics,
  outboxMetrics,
  register,
  type StorageFigures,
  upstreamMetrics,
  webhookMetrics,
} from './metric-tables.ts';

/** How long an import or a large answer blocks all others: the maximum of the current window and the one before, for every scrape. */
function watchHolds(clock: Clock) {
  // Without a timer of its own, which would wake an idle hub.
  const delays = monitorEventLoopDelay({ samplePerIteration: true });
  let windowAtMs = clock.monoMs();
  let before = 0;
  delays.enable();
  // The first iteration counts with its wait: it must not be a long one.
  setImmediate(() => undefined);
  return {
    seconds(): number {
      const now = delays.max / 1e9;
      const longest = Math.max(now, before);
      if (clock.monoMs() - windowAtMs >= HOLD_WINDOW_MS) {
        windowAtMs = clock.monoMs();
        before = now;
        delays.reset();
      }
      return longest;
    },
    stop: () => delays.disable(),
  };
}

export interface MetricSources {
  readonly outbox: { status(): OutboxStatus };
  readonly webhooks: { status(): WebhookStatus };
  readonly host: { facts(): HostFacts };
  readonly storage: () => StorageFigures;
  readonly history: { health(): HistoryHealth };
  /** undefined: the state of the line and of certificates is unknown. */
  readonly watch?: Omit<WatchAdmin, 'alerts'> | undefined;
  /** undefined: the serial log is not sent. */
  readonly upstream?: { status(): UpstreamStatus } | undefined;
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
/** The route label of requests without a route. */
export const NO_ROUTE = 'none';

export class Metrics {
  readonly #sources: MetricSources;
  readonly #registry = new Registry();
  readonly #requests: Counter<'route' | 'method' | 'status'>;
  readonly #seconds: Histogram<'route'>;
  readonly #holds: ReturnType<typeof watchHolds>;
  readonly #read: () => Promise<void>;
  #rendering: Promise<string> | undefined;

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#holds = watchHolds(sources.clock);
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
    this.#read = this.#register();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Every metric, with or without a series, for the reference. */
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

  /** Scrapes share a rendering in progress: the line is called once, and two renderings do not mix. */
  text(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = undefined;
    });
    return this.#rendering;
  }

  async #render(): Promise<string> {
    await this.#read();
    return this.#registry.metrics();
  }

  stop(): void {
    this.#holds.stop();
  }

  #register(): () => Promise<void> {
    const { outbox, webhooks, host, storage, history, watch, upstream, http, version } = this.#sources;
    const registry = this.#registry;
    const setOutbox = register(registry, 'lineside_', outboxMetrics);
    const setWebhooks = register(registry, 'lineside_webhook_', webhookMetrics);
    const setHost = register(registry, 'lineside_host_', hostMetrics);
    const setLineUp = register<LineView>(registry, 'lineside_line_', [
      ['up', '1: the line process answers the hub.', ({ status }) => status !== undefined],
    ]);
    const setLine = register(registry, 'lineside_line_', lineMetrics);
    const setIsSent = register<boolean>(registry, 'lineside_upstream_', [
      ['on', '1: the serial log is sent to a central side (upstream.to).', (on) => on],
    ]);
    const setUpstream = register(registry, 'lineside_upstream_', upstreamMetrics);
    const setHub = register(registry, 'lineside_', hubMetrics);
    return async () => {
      const view = await watch?.askLine();
      setLineUp(view);
      setLine(view?.status);
      setOutbox(outbox.status());
      setWebhooks(webhooks.status());
      setHost(host.facts());
      const sent = upstream?.status();
      setIsSent(sent !== undefined && sent.to !== 'off');
      setUpstream(sent);
      setHub({
        version,
        residentBytes: residentBytes(),
        uptimeSeconds: Math.floor(process.uptime()),
        longestHoldSeconds: this.#holds.seconds(),
        http: http(),
        storage: storage(),
        history: history.health(),
        certificates: watch?.certificates() ?? [],
        closedSockets: watch?.closedSockets() ?? [],
        faults: watch?.hubFaults(),
      });
    };
  }
}
