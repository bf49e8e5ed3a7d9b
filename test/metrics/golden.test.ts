/**
 * Names, types, labels and help of the metrics stay what they are: they are held to a list, in the hub's registry and in
 * a scrape of the running service. Prometheus' own checker finds no fault in that scrape.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { openPort } from '../e2e/faults.ts';
import { startBoth } from '../e2e/hub.ts';
import { namedPty } from '../e2e/pty.ts';
import { Box } from './box.ts';
import { golden, goldenLine } from './golden.ts';
import { promtool, skip } from './promtool.ts';

const REASON = `Dashboards, rules and scripts in the field are built on these names: a metric that is renamed, loses a label or
changes its type breaks them without a word. Leave it as it is and add a new one beside it. Where a line is only new,
add it to test/metrics/metrics.golden.txt, to systemd/monitoring/grafana-dashboard.json where people should see it, and run
scripts/reference.`;

test('the metrics of the hub are those of the list, each with its type, labels and help', () => {
  const box = new Box();
  box.metrics.stop();
  const now = box.metrics.list().map((metric) => goldenLine(metric));
  const before = golden().map(goldenLine);
  const gone = before.filter((line) => !now.includes(line));
  const added = now.filter((line) => !before.includes(line));
  assert.ok(before.length > 100, 'the list is nearly empty: is it read right?');
  assert.deepEqual({ gone, added }, { gone: [], added: [] }, REASON);
});

test('each name, type and help follows the habits of Prometheus', () => {
  for (const { name, type, help } of golden()) {
    assert.match(name, /^lineside_[a-z0-9_]+$/);
    assert.equal(name.endsWith('_total'), type === 'counter', name);
    assert.doesNotMatch(name, /_(ms|milliseconds|minutes|kb|mb|kib|mib|count)(_|$)/, 'base units: seconds, bytes');
    assert.ok(help.length > 5 && help.endsWith('.'), `${name}: ${help}`);
  }
});

test('a scrape of the service is what the list says, those of the line included, and shows when line or port are lost', async () => {
  const port = namedPty(temporaryDirectory());
  const both = await startBoth({ config: { serial: { extra_ports: [port.portName] } } });
  const metrics = async (): Promise<string> => String((await both.http('GET', '/metrics')).body);
  await openPort(both.client, port.portName);
  port.write(Buffer.from('hello'));
  const text = await until('the line has received', async () => {
    const text = await metrics();
    return /^lineside_line_rx_bytes_total 5$/m.test(text) && text;
  });
  const found = scraped(text);
  const listed = golden();
  assert.deepEqual([...found.keys()].sort(), listed.map(({ name }) => name).sort());
  for (const { name, type, labels, help } of listed) {
    const metric = found.get(name);
    assert.deepEqual([metric?.type, metric?.help], [type, help], name);
    for (const label of metric?.labels ?? []) assert.ok(labels.includes(label), `${name} has the label ${label}`);
  }
  assert.match(text, /^lineside_line_up 1$/m);
  assert.match(text, /^lineside_line_port_open 1$/m);
  // Of a line that is up every figure is there but those that a PTY, or a machine without time sync, cannot have.
  const silent = listed.filter(({ name }) => name.startsWith('lineside_line_') && found.get(name)?.series === 0);
  assert.deepEqual(silent.map(({ name }) => name).sort(), [
    'lineside_line_clock_set',
    'lineside_line_kernel_errors_total',
  ]);

  process.kill(both.linePid, 'SIGSTOP');
  try {
    const unreachable = await until('the line does not answer', async () => {
      const text = await metrics();
      return /^lineside_line_up 0$/m.test(text) && text;
    });
    const left = [...scraped(unreachable)].filter(
      ([name, { series }]) => name.startsWith('lineside_line_') && series > 0,
    );
    assert.deepEqual(
      left.map(([name]) => name),
      ['lineside_line_up'],
    );
  } finally {
    process.kill(both.linePid, 'SIGCONT');
  }
  await until('the line is back', async () => /^lineside_line_up 1$/m.test(await metrics()));
  port.close();
  const lost = await until('the port is lost', async () => {
    const text = await metrics();
    return /^lineside_line_port_lost 1$/m.test(text) && text;
  });
  assert.match(lost, /^lineside_line_port_open 0$/m);
  assert.match(lost, /^lineside_line_losses_total 1$/m);
  if (skip === false) checked(text);
  await both.stop();
});

test('a full scrape passes "promtool check metrics"', { skip }, async () => {
  const box = new Box();
  box.facts = { ...box.facts, certificates: [{ key: 'tls.cert_file', endsAtSeconds: 1 }] };
  box.metrics.answered('/healthz', 'GET', 200, 0.001);
  checked(await box.metrics.text());
  box.metrics.stop();
});

function checked(text: string): void {
  assert.deepEqual(promtool(['check', 'metrics'], text), { status: 0, output: '' });
}

interface Scraped {
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly series: number;
}

/** A scrape, taken apart: each metric with its type, its help and the labels that its series have. */
function scraped(text: string): Map<string, Scraped> {
  const found = new Map<string, Scraped>();
  const help = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === 'HELP') help.set(name, rest);
    if (kind === 'TYPE') found.set(name, { type: rest, help: help.get(name) ?? '', labels: [], series: 0 });
    if (line === '' || line.startsWith('#')) continue;
    const [, series = '', labels = ''] = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const base = found.has(series) ? series : series.replace(/_(bucket|sum|count)$/, '');
    const metric = found.get(base);
    assert.ok(metric !== undefined, `a series without a type: ${line}`);
    const own = [...labels.matchAll(/([a-z_]+)="/g)].map(([, label = '']) => label).filter((label) => label !== 'le');
    found.set(base, { ...metric, labels: [...new Set([...metric.labels, ...own])], series: metric.series + 1 });
  }
  return found;
}
