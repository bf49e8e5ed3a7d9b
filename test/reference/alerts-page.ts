/** The alerts as the Prometheus rules and as a table, from the rules that the rooms register. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Rule } from '../../src/shared/base/alerts.ts';
import { code, MADE, type Page, plain, table } from './page.ts';

const src = join(import.meta.dirname, '../../src');

/** Of every room, wherever its rules are: none can be forgotten. */
export const alertRules = await rulesOfTheRooms();

async function rulesOfTheRooms(): Promise<readonly Rule<never>[]> {
  const found: Rule<never>[] = [];
  for (const file of globSync('**/*.ts', { cwd: src }).sort()) {
    for (const [, name = ''] of readFileSync(join(src, file), 'utf8').matchAll(
      /^export const (\w+): readonly Rule</gm,
    )) {
      const room = (await import(join(src, file))) as Readonly<Record<string, readonly Rule<never>[]>>;
      found.push(...(room[name] ?? []));
    }
  }
  if (found.length < 30) throw new Error('hardly any rule is found: is the pattern right?');
  return found;
}

/** systemd/monitoring/prometheus-rules.yml. A string of JSON is one of YAML. */
export function prometheusRules(): Page {
  const rules = alertRules.map(
    ({ name, expr, forS = 0, severity, title, means, remedy }) => `      - alert: ${name}
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
  const rows = alertRules.map(({ name, severity, expr, forS = 0, means, remedy }) => [
    code(name),
    severity,
    plain(means),
    plain(remedy),
    code(expr),
    forS === 0 ? '' : forTime(forS),
  ]);
  return table(['alert', 'severity', 'means', 'do', 'condition in Prometheus', 'for'], rows);
}
