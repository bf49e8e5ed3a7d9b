import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { addToken, revokeToken } from '../../shared/auth/token-file.ts';
import { digestOf, listTokens } from '../../shared/auth/tokens.ts';
import { etcEntries } from '../backup/backup-archive.ts';
import { identityFiles, identityIn, newTrial, PACKAGED, type Trial } from './box.fixture.ts';
import { applySetup } from './setup.ts';
import { wirelessKey } from './setup-plan.ts';

const PSK = 'correct horse "battery" #9';
const TOKEN = `lsd_${'a1_-'.repeat(11).slice(0, 43)}`;
const KEY = `ssh-ed25519 ${Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.alloc(36, 7)]).toString('base64')} me@laptop`;
const WHOLE = `[box]
hostname = "pump-house-3"
time_servers = ["192.168.10.1", "ntp.example"]
[network]
method = "static"
address = "192.168.10.20/24"
gateway = "192.168.10.1"
dns = ["192.168.10.1"]
[network.wifi]
ssid = "site 7"
psk = '${PSK}'
country = "DE"
[ssh]
keys = ["${KEY}"]
[[token]]
name = "ops"
roles = ["operator", "reader"]
token = "${TOKEN}"
[secrets]
kafka.password = "hunter2hunter2"
`;

let trial: Trial;
beforeEach(() => {
  trial = newTrial();
});
afterEach(() => trial[Symbol.dispose]());

const tokens = (of = trial) => listTokens(of.box.path('/etc/lineside/tokens.json'));
const errors = (): string => trial.card('setup-errors.txt');
const mode = (path: string): string => (statSync(trial.box.path(path)).mode & 0o777).toString(8);

function applied(): void {
  assert.deepEqual(applySetup(trial), []);
  assert.equal(errors(), '');
}

test('a card without files makes a box with an identity, DHCP, no SSH, and a claim token', () => {
  applied();
  const { names, caFingerprint } = identityIn(trial);
  assert.deepEqual(names, ['lineside-1a2b3c', 'lineside-1a2b3c.local', 'localhost', '127.0.0.1', '::1']);
  assert.deepEqual([tokens().length, tokens()[0]?.name, tokens()[0]?.roles.length], [1, 'claim', 7]);
  const claim = /lsd_[A-Za-z0-9_-]{43}/.exec(trial.card('claim.txt'))?.[0] ?? '';
  const issue = trial.box.text('/run/lineside-console/issue') ?? '';
  assert.ok(
    issue.includes(claim) && issue.includes('@ADDRESSES@') && issue.split('\n').every((line) => line.length < 80),
  );
  assert.ok(trial.card('claim.txt').includes(caFingerprint));
  assert.ok(!trial.logged.join().includes(claim));
  assert.deepEqual([mode('/run/lineside-console/issue'), mode('/etc/lineside/tokens.json')], ['600', '640']);
  for (const absent of ['systemd/network/10-lineside.network', 'ssh/lineside/authorized_keys'])
    assert.equal(trial.etc(absent), '');
});

test('nothing is shared between two cards flashed from one image', () => {
  using other = newTrial();
  for (const one of [trial, other]) applySetup(one);
  for (const file of [...identityFiles, 'tokens.json', 'setup/claim']) {
    assert.notEqual(trial.etc(`lineside/${file}`), '', file);
    assert.notEqual(trial.etc(`lineside/${file}`), other.etc(`lineside/${file}`), file);
  }
  const [mine, theirs] = [identityIn(trial), identityIn(other)];
  assert.notEqual(mine.deviceId, theirs.deviceId);
  assert.notEqual(mine.caFingerprint, theirs.caFingerprint);
});

test('every part of setup.toml goes in its place, and the secrets leave the card', () => {
  trial.put('setup.toml', WHOLE);
  trial.put(
    'lineside.toml',
    `${PACKAGED}[kafka]\nbootstrap = "b:9092"\nsecurity = "sasl_ssl"\nsasl_username = "u"\npassword_file = "credential:kafka.password"\n`.replace(
      /security.*\nsasl_username.*\n/,
      '',
    ),
  );
  applied();
  assert.equal(trial.etc('hostname'), 'pump-house-3\n');
  assert.match(trial.etc('systemd/timesyncd.conf.d/10-lineside.conf'), /^NTP=192\.168\.10\.1 ntp\.example$/m);
  const network = trial.etc('systemd/network/10-lineside-wifi.network');
  for (const line of [
    'Name=wlan*',
    'Address=192.168.10.20/24',
    'Gateway=192.168.10.1',
    'DNS=192.168.10.1',
    'DHCP=no',
  ]) {
    assert.ok(network.split('\n').includes(line), line);
  }
  const wpa = trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf');
  assert.ok(
    wpa.includes(`\n  ssid=736974652037\n`) &&
      wpa.includes(`\n  psk=${wirelessKey(PSK, 'site 7')}\n`) &&
      !wpa.includes(PSK) &&
      wpa.includes('\ncountry=DE\n'),
  );
  assert.equal(trial.etc('ssh/lineside/authorized_keys'), `${KEY}\n`);
  assert.equal(trial.etc('lineside/secrets/hub/kafka.password'), 'hunter2hunter2');
  assert.match(trial.etc('lineside/lineside.toml'), /credential:kafka\.password/);
  assert.deepEqual(
    tokens().map(({ name, roles }) => [name, roles.length]),
    [
      ['ops', 2],
      ['claim', 7],
    ],
  );
  const { names } = identityIn(trial);
  assert.ok(names.includes('pump-house-3.local') && names.includes('192.168.10.20'));
  const secretPlaces = [
    'wpa_supplicant/wpa_supplicant-wlan0.conf',
    'lineside/secrets/hub/kafka.password',
    'lineside/ca/ca.key',
  ];
  for (const place of secretPlaces) assert.equal(mode(`/etc/${place}`), '600', place);

  const left = trial.card('setup.toml');
  assert.equal(left.length, WHOLE.length);
  for (const secret of [PSK, TOKEN, 'hunter2']) {
    assert.ok(!left.includes(secret));
    assert.ok(!trial.logged.join('\n').includes(secret));
  }
  assert.equal(left.match(/"\*"/g)?.length, 3);
  assert.deepEqual(readdirSync(join(trial.dir, 'root/etc/lineside/setup')).sort(), [
    'applied.json',
    'claim',
    'claim-on-card',
    'issue',
  ]);
});

test('an unchanged file is not applied again; a changed one is, and keeps what was taken', () => {
  trial.put('setup.toml', WHOLE);
  trial.put('lineside.toml', PACKAGED);
  applied();
  revokeToken(trial.box.path('/etc/lineside/tokens.json'), 'ops');
  trial.logged.length = 0;
  applied();
  assert.deepEqual(trial.logged, []);
  trial.put('setup.toml', trial.card('setup.toml').replace('pump-house-3', 'pump-house-4'));
  applied();
  assert.equal(trial.etc('hostname'), 'pump-house-4\n');
  assert.ok(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf').includes(wirelessKey(PSK, 'site 7')));
  assert.equal(trial.etc('lineside/secrets/hub/kafka.password'), 'hunter2hunter2');
  assert.deepEqual(
    tokens().map(({ name }) => name),
    ['claim'],
    'what was revoked on the box stays so',
  );
  assert.ok(identityIn(trial).names.includes('pump-house-4.local'), 'the certificate has the new name');
});

test('a token given by its hash and revoked on the box stays so, whatever else in the file is changed', () => {
  const wish = `[[token]]\nname = "ops"\nroles = ["operator"]\nhash = "${'5e'.repeat(32)}"\n`;
  const file = trial.box.path('/etc/lineside/tokens.json');
  const ops = () => tokens().filter(({ name }) => name === 'ops');
  trial.put('setup.toml', wish);
  applied();
  assert.equal(ops()[0]?.sha256, '5e'.repeat(32));
  trial.put('setup.toml', `${wish}[ssh]\nkeys = ["${KEY}"]\n`);
  applied();
  assert.equal(ops().length, 1, 'as long as it is not revoked');
  revokeToken(file, 'ops');
  trial.put('setup.toml', `[box]\nhostname = "pump-house-4"\n${wish}`);
  applied();
  assert.deepEqual(ops(), []);
  const made = digestOf(addToken(file, 'ops', ['viewer'], new Date(0))).toString('hex');
  trial.put('setup.toml', wish);
  applied();
  assert.deepEqual(
    ops().map(({ sha256, roles }) => [sha256, roles]),
    [[made, ['viewer']]],
  );
});

test('a file that is gone from the card changes nothing', () => {
  trial.put('setup.toml', WHOLE);
  applied();
  trial.disk.remove(join(trial.boot, 'setup.toml'));
  applied();
  assert.equal(trial.etc('hostname'), 'pump-house-3\n');
  assert.ok(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf').includes(wirelessKey(PSK, 'site 7')));
});

test('a faulty file is reported whole, with its lines and without its secrets, and nothing of either is applied', () => {
  trial.put('setup.toml', WHOLE);
  applied();
  const before = trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf');
  trial.put(
    'setup.toml',
    `[box]
hostnam = "x"
hostname = "Pump House"
[network]
method = "static"
address = "192.168.10.255/24"
gateway = "192.168.11.1"
[network.wifi]
ssid = "${'ü'.repeat(17)}"
psk = "short"
[ssh]
keys = ["-----BEGIN OPENSSH PRIVATE KEY-----"]
[[token]]
name = "ops"
roles = ["boss"]
token = "secret-one"
[secrets]
"tls.key" = "secret-two"
number = 5
[extra]
`,
  );
  trial.put('lineside.toml', '[log]\ncommit_ms = 1\n[kafka]\npassword_file = "credential:nothing"\n');
  const faults = applySetup(trial);
  const wanted: RegExp[] = [
    /^setup\.toml:2: box\.hostnam: no such key; did you mean box\.hostname\?$/,
    /^setup\.toml:3: box\.hostname: must be 1 to 63/,
    /^setup\.toml:6: network\.address: .*everyone/,
    /^setup\.toml:7: network\.gateway: .*not in the network/,
    /^setup\.toml:9: network\.wifi\.ssid: has 34 bytes/,
    /^setup\.toml:10: network\.wifi\.psk: must be 8 to 63/,
    /^setup\.toml:8: network\.wifi\.country: is missing/,
    /^setup\.toml:12: ssh\.keys\[0\]: is a PRIVATE key/,
    /^setup\.toml:15: token\[0\]\.roles: no such role: "boss"/,
    /^setup\.toml:16: token\[0\]\.token: must be "lsd_"/,
    /^setup\.toml:18: secrets\.tls\.key: is the key/,
    /^setup\.toml:19: secrets\.number: must be a string/,
    /^setup\.toml:20: extra: no such section/,
    /^lineside\.toml:2: log\.commit_ms: /,
    /^lineside\.toml:4: kafka\.password_file: the box has no secret "nothing"/,
    /^lineside\.toml: tls: is missing: .*server\.crt/,
  ];
  for (const pattern of wanted)
    assert.ok(
      faults.some((fault) => pattern.test(fault)),
      `${pattern} in\n${faults.join('\n')}`,
    );
  assert.equal(faults.length, wanted.length, faults.join('\n'));
  for (const fault of faults) assert.ok(errors().includes(`${fault}\r\n`), fault);
  for (const secret of ['short', 'secret-one', 'secret-two', 'BEGIN']) {
    assert.ok(!errors().includes(`"${secret}`) && !trial.logged.join('\n').includes(secret), secret);
  }
  assert.deepEqual([trial.etc('hostname'), trial.etc('lineside/lineside.toml')], ['pump-house-3\n', PACKAGED]);
  assert.equal(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf'), before);

  trial.put('setup.toml', '');
  trial.put('lineside.toml', `${PACKAGED}[log]\ncommit_ms = 20\n`);
  applied();
  assert.match(trial.etc('lineside/lineside.toml'), /commit_ms = 20/);
  assert.equal(
    trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf'),
    '',
    'what the file no longer says is no longer so',
  );
});

test('a box whose first card is faulty can be reached all the same', () => {
  trial.put('setup.toml', 'hostname = ');
  assert.match(applySetup(trial).join(), /^setup\.toml:1: /);
  identityIn(trial);
  const claim = trial.card('claim.txt');
  assert.match(claim, /lsd_/);
  trial.put('setup.toml', '[box]\nhostname = "b"\n');
  applied();
  assert.equal(trial.card('claim.txt'), claim, 'one claim token, however many tries');
  assert.equal(tokens().length, 1);
});

test('claim.txt goes once the claim token is revoked, by command or by setup.toml, and there is no second one', () => {
  applied();
  revokeToken(trial.box.path('/etc/lineside/tokens.json'), 'claim');
  applied();
  assert.deepEqual([trial.card('claim.txt'), trial.etc('lineside/setup/claim'), tokens().length], ['', '', 0]);
  assert.doesNotMatch(trial.box.text('/run/lineside-console/issue') ?? '', /lsd_/);

  using second = newTrial();
  second.put('setup.toml', '[[token]]\nname = "claim"\nrevoke = true\n');
  assert.match(
    applySetup(second).join(),
    /^setup\.toml:1: token\[0\]: no token of role viewer or operator would be left/,
  );
  second.put(
    'setup.toml',
    `[[token]]\nname = "claim"\nrevoke = true\n[[token]]\nname = "all"\nroles = ["operator", "admin"]\ntoken = "${TOKEN}"\n`,
  );
  assert.deepEqual(applySetup(second), []);
  assert.deepEqual([second.card('claim.txt'), tokens(second).map(({ name }) => name)], ['', ['all']]);
});

test('what a backup brings back counts: the set-up does not go over it, nor show a claim token that is none any more', () => {
  using other = newTrial();
  for (const one of [trial, other]) {
    one.put('lineside.toml', PACKAGED);
    one.put('setup.toml', '');
    assert.deepEqual(applySetup(one), []);
  }
  writeFileSync(other.box.path('/etc/lineside/lineside.toml'), `${PACKAGED}[log]\ncommit_ms = 77\n`);
  for (const { path, source, isDirectory } of etcEntries(other.box.path('/etc/lineside'))) {
    assert.doesNotMatch(path, /setup/);
    if (!isDirectory) copyFileSync(source, trial.box.path(`/${path.replace(/^etc/, 'etc/lineside')}`));
  }
  applied();
  assert.match(trial.etc('lineside/lineside.toml'), /commit_ms = 77/);
  assert.deepEqual(identityIn(trial), identityIn(other));
  assert.equal(trial.card('claim.txt'), '');
  assert.deepEqual(tokens(), tokens(other));
});

test('claim.txt that was removed from the card does not come back', () => {
  applied();
  trial.disk.remove(join(trial.boot, 'claim.txt'));
  trial.put('setup.toml', '[box]\nhostname = "b"\n');
  applied();
  assert.equal(trial.card('claim.txt'), '');
  assert.match(trial.box.text('/run/lineside-console/issue') ?? '', /lsd_/, 'the screen shows it still');
});

test("files of Windows' editors count: byte order mark, CRLF, any case", () => {
  trial.put('SETUP.TOML', `\uFEFF${WHOLE.replaceAll('\n', '\r\n')}`);
  trial.put('Lineside.toml', `\uFEFF${PACKAGED.replaceAll('\n', '\r\n')}[log]\r\ncommit_ms = 20\r\n`);
  applied();
  assert.equal(trial.etc('hostname'), 'pump-house-3\n');
  assert.ok(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf').includes(wirelessKey(PSK, 'site 7')));
  assert.equal(trial.etc('lineside/lineside.toml'), `${PACKAGED}[log]\ncommit_ms = 20\n`);
  assert.ok(!trial.card('SETUP.TOML').includes(TOKEN));
  assert.match(trial.card('SETUP.TOML'), /^\uFEFF\[box\]\r\n/);
  trial.logged.length = 0;
  applied();
  assert.deepEqual(trial.logged, []);
});

test('encodings and names that cannot count are named as the fault', () => {
  const refused = (name: string, text: string | Buffer, fault: RegExp): void => {
    trial.put(name, text);
    assert.match(applySetup(trial).join('\n'), fault);
    trial.disk.remove(join(trial.boot, name));
  };
  refused('setup.toml', Buffer.from(`\uFEFF${WHOLE}`, 'utf16le'), /^setup\.toml: is not UTF-8 but UTF-16/);
  refused(
    'setup.toml',
    Buffer.from('[box]\n[network.wifi]\nssid = "Büro"\n', 'latin1'),
    /^setup\.toml: line 3: .*not UTF-8/,
  );
  refused('setup.toml', '[box]\nhostname = “b”\n', /^setup\.toml:2: .*quotes must be straight/);
  refused('setup.toml.txt', '', /^setup\.toml: .*"setup\.toml\.txt".*without "\.txt"/);
  refused('lineside.toml', Buffer.alloc(300_000, '#'), /^lineside\.toml: has 300000 bytes/);
});

test('a file or a secret that lineside.toml names must be on the box, as the service would need it', () => {
  const upstream = 'to = "collector"\ncollector = "c.example:7000"\n';
  trial.put(
    'lineside.toml',
    `${PACKAGED}[upstream]\n${upstream}collector_ca_file = "/etc/lineside/site-ca.crt"\ncollector_token_file = "credential:collector"\n` +
      '[webhooks]\nkey_file = "credential:webhooks"\n',
  );
  assert.deepEqual(applySetup(trial), [
    'lineside.toml:7: upstream.collector_ca_file: there is no file /etc/lineside/site-ca.crt on the box',
    'lineside.toml:8: upstream.collector_token_file: the box has no secret "collector": give it one below [secrets] in setup.toml',
    'lineside.toml:10: webhooks.key_file: the box has no secret "webhooks": give it one below [secrets] in setup.toml',
  ]);
  writeFileSync(trial.box.path('/etc/lineside/site-ca.crt'), '');
  trial.put('setup.toml', '[secrets]\ncollector = "c"\nwebhooks = "w"\n');
  applied();
});

test('a secret that only another box has is asked for again', () => {
  trial.put('setup.toml', '[network.wifi]\nssid = "s"\ncountry = "DE"\npsk = "*"\n[secrets]\na = "*"\n');
  assert.deepEqual(
    applySetup(trial).map((fault) => fault.replace(/this box.*/, '...')),
    [
      'setup.toml:4: network.wifi.psk: was moved onto a box, and ...',
      'setup.toml:6: secrets.a: was moved onto a box, and ...',
    ],
  );
});

/** The next start of a box whose data partition cannot be used: the card as it is, in memory nothing but the image's files. */
function withDataLost(): Trial {
  const next = newTrial();
  for (const name of readdirSync(trial.boot)) copyFileSync(join(trial.boot, name), join(next.boot, name));
  return next;
}

test('without its data a box applies a card without secrets again: keys, tokens by hash, network, no claim token', () => {
  const secrets = /psk = .*\n|token = .*\n|\[secrets\][^]*/g;
  const hash = `hash = "${digestOf(TOKEN).toString('hex')}"\n`;
  const revoked = '[[token]]\nname = "claim"\nrevoke = true\n';
  trial.put('setup.toml', `${WHOLE.replace(/\[network\.wifi\][^[]*/, '').replaceAll(secrets, '')}${hash}${revoked}`);
  applied();
  using next = withDataLost();
  assert.deepEqual(applySetup(next), []);
  assert.equal(next.etc('ssh/lineside/authorized_keys').trim(), KEY);
  assert.match(next.etc('systemd/network/10-lineside.network'), /Address=192\.168\.10\.20\/24/);
  assert.deepEqual(
    tokens(next).map(({ name }) => name),
    ['ops'],
  );
  assert.equal(next.card('claim.txt'), '');
  assert.notEqual(identityIn(next).caFingerprint, identityIn(trial).caFingerprint);
});

test('without its data a box applies nothing of a card whose secrets were moved: DHCP, no keys, a claim token', () => {
  trial.put('setup.toml', WHOLE);
  applied();
  using next = withDataLost();
  assert.equal(applySetup(next).filter((fault) => /was moved onto a box/.test(fault)).length, 2);
  assert.deepEqual(
    [next.etc('ssh/lineside/authorized_keys'), next.etc('systemd/network/10-lineside.network')],
    ['', ''],
  );
  assert.deepEqual(
    tokens(next).map(({ name }) => name),
    ['claim'],
  );
  assert.notEqual(next.card('claim.txt'), trial.card('claim.txt'));
  assert.match(next.card('claim.txt'), /lsd_/);
});

test('without its data a box has no token that was moved off the card; if none is left, a claim token and nothing of the file', () => {
  const box = `[box]\nhostname = "b"\n[[token]]\nname = "ops"\nroles = ["operator", "reader"]\ntoken = "${TOKEN}"\n`;
  trial.put('setup.toml', box);
  applied();
  using next = withDataLost();
  using locked = withDataLost();
  assert.deepEqual(applySetup(next), []);
  assert.deepEqual([tokens(next).map(({ name }) => name), next.etc('hostname').trim()], [['claim'], 'b']);
  locked.put('setup.toml', `${trial.card('setup.toml')}[[token]]\nname = "claim"\nrevoke = true\n`);
  assert.match(applySetup(locked).join(), /no client could reach the box/);
  assert.deepEqual(
    [tokens(locked).map(({ name }) => name), locked.etc('hostname').trim()],
    [['claim'], 'lineside-1a2b3c'],
  );
});

test('a damaged identity is made whole by its authority; without one the box gets another, and says so', () => {
  applied();
  const before = identityIn(trial);
  trial.disk.remove(trial.box.path('/etc/lineside/secrets/line/tls.key'));
  applied();
  assert.equal(identityIn(trial).caFingerprint, before.caFingerprint);
  trial.disk.remove(trial.box.path('/etc/lineside/ca/ca.key'));
  trial.logged.length = 0;
  applied();
  const again = identityIn(trial);
  assert.notEqual(again.caFingerprint, before.caFingerprint);
  assert.equal(again.deviceId, before.deviceId);
  assert.match(trial.logged.join('\n'), /damaged .*trusted again/);
});
