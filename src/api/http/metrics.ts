/** Numbers for Prometheus. What others count is asked for when somebody looks; labels come from fixed sets only. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Histogram, Registry } from 'prom-client';
import type { Clock } from '../../base/clock.ts';
import type { HostFacts } from '../../host/host-facts.ts';
import type { OutboxStatus } from '../../outbox/face.ts';
import type { UpstreamStatus } from '../../upstream/face.ts';
import type { CertificateEnd, LineView, WatchAdmin } from '../../watch/face.ts';
import type { WebhookStatus } from '../../webhooks/face.ts';
import { HOLD_RESOLUTION_MS, HOLD_WINDOW_MS } from './limits.ts';
import { hostMetrics } from './metrics-host.ts';
import { lineMetrics } from './metrics-line.ts';
import { counterOf, gaugeOf, gaugesOf } from './metrics-readings.ts';
import { upstreamMetrics } from './metrics-upstream.ts';
import { webhookMetrics } from './metrics-webhooks.ts';

/** Sizes of refdata.db, in bytes. */
export interface StorageFigures {
  readonly usedBytes: number;
  readonly limitBytes: number;
  /** Free on its disk. */
  readonly freeBytes: number;
  readonly isDamaged: boolean;
  /** Changes are refused for want of room. */
  readonly isFull: boolean;
}

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
  readonly version: string;
  readonly clock: Clock;
}

export interface ListedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** What one look at the sources gave. */
interface Now {
  readonly outbox: OutboxStatus;
  readonly webhooks: WebhookStatus;
  readonly host: HostFacts;
  readonly storage: StorageFigures | undefined;
  readonly line: LineView | undefined;
  readonly upstream: UpstreamStatus | undefined;
  readonly certificates: readonly CertificateEnd[];
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
  readonly #holds: LongestHold;
  readonly #readings: ((now: Now) => void)[] = [];

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#holds = new LongestHold(sources.clock);
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
    this.#outboxReadings();
    const readWebhooks = webhookMetrics(this.#registry);
    this.#readings.push(({ webhooks }) => readWebhooks(webhooks));
    const readHost = hostMetrics(this.#registry);
    this.#readings.push(({ host }) => readHost(host));
    const readLine = lineMetrics(this.#registry);
    this.#readings.push(({ line }) => readLine(line));
    const readUpstream = upstreamMetrics(this.#registry);
    this.#readings.push(({ upstream: status }) => readUpstream(status));
    this.#processReadings();
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

  async text(): Promise<string> {
    const { outbox, webhooks, host, storage, watch, upstream } = this.#sources;
    const line = await watch?.askLine();
    const certificates = watch?.certificates() ?? [];
    const now: Now = {
      outbox: outbox(),
      webhooks: webhooks(),
      host: host(),
      storage: storage(),
      line,
      upstream: upstream(),
      certificates,
    };
    for (const read of this.#readings) read(now);
    return this.#registry.metrics();
  }

  stop(): void {
    this.#holds.stop();
  }

  #outboxReadings(): void {
    this.#gauge('lineside_outbox_waiting', 'Rows the broker has still to acknowledge.', ({ outbox }) => outbox.waiting);
    this.#gauge(
      'lineside_outbox_oldest_seconds',
      'Age of the oldest waiting row.',
      ({ outbox }) => outbox.oldest?.ageSeconds ?? 0,
    );
    this.#gauge('lineside_outbox_in_flight', 'Rows on their way to the broker.', ({ outbox }) => outbox.inFlight);
    this.#gauge(
      'lineside_outbox_in_flight_bytes',
      'Bytes on their way to the broker.',
      ({ outbox }) => outbox.inFlightBytes,
    );
    this.#gauge('lineside_outbox_dead_letters', 'Rows that cannot be published.', ({ outbox }) => outbox.deadLetters);
    this.#gauge(
      'lineside_outbox_blocked_keys',
      'Keys whose first waiting row was refused.',
      ({ outbox }) => outbox.blockedKeyCount,
    );
    this.#gauge('lineside_kafka_connected', '1: there is a connection to a broker.', ({ outbox }) =>
      Number(outbox.broker.connected),
    );
    this.#gauge('lineside_kafka_configured', '1: a broker is configured (kafka.bootstrap).', ({ outbox }) =>
      Number(outbox.broker.configured),
    );
    this.#gauge(
      'lineside_kafka_topics_lacking',
      'Topics of the broker that are not as they were asked for.',
      ({ outbox }) => outbox.broker.topics.filter(({ lacks }) => lacks.length > 0).length,
    );
    this.#counter(
      'lineside_outbox_published_total',
      'Rows acknowledged since the start.',
      ({ outbox }) => outbox.publishedTotal,
    );
    this.#counter(
      'lineside_outbox_refused_total',
      'Refusals by a broker that was reached.',
      ({ outbox }) => outbox.refusedTotal,
    );
    this.#counter(
      'lineside_outbox_unreached_total',
      'Sendings that reached nobody.',
      ({ outbox }) => outbox.unreachedTotal,
    );
  }

  #processReadings(): void {
    this.#readings.push(
      gaugesOf(
        this.#registry,
        { name: 'lineside_info', help: '1, with the version of lineside.', label: 'version' },
        () => ({ [this.#sources.version]: 1 }),
      ),
      gaugesOf(
        this.#registry,
        {
          name: 'lineside_certificate_end_timestamp_seconds',
          help: 'When the certificates of a key of the configuration end, in seconds since the Unix epoch.',
          label: 'key',
        },
        ({ certificates }) => Object.fromEntries(certificates.map(({ key, endsAtSeconds }) => [key, endsAtSeconds])),
      ),
    );
    this.#gauge('lineside_hub_resident_bytes', 'Resident memory of the hub.', () => process.memoryUsage.rss());
    this.#gauge(
      'lineside_hub_loop_longest_hold_seconds',
      'Longest hold of the event loop in the last minute or two.',
      () => this.#holds.seconds(),
    );
    this.#gauge('lineside_refdata_bytes', 'Bytes that refdata.db uses.', ({ storage }) => storage?.usedBytes);
    this.#gauge('lineside_refdata_limit_bytes', 'Bytes that refdata.db may use.', ({ storage }) => storage?.limitBytes);
    this.#gauge(
      'lineside_refdata_free_bytes',
      'Free bytes on the disk of refdata.db.',
      ({ storage }) => storage?.freeBytes,
    );
    this.#gauge(
      'lineside_refdata_damaged',
      '1: refdata.db was found damaged.',
      ({ storage }) => storage && Number(storage.isDamaged),
    );
    this.#gauge(
      'lineside_refdata_full',
      '1: changes are refused for want of room.',
      ({ storage }) => storage && Number(storage.isFull),
    );
  }

  #gauge(name: string, help: string, read: (now: Now) => number | undefined): void {
    this.#readings.push(gaugeOf(this.#registry, name, help, read));
  }

  #counter(name: string, help: string, read: (now: Now) => number): void {
    this.#readings.push(counterOf(this.#registry, name, help, read));
  }
}

/** Of the window that runs and the one before, so that no scrape takes it from another. */
class LongestHold {
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
