/** docs/reference/metrics-alerts.md: every metric of /metrics and every alert, the device's own and Prometheus's. */
import { type ListedMetric, type MetricSources, Metrics } from '../../src/hub/http/metrics/metrics.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { alertTable } from './alerts-page.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';

/** What there is to be scraped; nothing is measured. */
export function listedMetrics(): readonly ListedMetric[] {
  const metrics = new Metrics({ clock: new FakeClock() } as unknown as MetricSources);
  metrics.stop();
  return metrics.list();
}

export function metricsPage(): Page {
  const metrics = [...listedMetrics()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const holes = metrics.filter(({ help }) => help.trim() === '').map(({ name }) => name);
  const text = blocks(
    MADE,
    '# Metrics and alerts',
    '## Metrics',
    `At ${code('GET /metrics')} of the hub, open to everyone who reaches it. A metric that the machine cannot report has no series.`,
    table(['metric', 'type', 'labels', ''], metrics.map(metricRow)),
    '## Alerts',
    `The device finds each itself (${code('lineside alerts')}, ${code('GET /api/v1/alerts')}, the console), and
[prometheus-rules.yml](../../systemd/monitoring/prometheus-rules.yml) has the same conditions for Prometheus. An alert with a time *for* fires when its
condition has lasted so long. How they are used: [monitoring](../how-to/operator/monitor-with-prometheus.md).`,
    alertTable(),
  );
  return { text, holes };
}

function metricRow({ name, type, labels, help }: ListedMetric): string[] {
  return [code(name), type, labels.map(code).join(', '), plain(help)];
}
