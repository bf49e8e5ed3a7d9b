import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastingDays } from '../../shared/base/certificates.fixture.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { Certificates, endOf } from './certificates.ts';

const DAY_MS = 86_400_000;

test('alerts of a certificate come thirty days before its end and at its end, by the key that names it', async (t) => {
  const dir = temporaryDirectory(t);
  const file = lastingDays(dir, 'box', 40);
  const end = endOf(readFileSync(file, 'utf8'), 'chain') ?? 0;
  const clock = new FakeClock();
  const certificates = new Certificates(
    [
      { key: 'tls.cert_file', file, kind: 'chain' },
      { key: 'tls.client_ca_file', file: '', kind: 'authorities' },
      { key: 'kafka.ca_file', file: join(dir, 'missing.pem'), kind: 'authorities' },
    ],
    clock,
  );
  const alerts = () => certificates.alerts().map(({ name, severity, summary }) => `${name} ${severity}: ${summary}`);
  assert.deepEqual(alerts(), []);
  await certificates.look();
  assert.deepEqual(certificates.ends, [{ key: 'tls.cert_file', endsAtSeconds: end }]);
  const at = (ms: number): void => clock.stepWall(ms - clock.wallMs());
  at(end * 1_000 - 30 * DAY_MS);
  assert.deepEqual(alerts(), []);
  at(end * 1_000 - 30 * DAY_MS + 1);
  assert.deepEqual(alerts(), [
    'CertificateExpiresSoon warning: certificates end within 30 days: tls.cert_file in 29 days',
  ]);
  at(end * 1_000 - 1);
  assert.deepEqual(alerts(), [
    'CertificateExpiresSoon warning: certificates end within 30 days: tls.cert_file in 0 days',
  ]);
  at(end * 1_000 - DAY_MS);
  assert.match(alerts().join(), /tls\.cert_file in 1 day$/);
  at(end * 1_000 + 2 * DAY_MS);
  assert.deepEqual(alerts(), ['CertificateExpired critical: certificates have ended: tls.cert_file 2 days ago']);
  writeFileSync(file, readFileSync(lastingDays(dir, 'next', 400)));
  await certificates.look();
  assert.deepEqual(alerts(), []);
  rmSync(file);
  await certificates.look();
  assert.deepEqual(certificates.ends, []);
});

test('a chain ends with its first, authorities with their last; what is no certificate is none', (t) => {
  const dir = temporaryDirectory(t);
  const early = readFileSync(lastingDays(dir, 'early', 3), 'utf8');
  const late = readFileSync(lastingDays(dir, 'late', 300), 'utf8');
  const both = `${late}\n${early}`;
  assert.equal(endOf(both, 'chain'), endOf(early, 'chain'));
  assert.equal(endOf(both, 'authorities'), endOf(late, 'chain'));
  assert.ok((endOf(late, 'chain') ?? 0) > (endOf(early, 'chain') ?? 0));
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  assert.equal(endOf(broken, 'chain'), undefined);
  assert.equal(endOf(broken + early, 'authorities'), endOf(early, 'chain'));
  assert.equal(endOf('', 'chain'), undefined);
});
