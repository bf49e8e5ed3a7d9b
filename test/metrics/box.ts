/** A box in memory, every figure set by the test: what its hub shows on /metrics, and the alerts that it finds itself. */
import assert from 'node:assert/strict';
import type { CertificateEnd, ServiceFaults } from '../../src/hub/health/alerts.ts';
import { certificateRules, serviceRules } from '../../src/hub/health/alerts.ts';
import { anyStatus } from '../../src/hub/health/status.fixture.ts';
import { LineWatch } from '../../src/hub/health/watch.ts';
import { wellOutbox, wellUpstream, wellWebhooks } from '../../src/hub/health/well.fixture.ts';
import { Metrics } from '../../src/hub/http/metrics/metrics.ts';
import { type OutboxStatus, outboxRules } from '../../src/hub/outbox/admin.ts';
import { type UpstreamStatus, upstreamAlerts } from '../../src/hub/upstream/status.ts';
import type { WebhookStatus } from '../../src/hub/webhooks/face.ts';
import { webhookRules } from '../../src/hub/webhooks/webhooks.ts';
import { Alerts } from '../../src/shared/base/alerts.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { wellHost } from '../../src/shared/host/host-facts.fixture.ts';
import type { HostFacts } from '../../src/shared/host/host-facts.ts';
import { hostRules } from '../../src/shared/host/host-rules.ts';
import type { LineNumbers } from '../../src/shared/proto/line-status.ts';

export interface Facts {
  readonly outbox: OutboxStatus;
  readonly webhooks: WebhookStatus;
  readonly host: HostFacts;
  readonly damage: string;
  readonly full: string;
  /** undefined: the line does not answer. */
  readonly line: LineNumbers | undefined;
  readonly upstream: UpstreamStatus;
  readonly certificates: readonly CertificateEnd[];
  readonly closedSockets: readonly string[];
  readonly hubFaults: ServiceFaults;
}

/** Nothing is wrong. */
export const well: Facts = {
  outbox: wellOutbox,
  webhooks: wellWebhooks,
  host: wellHost,
  damage: '',
  full: '',
  line: anyStatus,
  upstream: wellUpstream,
  certificates: [],
  closedSockets: [],
  hubFaults: { configurationRefused: '', listenerFault: '' },
};

export class Box {
  /** Wall clock and monotonic clock both begin at 0, as promtool's does. */
  readonly clock = new FakeClock();
  readonly metrics: Metrics;
  facts: Facts = well;
  readonly #line: LineWatch;
  readonly #outbox = new Alerts(outboxRules);
  readonly #webhooks = new Alerts(webhookRules);
  readonly #host = new Alerts(hostRules);
  readonly #certificates = new Alerts(certificateRules);
  readonly #service = new Alerts(serviceRules);
  readonly #upstream = upstreamAlerts(0);

  constructor() {
    this.clock.stepWall(-this.clock.wallMs());
    this.#line = new LineWatch(async () => {
      if (this.facts.line === undefined) throw new Error('UNAVAILABLE');
      return this.facts.line;
    }, this.clock);
    this.metrics = new Metrics({
      outbox: { status: () => this.facts.outbox },
      webhooks: { status: () => this.facts.webhooks },
      host: { facts: () => this.facts.host },
      storage: () => {
        const { damage, full } = this.facts;
        return {
          usedBytes: 1,
          limitBytes: 2,
          freeBytes: 3,
          waitingChanges: 4,
          isDamaged: damage !== '',
          isFull: full !== '',
        };
      },
      history: { health: () => ({ fault: '', unstoredMinutes: 7, lostHours: 8, commits: 9 }) },
      watch: {
        askLine: () => this.#line.look(),
        certificates: () => this.facts.certificates,
        closedSockets: () => this.facts.closedSockets,
        hubFaults: () => this.facts.hubFaults,
      },
      upstream: { status: () => this.facts.upstream },
      http: () => ({ connections: 1, refusedCallers: 2, bodyBytes: 5, followStreams: 3, pageStreams: 4, terminals: 6 }),
      version: '0.1.0',
      clock: this.clock,
    });
  }

  /** What fires on the device itself, by name. */
  async alerts(): Promise<string[]> {
    const { outbox, webhooks, host, damage, full, upstream, certificates, closedSockets, hubFaults, line } = this.facts;
    const nowMs = this.clock.monoMs();
    const { configured, connected, topics } = outbox.broker;
    await this.#line.look();
    const healthReport = {
      waiting: configured ? outbox.waiting : 0,
      deadLetters: outbox.deadLetters,
      damage,
      full,
      topicsLacking: topics.filter(({ lacks }) => lacks.length > 0).map(({ name }) => name),
      brokerUnreachable: configured && !connected ? 'away' : '',
    };
    const left = certificates.map(({ key, endsAtSeconds }) => ({
      key,
      seconds: endsAtSeconds - this.clock.wallMs() / 1_000,
    }));
    const firing = [
      ...this.#outbox.look(healthReport, nowMs),
      ...this.#webhooks.look(webhooks, nowMs),
      ...this.#line.alerts(),
      ...this.#upstream(upstream, nowMs),
      ...this.#certificates.look({ left }, nowMs),
      ...this.#service.look({ closedSockets, faults: [hubFaults, ...(line === undefined ? [] : [line])] }, nowMs),
      ...this.#host.look(host, nowMs),
    ];
    for (const { summary } of firing) assert.doesNotMatch(summary, /undefined|NaN|\(\)/);
    return firing.map(({ name, severity }) => `${name} ${severity}`).sort();
  }
}
