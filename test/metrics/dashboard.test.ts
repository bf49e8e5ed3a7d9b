/**
 * The dashboard for Grafana: every expression in it is PromQL by Prometheus' own parser, shows something of a box whose
 * every figure is there, and asks only for metrics and labels that the list of them has.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { Box, well } from './box.ts';
import { golden } from './golden.ts';
import { promtool, skip } from './promtool.ts';

const file = resolve(import.meta.dirname, '../../systemd/monitoring/grafana-dashboard.json');

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly type: string; readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string; readonly refId: string }[];
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
}

interface Dashboard {
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string; query: unknown }[] };
}

const dashboard = JSON.parse(readFileSync(file, 'utf8')) as Dashboard;
const shown = dashboard.panels.filter(({ type }) => type !== 'row');
const expressions = shown.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr, legendFormat }) => ({ title, expr, legendFormat })),
);
/** As Grafana fills it in. */
const filled = (expr: string): string =>
  expr.replaceAll('$instance', 'box').replaceAll('$__rate_interval', '5m').replaceAll('$__range', '6h');

describe('the dashboard', () => {
  test('has a row for each part of a box, and every panel a unit, a description and the data source that is chosen', () => {
    assert.ok(dashboard.schemaVersion >= 38, 'Grafana 10');
    assert.deepEqual(
      dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title),
      ['Box', 'Line', 'Log', 'Outbox and broker', 'Webhooks', 'Upstream', 'Host'],
    );
    assert.deepEqual(
      dashboard.templating.list.map(({ name, type }) => [name, type]),
      [
        ['datasource', 'datasource'],
        ['instance', 'query'],
      ],
    );
    assert.ok(shown.length > 40);
    for (const { title, description, datasource, targets = [], type, fieldConfig } of shown) {
      assert.ok((description ?? '').length > 10, title);
      assert.deepEqual(datasource, { type: 'prometheus', uid: '${datasource}' }, title);
      assert.ok(targets.length > 0, title);
      for (const { expr } of targets) assert.ok(expr.includes('instance=~"$instance"'), `${title}: ${expr}`);
      if (type !== 'state-timeline') assert.notEqual(fieldConfig?.defaults.unit ?? '', '', title);
    }
  });

  test('has no two panels in one place, and none beside the page', () => {
    const taken = new Map<string, string>();
    assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
    for (const { title, gridPos } of dashboard.panels) {
      assert.ok(gridPos.x + gridPos.w <= 24, title);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          assert.equal(taken.get(`${x} ${y}`), undefined, `${title} lies on another`);
          taken.set(`${x} ${y}`, title);
        }
      }
    }
  });

  test('asks for metrics and labels that there are, and draws what the alerts are about', () => {
    const known = new Map(golden().map((metric) => [metric.name, metric]));
    const asked = new Set<string>();
    for (const { title, expr, legendFormat } of expressions) {
      const names = [...expr.matchAll(/\blineside_[a-z0-9_]+/g)].map(([name]) => name);
      for (const name of names) assert.ok(known.has(name), `${title} asks for ${name}: it is in no list of metrics`);
      for (const name of names) asked.add(name);
      const labels = new Set(['instance', 'alertname', ...names.flatMap((name) => known.get(name)?.labels ?? [])]);
      for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        assert.ok(labels.has(label), `${title} has the label ${label} in its legend`);
      }
    }
    assert.equal(dashboard.templating.list[1]?.query instanceof Object, true);
    assert.match(JSON.stringify(dashboard.templating.list[1]?.query), /label_values\(lineside_info, instance\)/);
    const rules = readFileSync(resolve(import.meta.dirname, '../../systemd/monitoring/prometheus-rules.yml'), 'utf8');
    const watched = new Set(
      [...rules.matchAll(/^ +expr: (.*)$/gm)].flatMap(([expr]) => expr.match(/lineside_\w+/g) ?? []),
    );
    const unseen = [...watched].filter((name) => !asked.has(name));
    assert.deepEqual(unseen.sort(), notDrawn);
  });

  test('every expression is PromQL, and shows something of a box whose every figure is there', { skip }, async (t) => {
    const dir = temporaryDirectory(t);
    const records = expressions.map(({ expr }, n) => ({ record: `panel:${n}`, expr: filled(expr) }));
    writeFileSync(join(dir, 'rules.yml'), JSON.stringify({ groups: [{ name: 'dashboard', rules: records }] }));
    pass('check', 'rules', join(dir, 'rules.yml'));
    const input = [
      ...(await everySeries()),
      'up{instance="box"} 1',
      'ALERTS{instance="box",alertname="A",alertstate="firing"} 1',
    ];
    const asked = expressions.map(({ expr }) => ({
      expr: `group(${filled(expr)})`,
      eval_time: '80m',
      exp_samples: one,
    }));
    writeFileSync(join(dir, 'cases.yml'), casesOf(input, asked));
    pass('test', 'rules', join(dir, 'cases.yml'));
    // A panel that shows nothing would have been found.
    const nothing = { expr: 'group(lineside_nothing{instance="box"})', eval_time: '80m', exp_samples: one };
    writeFileSync(join(dir, 'cases.yml'), casesOf(input, [nothing]));
    assert.throws(() => pass('test', 'rules', join(dir, 'cases.yml')));
  });
});

/** Not in the dashboard: an alert says it, and a curve would not say more. */
const notDrawn = [
  'lineside_host_after_power_loss',
  'lineside_host_card_reserve_low',
  'lineside_host_data_lost',
  'lineside_host_update_failed',
  'lineside_hub_configuration_refused',
  'lineside_hub_listener_fault',
  'lineside_line_configuration_refused',
  'lineside_line_listener_fault',
  'lineside_refdata_damaged',
  'lineside_refdata_full',
  'lineside_upstream_on',
];

/** Of a box that has everything, as Prometheus would keep them. */
async function everySeries(): Promise<string[]> {
  const box = new Box();
  box.facts = { ...well, certificates: [{ key: 'tls.cert_file', endsAtSeconds: 9_999_999 }] };
  box.metrics.answered('/healthz', 'GET', 200, 0.01);
  const text = await box.metrics.text();
  box.metrics.stop();
  return text
    .split('\n')
    .filter((line) => line.startsWith('lineside_'))
    .map((line) =>
      line.replace(/^([a-z0-9_]+)(?:\{(.*)\})? /, (_, name, labels) => {
        return `${name}{instance="box"${labels === undefined ? '' : `,${labels}`}} `;
      }),
    );
}

const one = [{ labels: '{}', value: 1 }];

/** For `promtool test rules`; JSON is YAML. */
function casesOf(input: readonly string[], promql_expr_test: readonly object[]): string {
  const input_series = input.map((row) => {
    const at = row.lastIndexOf(' ');
    return { series: row.slice(0, at), values: `${row.slice(at + 1)}x90` };
  });
  const tests = [{ interval: '1m', input_series, promql_expr_test }];
  return JSON.stringify({ evaluation_interval: '1m', rule_files: [], tests });
}

function pass(...args: string[]): void {
  const { status, output } = promtool(args);
  assert.equal(status, 0, output);
}
