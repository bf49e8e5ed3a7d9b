/** systemd/reference.md: every metric of /metrics and every alert, the device's own and Prometheus's. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ListedMetric, type MetricSources, Metrics } from '../../src/hub/http/metrics.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';
import { type PrometheusRule, rulesIn } from './prometheus-rules.ts';

const RULES = join(import.meta.dirname, '../../systemd/monitoring/prometheus-rules.yml');
const src = join(import.meta.dirname, '../../src');

interface OwnRule {
  readonly name: string;
  readonly severity: string;
  readonly forS?: number;
}

const ownRules = await rulesOfTheRooms();

/** The rule tables wherever they stand: a room that gets alerts cannot be forgotten here. */
async function rulesOfTheRooms(): Promise<OwnRule[]> {
  const found: OwnRule[] = [];
  for (const file of globSync('**/*.ts', { cwd: src }).sort()) {
    const name = /^export const (\w+): readonly Rule</m.exec(readFileSync(join(src, file), 'utf8'))?.[1];
    if (name === undefined) continue;
    const room = (await import(join(src, file))) as Readonly<Record<string, readonly OwnRule[]>>;
    found.push(...(room[name] ?? []));
  }
  if (found.length < 15) throw new Error('hardly any rule is found: is the pattern right?');
  return found;
}

/** What there is to be scraped; nothing is measured. */
export function listedMetrics(): readonly ListedMetric[] {
  const metrics = new Metrics({ clock: new FakeClock() } as unknown as MetricSources);
  metrics.stop();
  return metrics.list();
}

/** By name, both kinds together. */
export function alertNames(): string[] {
  const names = [...ownRules.map(({ name }) => name), ...prometheusRules().map(({ alert }) => alert)];
  return [...new Set(names)].sort();
}

function prometheusRules(): PrometheusRule[] {
  return rulesIn(readFileSync(RULES, 'utf8'));
}

export function metricsPage(): Page {
  const metrics = [...listedMetrics()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const rules = prometheusRules();
  const holes = [
    ...metrics.filter(({ help }) => help.trim() === '').map(({ name }) => name),
    ...rules
      .filter(({ summary, description, expr, severity }) => [summary, description, expr, severity].includes(''))
      .map(({ alert }) => alert),
  ];
  const text = blocks(
    MADE,
    '# Metrics and alerts',
    `What an alert means and what to do about it is in the README: [alerts](../README.md#alerts).`,
    '## Metrics',
    `At ${code('GET /metrics')} of the hub, open to everyone who reaches it. A metric that the machine cannot tell has no series.`,
    table(['metric', 'type', 'labels', ''], metrics.map(metricRow)),
    '## Alerts',
    `*On the box*: the device finds it itself (${code('lineside alerts')}, ${code('GET /api/v1/alerts')}, the console). *Prometheus*: a
rule of [prometheus-rules.yml](monitoring/prometheus-rules.yml) finds it.`,
    table(
      ['alert', 'severity', 'on the box', 'Prometheus', 'for', 'what it says'],
      alertNames().map((name) => alertRow(name, rules)),
    ),
  );
  return { text, holes };
}

function metricRow({ name, type, labels, help }: ListedMetric): string[] {
  return [code(name), type, labels.map(code).join(', '), plain(help)];
}

function alertRow(name: string, rules: readonly PrometheusRule[]): string[] {
  const own = ownRules.find((rule) => rule.name === name);
  const rule = rules.find(({ alert }) => alert === name);
  const severity = own?.severity ?? rule?.severity ?? '';
  return [
    code(name),
    severity,
    own === undefined ? '' : 'yes',
    rule === undefined ? '' : code(rule.expr),
    own?.forS === undefined ? (rule?.for ?? '') : `${own.forS} s`,
    plain(rule?.description ?? ''),
  ];
}
