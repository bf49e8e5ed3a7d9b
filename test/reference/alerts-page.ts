/** The alerts as the Prometheus rules and as a table, from the rules that the rooms register. */
import { certificateRules, lineRules, serviceRules } from '../../src/hub/health/alerts.ts';
import { outboxRules } from '../../src/hub/outbox/admin.ts';
import { upstreamRules } from '../../src/hub/upstream/status.ts';
import { webhookRules } from '../../src/hub/webhooks/webhooks.ts';
import { hostRules } from '../../src/shared/host/host-rules.ts';
import { code, MADE, type Page, plain, table } from './page.ts';

/** Of every room: reference.test.ts counts the tables in the sources. */
export const tables = [lineRules, serviceRules, certificateRules, outboxRules, webhookRules, upstreamRules, hostRules];
export const alertRules = tables.flatMap((rules) =>
  rules.map(({ name, severity, forS = 0, expr, title, means, remedy }) => {
    return { name, severity, forS, expr, title, means, remedy };
  }),
);

/** systemd/monitoring/prometheus-rules.yml. A string of JSON is one of YAML. */
export function prometheusRules(): Page {
  const rules = alertRules.map(
    ({ name, expr, forS, severity, title, means, remedy }) => `      - alert: ${name}
        expr: ${expr}
${forS === 0 ? '' : `        for: ${forTime(forS)}\n`}        labels:
          severity: ${severity}
        annotations:
          summary: ${JSON.stringify(title.replace('VALUE', '{{ $value }}').replace('BOX', '{{ $labels.instance }}'))}
          description: ${JSON.stringify(`${means} ${remedy}`)}
`,
  );
  const text = `# ${MADE.replace(/^<!-- | -->$/g, '')}
# Alerts on the metrics of lineside's hub (GET /metrics). The same conditions are the device's own alerts
# (GET /api/v1/alerts), for devices that no Prometheus watches.
groups:
  - name: lineside
    rules:
${rules.join('')}`;
  return { text, holes: [] };
}

/** "1h", "5m". */
function forTime(seconds: number): string {
  return seconds % 3_600 === 0 ? `${seconds / 3_600}h` : `${seconds / 60}m`;
}

export function alertTable(): string {
  const rows = alertRules.map(({ name, severity, expr, forS, means, remedy }) => [
    code(name),
    severity,
    plain(means),
    plain(remedy),
    code(expr),
    forS === 0 ? '' : forTime(forS),
  ]);
  return table(['alert', 'severity', 'means', 'do', 'condition in Prometheus', 'for'], rows);
}
