/** What is wrong with a box is reported in all places: among the alerts, on /metrics, in the journal, by the command. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastingDays } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from './daemon.ts';
import { startBoth } from './hub.ts';
import { runCli } from './run-cli.ts';

test('a certificate that expires soon, and more waiting events than allowed, are reported everywhere', async () => {
  const dir = temporaryDirectory();
  const tls = { cert_file: lastingDays(dir, 'box', 3), key_file: join(dir, 'box.key') };
  // Without a broker waiting events are no fault; nothing answers at this one.
  const both = await startBoth({ config: { tls, kafka: { bootstrap: '127.0.0.1:1' } } });
  await both.waitFor(/ warn alert fired alert=CertificateExpiresSoon severity=warning .*tls\.cert_file in 2 days/);

  const items = Array.from({ length: 101 }, (_, n) => ({ dictionary: 'tools', businessKey: `saw-${n}`, data: {} }));
  const body = { name: 'tools', title: 'Tools', scope: 'PUBLIC' };
  assert.equal((await both.http('POST', '/api/v1/dictionaries', body)).status, 201);
  assert.equal((await both.http('POST', '/api/v1/imports', { items })).status, 200);
  await both.waitFor(/ warn alert fired alert=RefdataOutboxLagHigh severity=warning /);
  const { body: listed } = await both.http('GET', '/api/v1/alerts');
  const names = (listed as { items: { name: string }[] }).items.map(({ name }) => name);
  for (const name of ['RefdataOutboxLagHigh', 'CertificateExpiresSoon']) assert.ok(names.includes(name), names.join());
  assert.ok(!names.includes('LinesideLineDown'), 'the line answers');

  const text = String((await both.http('GET', '/metrics')).body);
  const [, end = ''] = /^lineside_certificate_end_timestamp_seconds\{key="tls\.cert_file"\} (\S+)$/m.exec(text) ?? [];
  const days = (Number(end) - Date.now() / 1_000) / 86_400;
  assert.ok(days > 2 && days <= 3, end);
  assert.doesNotMatch(text, new RegExp(dir), 'no path of the box is shown to everyone');

  const shown = await runCli(['alerts', '--socket', both.socket]);
  assert.equal(shown.status, 1);
  assert.match(shown.stdout, /^RefdataOutboxLagHigh +warning, for /m);
  assert.match(shown.stdout, /^CertificateExpiresSoon +warning, for /m);
  await until('no alert is logged twice', () => {
    const fired = both.logLines.filter((line) => line.includes('alert fired'));
    return fired.length === new Set(fired.map((line) => /alert=(\w+)/.exec(line)?.[1])).size;
  });
  const { boots } = (await both.http('GET', '/api/v1/admin/host')).body as { boots: object };
  assert.deepEqual(boots, { count: 1, powerLosses: 0, afterPowerLoss: false });
  assert.equal(await both.stop(), 0);
  assert.match(
    readFileSync(join(both.dir, 'data/host-state.json'), 'utf8'),
    /"stopped": ?true/,
    'the next boot follows no loss of power',
  );
});
