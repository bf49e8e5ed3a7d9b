/**
 * A real Prometheus with the rules that lineside brings: it scrapes the running service, has the same alerts that the
 * service finds itself, and answers every question of the dashboard.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { lastingDays } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { startProcess, temporaryDirectory } from '../e2e/daemon.ts';
import { startBoth } from '../e2e/hub.ts';

const systemd = resolve(import.meta.dirname, '../../systemd');
const present = spawnSync('prometheus', ['--version']).status === 0;
const skip = present ? false : "prometheus is not installed (Debian's package prometheus)";
/** Its start replays nothing and compiles nothing, but the machine may be busy. */
const LIMIT_MS = 60_000;

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data: { readonly alerts?: readonly Fired[]; readonly result?: readonly unknown[] };
}
interface Fired {
  readonly state: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Scrapes `target` each second. `ask` asks its API. */
async function startPrometheus(dir: string, target: string): Promise<(path: string) => Promise<Answer>> {
  const rules = join(systemd, 'monitoring/prometheus-rules.yml');
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'lineside', static_configs: [{ targets: [target] }] }],
  };
  const file = join(dir, 'prometheus.yml');
  writeFileSync(file, JSON.stringify(config));
  const data = join(dir, 'prometheus');
  mkdirSync(data);
  const options = [`--config.file=${file}`, `--storage.tsdb.path=${data}`, '--web.listen-address=127.0.0.1:0'];
  const child = startProcess('prometheus', options);
  child.stdout?.resume();
  let said = '';
  child.stderr?.on('data', (bytes: Buffer) => {
    said += bytes.toString();
  });
  const address = await until(
    'Prometheus listens',
    () => /msg="Listening on" address=(127\.0\.0\.1:\d+)/.exec(said)?.[1],
    LIMIT_MS,
  );
  return async (path) => (await (await fetch(`http://${address}/api/v1/${path}`)).json()) as Answer;
}

test('Prometheus has the alerts that the service has, and an answer to what the dashboard asks', { skip }, async () => {
  const dir = temporaryDirectory();
  const tls = { cert_file: lastingDays(dir, 'box', 3), key_file: join(dir, 'box.key') };
  // A broker that is never reached: without one configured nothing lags.
  const both = await startBoth({ config: { tls, kafka: { bootstrap: '127.0.0.1:9' } } });
  const ask = await startPrometheus(dir, both.address);
  const items = Array.from({ length: 101 }, (_, n) => ({ dictionary: 'tools', businessKey: `saw-${n}`, data: {} }));
  const dictionary = { name: 'tools', title: 'Tools', scope: 'PUBLIC' };
  assert.equal((await both.http('POST', '/api/v1/dictionaries', dictionary)).status, 201);
  assert.equal((await both.http('POST', '/api/v1/imports', { items })).status, 200);

  const own = async (): Promise<string> => {
    const { body } = await both.http('GET', '/api/v1/alerts');
    const { items: found } = body as { items: { name: string; severity: string }[] };
    return named(found.map(({ name, severity }) => `${name} ${severity}`));
  };
  const its = async (): Promise<string> => {
    const { alerts = [] } = (await ask('alerts')).data;
    const firing = alerts.filter(({ state }) => state === 'firing');
    return named(firing.map(({ labels }) => `${labels.alertname} ${labels.severity}`));
  };
  const wanted = 'CertificateExpiresSoon warning, RefdataOutboxLagHigh warning';
  await until('both have both alerts', async () => (await own()) === wanted && (await its()) === wanted, LIMIT_MS);

  const { panels } = JSON.parse(readFileSync(join(systemd, 'monitoring/grafana-dashboard.json'), 'utf8')) as {
    panels: { title: string; targets?: { expr: string }[] }[];
  };
  const asked = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
  assert.ok(asked.length > 80);
  let answered = 0;
  for (const { title, expr } of asked) {
    const filled = expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m');
    const { status, error, data } = await ask(`query?query=${encodeURIComponent(filled)}`);
    assert.equal(status, 'success', `${title}: ${error}`);
    if ((data.result ?? []).length > 0) answered += 1;
  }
  assert.ok(answered > asked.length / 2, `only ${answered} of ${asked.length} have something to show`);
  assert.equal(await both.stop(), 0);
});

/** What the machine of the test lacks (memory, disk) is left out. */
function named(alerts: readonly string[]): string {
  return alerts
    .filter((name) => !name.startsWith('Host'))
    .sort()
    .join(', ');
}
