import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { realDisk } from '../disk.ts';
import { identityFiles, identityIn, newTrial, type Trial } from '../setup/box.fixture.ts';
import { commit } from '../transaction.ts';
import {
  avahiService,
  findIdentity,
  fingerprintOf,
  type Identity,
  needsRenewal,
  planIdentity,
  wantedNames,
} from './identity.ts';

const NOW_MS = 1_800_000_000_000;
const YEAR_MS = 365 * 86_400_000;
const names = wantedNames('box-7', ['192.168.10.20', 'fd00::7']);

let trial: Trial;
beforeEach(() => {
  trial = newTrial();
  commit(trial.box, realDisk, planIdentity(trial.box, names, NOW_MS).changes);
});
afterEach(() => trial[Symbol.dispose]());

const file = (place: string): string => trial.box.text(`/etc/lineside/${place}`) ?? '';
const whole = (): Identity => identityIn(trial);

test('the certificates are good at whatever date the box believes it is, for what they are for and nothing else', () => {
  const verify = (epochS: number, ...more: string[]): string => {
    const ca = trial.box.path('/etc/lineside/tls/ca.crt');
    const args = ['verify', '-x509_strict', '-CAfile', ca, '-attime', `${epochS}`, ...more];
    return execFileSync('openssl', [...args, trial.box.path('/etc/lineside/tls/server.crt')], { encoding: 'utf8' });
  };
  for (const year of [2020, 2024, 2030, 2036]) {
    const epochS = Math.floor((year - 1970) * 365.25 * 86_400);
    assert.match(verify(epochS, '-purpose', 'sslserver', '-verify_hostname', 'box-7.local'), /OK/);
  }
  for (const ip of ['192.168.10.20', '::1', 'fd00::7']) assert.match(verify(NOW_MS / 1000, '-verify_ip', ip), /OK/);
  assert.throws(() => verify(NOW_MS / 1000, '-verify_hostname', 'box-8'));
  assert.throws(() => verify(NOW_MS / 1000, '-purpose', 'sslclient'));
  const [leaf, ca] = [new X509Certificate(file('tls/server.crt')), new X509Certificate(file('tls/ca.crt'))];
  assert.deepEqual([leaf.ca, ca.ca], [false, true]);
  assert.equal(
    file('tls/server.crt').match(/BEGIN CERTIFICATE/g)?.length,
    2,
    'the chain: the leaf, then the authority',
  );
  assert.equal(ca.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
  assert.deepEqual(whole().names, names);
});

test('a client that knows the fingerprint alone can pin the authority of a real connection', async () => {
  const server = createServer({ cert: file('tls/server.crt'), key: file('secrets/line/tls.key') }, (socket) =>
    socket.end(),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  try {
    const socket = connect({ port: address.port, host: '127.0.0.1', ca: file('tls/ca.crt') });
    await once(socket, 'secureConnect');
    const issuer = socket.getPeerCertificate(true).issuerCertificate;
    assert.equal(issuer.fingerprint256, whole().caFingerprint);
    assert.equal(whole().caFingerprint, fingerprintOf(file('tls/ca.crt')));
    socket.destroy();
  } finally {
    server.close();
  }
});

test('renewal keeps the authority, its fingerprint and the name, and changes the server key', () => {
  const [before, key] = [whole(), file('secrets/hub/tls.key')];
  commit(trial.box, realDisk, planIdentity(trial.box, wantedNames('box-8'), NOW_MS, before.authority).changes);
  const after = whole();
  assert.equal(after.caFingerprint, before.caFingerprint);
  assert.equal(after.deviceId, before.deviceId);
  assert.notEqual(after.serverFingerprint, before.serverFingerprint);
  assert.notEqual(file('secrets/hub/tls.key'), key);
  assert.equal(file('secrets/hub/tls.key'), file('secrets/line/tls.key'));
});

test('the box announces its name in events and the fingerprint to compare, also to an Avahi that comes later', () => {
  const place = '/etc/avahi/services';
  const { file, changes } = planIdentity(trial.box, names, NOW_MS);
  commit(trial.box, realDisk, changes);
  const announced = trial.box.text(`${place}/lineside.service`) ?? '';
  assert.ok(announced.includes(`id=${file.deviceId}<`), announced);
  assert.ok(announced.includes(`fp=${file.caFingerprint.replaceAll(':', '').toLowerCase()}<`), announced);
});

test('another name or two years left ask for renewal, a clock that was never set does not', () => {
  const identity = whole();
  assert.equal(needsRenewal(identity, names, NOW_MS), false);
  assert.equal(needsRenewal(identity, names, 0), false);
  assert.equal(needsRenewal(identity, wantedNames('box-8'), NOW_MS), true);
  assert.equal(needsRenewal(identity, names, NOW_MS + 7 * YEAR_MS), false);
  assert.equal(needsRenewal(identity, names, NOW_MS + 9 * YEAR_MS), true);
});

test('parts that do not belong together are distinguished from a whole identity', () => {
  using other = newTrial();
  commit(other.box, realDisk, planIdentity(other.box, names, NOW_MS).changes);
  for (const place of identityFiles) {
    const own = file(place);
    for (const wrong of [other.box.text(`/etc/lineside/${place}`) ?? '', own.slice(0, own.length / 2), '']) {
      writeFileSync(trial.box.path(`/etc/lineside/${place}`), wrong);
      const found = findIdentity(trial.box);
      assert.equal(found.kind, 'damaged', place);
      const keepsAuthority = place !== 'tls/ca.crt' && place !== 'ca/ca.key';
      assert.equal(found.kind === 'damaged' && found.authority !== undefined, keepsAuthority, place);
    }
    writeFileSync(trial.box.path(`/etc/lineside/${place}`), own);
  }
  whole();
});

function records(xml: string): string[] {
  return [...xml.matchAll(/<txt-record>(.*)<\/txt-record>/g)].map((match) => match[1] ?? '');
}

test("the package's record is that of a box without an identity", () => {
  const packaged = readFileSync(new URL('../../../systemd/avahi/lineside.service', import.meta.url), 'utf8');
  assert.equal(packaged, avahiService({}));
  assert.deepEqual(records(packaged), ['http=8443']);
});
