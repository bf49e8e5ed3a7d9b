/** The Prometheus rules fire when the specification says so: Prometheus' own checker runs them against given series. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

const rules = resolve(import.meta.dirname, '../../systemd/monitoring/prometheus-rules.yml');
const cases = resolve(import.meta.dirname, 'alerts.promtool.yml');
const present = spawnSync('promtool', ['--version']).status === 0;
const skip = present ? false : "promtool is not installed (Debian's package prometheus)";

function promtool(...args: string[]): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8', timeout: 30_000 });
  return { status, output: stdout + stderr };
}

test('the Prometheus rules are sound', { skip }, () => {
  const { status, output } = promtool('check', 'rules', rules);
  assert.equal(status, 0, output);
  assert.match(output, /32 rules found/);
});

test('the Prometheus rules fire above 100 waiting events, at the first dead letter, by what the webhooks and the machine lack, and not before', {
  skip,
}, () => {
  const { status, output } = promtool('test', 'rules', cases);
  assert.equal(status, 0, output);
});

test('the cases of the Prometheus rules fail when a rule is wrong', { skip }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-rules-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
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
  ] as const) {
    const text = readFileSync(rules, 'utf8');
    assert.ok(text.includes(right));
    writeFileSync(join(dir, 'rules.yml'), text.replace(right, wrong));
    writeFileSync(
      join(dir, 'cases.yml'),
      readFileSync(cases, 'utf8').replace(/^ {2}- .*prometheus-rules\.yml$/m, '  - rules.yml'),
    );
    assert.notEqual(promtool('test', 'rules', join(dir, 'cases.yml')).status, 0, wrong);
  }
});
