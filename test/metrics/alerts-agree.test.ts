/**
 * Minute by minute of what can go wrong with a box, the same alerts fire on the device and by the Prometheus rules, whose names,
 * severities and times come from the same declarations. Prometheus' own checker runs the rules against what the hub would have
 * shown on /metrics.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { statusWith } from '../../src/hub/health/status.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import type { LineNumbers } from '../../src/shared/proto/line-status.ts';
import { alertRules } from '../reference/alerts-page.ts';
import { Box, type Facts, well } from './box.ts';
import { promtool, skip } from './promtool.ts';

const rulesFile = resolve(import.meta.dirname, '../../systemd/monitoring/prometheus-rules.yml');

type Changes = Partial<Pick<Facts, 'damage' | 'full' | 'certificates' | 'closedSockets' | 'hubFaults'>> & {
  readonly [K in 'outbox' | 'webhooks' | 'host' | 'upstream']?: Partial<Facts[K]>;
} & { readonly line?: Partial<LineNumbers> | undefined };
/** So many minutes of a box that is well but for these. */
type Phase = readonly [minutes: number, changes: Changes];

const line = well.line ?? assert.fail();
const kernel = line.kernel ?? assert.fail();
const { rxDroppedPackets: dropped, rxFetchedPackets: fetched } = line.counters;
const disk = well.host.disk;
const unknown = { ...disk, totalBytes: null, freeBytes: null, lifeUsedPercent: null };
const broker = well.outbox.broker;
const DAY_S = 86_400;

/** Each begins at the limit where nothing fires yet, goes beyond it, and comes back. */
const lives: Readonly<Record<string, readonly Phase[]>> = {
  outbox: [
    [2, { outbox: { waiting: 100 } }],
    [2, { outbox: { waiting: 101, deadLetters: 1 }, full: 'no room' }],
    [
      2,
      { damage: 'damaged', outbox: { broker: { ...broker, topics: [{ name: 't', partitions: 0, lacks: ['it'] }] } } },
    ],
    [2, {}],
  ],
  broker: [
    [59, { outbox: { broker: { ...broker, connected: false } } }],
    [1, {}],
    [62, { outbox: { broker: { ...broker, connected: false } } }],
    [2, { outbox: { waiting: 5_000, broker: { ...broker, configured: false, connected: false } } }],
  ],
  webhooks: [
    [2, { webhooks: { oldestDueSeconds: 900 } }],
    [2, { webhooks: { oldestDueSeconds: 901, rejected: 1 } }],
    [2, { webhooks: { failed: 1, rejected: 1, blockedSubscriptions: 1 } }],
    [2, {}],
  ],
  'the line': [
    [1, {}],
    [1, { line: undefined }],
    [2, {}],
    [4, { line: undefined }],
    [2, {}],
    [2, { line: statusWith({}, { state: 'failing' }) }],
    [5, { line: { portState: 'lost' } }],
    [1, { line: { portState: 'closed' } }],
    [3, { line: { portState: 'lost' } }],
    [4, { line: { portState: 'reopening' } }],
    [2, {}],
  ],
  'errors on the line': [
    [6, { line: { kernel } }],
    [3, { line: { kernel: { ...kernel, frame: kernel.frame + 10, brk: kernel.brk + 500 } } }],
    [8, { line: { kernel: { ...kernel, frame: kernel.frame + 10, parity: kernel.parity + 1 } } }],
    [3, { line: { kernel: { ...kernel, frame: kernel.frame + 10, parity: kernel.parity + 12 } } }],
  ],
  'dropped packets': [
    [6, {}],
    [3, { line: statusWith({ rxDroppedPackets: dropped + 5 }) }],
    [9, { line: statusWith({ rxDroppedPackets: dropped + 9, rxFetchedPackets: fetched + 1 }) }],
  ],
  upstream: [
    [2, { upstream: { oldestUnsentAgeS: 3_600 } }],
    [2, { upstream: { oldestUnsentAgeS: 3_601, state: 'waiting for the budget' } }],
    [2, { upstream: { state: 'refused' } }],
    [2, { upstream: { to: 'off', state: 'off', oldestUnsentAgeS: 9_999 } }],
    [2, { upstream: { state: 'waiting for the broker', connected: false } }],
    [2, { upstream: { state: 'waiting for change events' } }],
    [3, { upstream: { entriesLost: 4 } }],
  ],
  certificates: [
    [20, { certificates: [{ key: 'tls.cert_file', endsAtSeconds: 30 * DAY_S + 600 }] }],
    [20, { certificates: [{ key: 'kafka.ca_file', endsAtSeconds: 1_800 }] }],
  ],
  'faults of the service': [
    [2, { line: { configurationRefused: 'log.commit_ms' } }],
    [2, { hubFaults: { configurationRefused: 'kafka.ca_file', listenerFault: '' } }],
    [1, { line: { listenerFault: 'a' } }],
    [2, {}],
    [3, { line: { listenerFault: 'a' } }],
    [2, {}],
    [3, { hubFaults: { configurationRefused: '', listenerFault: 'b' } }],
    [
      2,
      {
        line: { listenerFault: 'a', configurationRefused: 'c' },
        hubFaults: { configurationRefused: 'd', listenerFault: 'b' },
      },
    ],
    [2, {}],
  ],
  sockets: [
    [2, { closedSockets: ['lineside-hub.socket', 'lineside-hub-lan.socket'] }],
    [2, {}],
  ],
  'the machine': [
    [2, { host: { temperatureCelsius: 79.9, disk: { ...disk, freeBytes: 50, lifeUsedPercent: 89 } } }],
    [2, { host: { temperatureCelsius: 80, disk: { ...disk, freeBytes: 49, lifeUsedPercent: 90 } } }],
    [2, { host: { underVoltage: 'yes', throttled: 'yes', memory: { totalBytes: 1_000, availableBytes: 100 } } }],
    [2, { host: { underVoltage: 'unknown', throttled: 'unknown', memory: { totalBytes: 1_000, availableBytes: 99 } } }],
    [2, { host: { disk: { ...disk, freeBytes: 0 }, memory: { totalBytes: 1_000, availableBytes: 0 } } }],
    [2, { host: { disk: unknown, memory: { totalBytes: 1_000, availableBytes: null }, temperatureCelsius: null } }],
    [2, { host: { disk: { ...disk, reserve: 'warning' }, clock: 'unsynced', uptimeSeconds: 600 } }],
    [2, { host: { disk: { ...disk, reserve: 'unknown' }, clock: 'unsynced', uptimeSeconds: 601 } }],
    [2, { host: { clock: 'unknown', slot: { name: 'a', trying: false, dataLost: true, updateFailed: true } } }],
    [2, { host: { slot: null, uptimeSeconds: 86_399, boots: { count: 5, powerLosses: 2, afterPowerLoss: true } } }],
    [2, { host: { uptimeSeconds: 86_400, boots: { count: 5, powerLosses: 2, afterPowerLoss: true } } }],
  ],
};

interface Lived {
  readonly series: ReadonlyMap<string, readonly string[]>;
  /** What fired on the device, minute by minute. */
  readonly fired: readonly (readonly string[])[];
}

async function live(phases: readonly Phase[]): Promise<Lived> {
  const box = new Box();
  const series = new Map<string, string[]>();
  const fired: string[][] = [];
  for (const changes of phases.flatMap(([minutes, changes]) => Array<Changes>(minutes).fill(changes))) {
    box.facts = changed(changes);
    for (const row of (await box.metrics.text()).split('\n')) {
      const [, name, value] = /^(lineside_(?!http_).*) (\S+)$/.exec(row) ?? [];
      if (name === undefined || value === undefined) continue;
      series.set(name, [...padded(series.get(name) ?? [], fired.length), value]);
    }
    fired.push(await box.alerts());
    box.clock.advance(60_000);
  }
  box.metrics.stop();
  for (const [name, values] of series) series.set(name, padded(values, fired.length));
  return { series, fired };
}

/** A series that is not in a scrape ends there, for Prometheus as well. */
function padded(values: readonly string[], length: number): string[] {
  return [...values, ...Array<string>(length - values.length).fill('stale')];
}

function changed(changes: Changes): Facts {
  const all = Object.entries(well).map(([key, normal]) => {
    if (!(key in changes)) return [key, normal];
    const given = changes[key as keyof Changes];
    return [key, isPlain(normal) && isPlain(given) ? { ...normal, ...given } : given];
  });
  return Object.fromEntries(all) as Facts;
}

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** For `promtool test rules`; JSON is YAML. */
function cases(rules: string, all: readonly Lived[]): string {
  const tests = all.map(({ series, fired }) => ({
    interval: '1m',
    input_series: [...series].map(([name, values]) => ({
      series: name.replace(/(\{)|$/, (brace) => (brace === '{' ? '{instance="box",' : '{instance="box"}')),
      values: values.join(' '),
    })),
    promql_expr_test: fired.map((names, minute) => ({
      // One for each box, whatever labels its series have.
      expr: 'count by (alertname, severity) (ALERTS{alertstate="firing"})',
      eval_time: `${minute}m`,
      exp_samples: names.map((name) => {
        const [alertname, severity] = name.split(' ');
        return { labels: `{alertname="${alertname}",severity="${severity}"}`, value: 1 };
      }),
    })),
  }));
  return JSON.stringify({ rule_files: [rules], evaluation_interval: '1m', tests });
}

test('every minute the same alerts fire on the device and in Prometheus', { skip }, async (t) => {
  const all = await Promise.all(Object.values(lives).map(live));
  const seen = new Set(all.flatMap(({ fired }) => fired.flat()).map((name) => name.split(' ')[0] ?? ''));
  assert.deepEqual([...seen].sort(), alertRules.map(({ name }) => name).sort(), 'each alert has to fire in some life');
  const file = join(temporaryDirectory(t), 'cases.yml');
  writeFileSync(file, cases(rulesFile, all));
  const { status, output } = promtool(['test', 'rules', file]);
  assert.equal(status, 0, output);
});

test('a rule of Prometheus that is a little wrong does not agree', { skip }, async (t) => {
  const all = await Promise.all(Object.values(lives).map(live));
  const dir = temporaryDirectory(t);
  const text = readFileSync(rulesFile, 'utf8');
  for (const [right, wrong] of [
    ['lineside_outbox_waiting > 100', 'lineside_outbox_waiting > 99'],
    ['lineside_outbox_dead_letters > 0', 'lineside_outbox_dead_letters > 1'],
    ['lineside_webhook_oldest_due_seconds > 900', 'lineside_webhook_oldest_due_seconds > 899'],
    ['lineside_webhook_oldest_due_seconds > 900', 'lineside_webhook_oldest_due_seconds > 901'],
    ['sum without (state) (lineside_webhook_deliveries_for_review)', 'lineside_webhook_deliveries_for_review'],
    ['lineside_webhook_subscriptions_blocked > 0', 'lineside_webhook_subscriptions_blocked > 1'],
    ['temperature_celsius >= 80', 'temperature_celsius > 80'],
    ['under_voltage == 1', 'under_voltage == 0'],
    ['throttled == 1', 'throttled == 0'],
    ['lineside_host_memory_bytes < 0.1', 'lineside_host_memory_bytes <= 0.1'],
    ['lineside_host_disk_bytes < 0.05', 'lineside_host_disk_bytes <= 0.05'],
    ['life_used_percent >= 90', 'life_used_percent > 90'],
    ['reserve_low == 1', 'reserve_low == 2'],
    ['uptime_seconds > 600', 'uptime_seconds >= 600'],
    ['data_lost == 1', 'data_lost == 0'],
    ['update_failed == 1', 'update_failed == 0'],
    ['uptime_seconds < 86400', 'uptime_seconds <= 86400'],
    ['lineside_line_up == 0\n        for: 1m', 'lineside_line_up == 0\n        for: 2m'],
    ['lineside_line_port_lost == 1\n        for: 5m', 'lineside_line_port_lost == 1\n        for: 6m'],
    ['lineside_line_log_failing == 1', 'lineside_line_log_failing == 0'],
    ['dropped_packets_total[5m]) > 0', 'dropped_packets_total[2m]) > 0'],
    [' and increase(lineside_line_rx_fetched_packets_total[5m]) > 0', ''],
    ['{kind!="break"}[5m])) > 10', '{kind!="break"}[5m])) > 11'],
    ['{kind!="break"}', '{kind!="frame"}'],
    ['oldest_unsent_seconds > 3600', 'oldest_unsent_seconds >= 3600'],
    ['lineside_upstream_on == 1 and ', ''],
    ['state="refused"', 'state="sending"'],
    ['state="waiting_budget"', 'state="waiting_line"'],
    ['lost_entries_total[1d]) > 0', 'lost_entries_total[1d]) > 4'],
    ['time() < 2592000', 'time() <= 2592000'],
    ['time() <= 0', 'time() < 0'],
    ['lineside_kafka_connected == 0\n        for: 1h', 'lineside_kafka_connected == 0\n        for: 59m'],
    ['lineside_kafka_configured == 1 and ', ''],
    ['lineside_refdata_full == 1', 'lineside_refdata_full == 2'],
    ['lineside_refdata_damaged == 1', 'lineside_refdata_damaged == 2'],
    ['or lineside_hub_configuration_refused == 1', ''],
    ['lineside_line_listener_fault == 1 or ', ''],
    ['lineside_kafka_topics_lacking > 0', 'lineside_kafka_topics_lacking > 1'],
  ] as const) {
    assert.ok(text.includes(right), right);
    // The lives in which its alert fires show it: all of them for each rule take half a minute.
    const alert = [...text.slice(0, text.indexOf(right)).matchAll(/alert: (\w+)/g)].at(-1)?.[1];
    const its = all.filter(({ fired }) => fired.flat().some((name) => name.startsWith(`${alert} `)));
    writeFileSync(join(dir, 'cases.yml'), cases('rules.yml', its));
    writeFileSync(join(dir, 'rules.yml'), text.replace(right, wrong));
    assert.notEqual(promtool(['test', 'rules', join(dir, 'cases.yml')]).status, 0, wrong);
  }
});
