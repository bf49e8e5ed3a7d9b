import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Clock } from '../../../shared/base/clock.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { until } from '../../../shared/base/wait.fixture.ts';
import type { WatchAdmin } from '../../health/watch.ts';
import { emptyHistory, FakeHost, FakeOutbox, startTestServer, storage } from '../server.fixture.ts';
import { FakeWebhooks } from '../webhooks.fixture.ts';
import { Metrics } from './metrics.ts';

function valueOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

function metricsOf(t: TestContext, clock: Clock, watch?: WatchAdmin): Metrics {
  const metrics = new Metrics({
    outbox: new FakeOutbox(),
    webhooks: new FakeWebhooks(),
    host: new FakeHost(),
    storage,
    history: emptyHistory,
    watch,
    http: () => ({ connections: 1, refusedCallers: 2, bodyBytes: 5, followStreams: 3, pageStreams: 4, terminals: 6 }),
    version: '0.1.0',
    clock,
  });
  t.after(() => metrics.stop());
  return metrics;
}

describe('metrics', () => {
  it('show what the outbox, the store and the process say', async (t) => {
    const { call, outbox } = await startTestServer(t);
    const { text, headers } = await call('GET', '/metrics');
    assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/);
    const expected = {
      lineside_outbox_waiting: 7,
      lineside_outbox_oldest_seconds: 12.5,
      lineside_outbox_in_flight: 2,
      lineside_outbox_in_flight_bytes: 900,
      lineside_outbox_published_total: 41,
      lineside_outbox_refused_total: 5,
      lineside_outbox_unreached_total: 6,
      lineside_outbox_dead_letters: 3,
      lineside_outbox_blocked_keys: 1,
      lineside_kafka_connected: 1,
      lineside_refdata_bytes: 8_192,
      lineside_refdata_limit_bytes: 2 ** 31,
      lineside_refdata_free_bytes: 2 ** 40,
      lineside_refdata_waiting_changes: 6,
      lineside_refdata_damaged: 0,
      lineside_refdata_full: 1,
      lineside_kafka_configured: 1,
      lineside_kafka_topics_lacking: 1,
    };
    for (const [name, value] of Object.entries(expected)) assert.equal(valueOf(text, name), value, name);
    assert.ok((valueOf(text, 'lineside_hub_resident_bytes') ?? 0) > 1e7);
    assert.ok((valueOf(text, 'lineside_hub_loop_longest_hold_seconds') ?? -1) >= 0);
    outbox.now = { ...outbox.now, publishedTotal: 42, oldest: undefined };
    const later = (await call('GET', '/metrics')).text;
    assert.equal(valueOf(later, 'lineside_outbox_published_total'), 42);
    assert.equal(valueOf(later, 'lineside_outbox_oldest_seconds'), 0);
  });

  it('show what webhooks say, each cause and state as a label', async (t) => {
    const { call, webhooks } = await startTestServer(t);
    const { text } = await call('GET', '/metrics');
    const expected = {
      subscriptions_active: 3,
      subscriptions_blocked: 1,
      unplanned_events: 11,
      waiting: 12,
      oldest_due_seconds: 13.5,
      in_flight: 2,
      'deliveries_for_review{state="rejected"}': 3,
      'deliveries_for_review{state="failed"}': 5,
      offline: 1,
      delivered_total: 101,
      planned_total: 102,
      'attempts_total{cause="accepted"}': 101,
      'attempts_total{cause="dns"}': 1,
      'attempts_total{cause="timeout"}': 2,
      'attempts_total{cause="ssrf"}': 3,
      'attempts_total{cause="tls"}': 4,
      'attempts_total{cause="connect"}': 5,
      'attempts_total{cause="http"}': 6,
      history_bytes: 4_096,
    };
    for (const [name, value] of Object.entries(expected))
      assert.equal(valueOf(text, `lineside_webhook_${name}`), value, name);
    const shown = [...text.matchAll(/^lineside_webhook_(\S+) /gm)].map(([, name]) => name ?? '');
    assert.deepEqual(shown.sort(), Object.keys(expected).sort());
    webhooks.now = { ...webhooks.now, offline: false, deliveredTotal: 103 };
    const later = (await call('GET', '/metrics')).text;
    assert.equal(valueOf(later, 'lineside_webhook_offline'), 0);
    assert.equal(valueOf(later, 'lineside_webhook_delivered_total'), 103);
    assert.equal(valueOf(later, 'lineside_webhook_attempts_total{cause="http"}'), 6);
  });

  it('count requests by pattern, never by path, however many paths there are', async (t) => {
    const { ask, call } = await startTestServer(t);
    for (let i = 0; i < 30; i += 1) {
      await ask('GET', `/api/v1/dictionaries/secret-${i}`);
      await call('GET', `/nothing/secret-${i}`);
      await call('GET', `/api/v1/dictionaries/secret-${i}/%zz`);
    }
    for (const method of ['PROPFIND', 'SEARCH', 'TRACE']) await call(method, '/healthz');
    const { text } = await call('GET', '/metrics');
    assert.doesNotMatch(text, /secret/);
    assert.equal(
      valueOf(text, 'lineside_http_requests_total{route="/api/v1/dictionaries/:name",method="GET",status="404"}'),
      30,
    );
    assert.equal(valueOf(text, 'lineside_http_requests_total{route="none",method="GET",status="404"}'), 30);
    assert.equal(valueOf(text, 'lineside_http_requests_total{route="none",method="other",status="405"}'), 3);
    assert.equal(valueOf(text, 'lineside_http_request_seconds_count{route="/api/v1/dictionaries/:name"}'), 30);
  });

  it('are rendered once for all who ask while it lasts', async (t) => {
    let asked = 0;
    const answer = Promise.withResolvers<undefined>();
    const askLine = (): Promise<undefined> => {
      asked += 1;
      return answer.promise;
    };
    const metrics = metricsOf(t, new FakeClock(), {
      askLine,
      certificates: () => [],
      closedSockets: () => [],
      hubFaults: () => ({ configurationRefused: '', listenerFault: '' }),
      alerts: () => [],
    });
    const texts = [metrics.text(), metrics.text(), metrics.text()];
    answer.resolve(undefined);
    assert.equal(new Set(await Promise.all(texts)).size, 1);
    assert.equal(asked, 1);
    await metrics.text();
    assert.equal(asked, 2);
  });

  it('see how long the event loop was held, until a window or two later', async (t) => {
    const clock = new FakeClock();
    const metrics = metricsOf(t, clock);
    const longest = async (): Promise<number> =>
      valueOf(await metrics.text(), 'lineside_hub_loop_longest_hold_seconds') ?? -1;
    // A hold is seen once a tick was before it.
    await until('a hold of 0.3 s to be seen', async () => {
      const end = performance.now() + 300;
      while (performance.now() < end);
      return (await longest()) > 0.1;
    });
    clock.advance(60_000);
    assert.ok((await longest()) > 0.1);
    assert.ok((await longest()) > 0.1);
    clock.advance(60_000);
    await longest();
    assert.ok((await longest()) < 0.1);
  });
});
