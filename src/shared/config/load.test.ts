import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, type TestContext, test } from 'node:test';
import { addToken } from '../auth/token-file.ts';
import { LinesideError } from '../base/errors.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { deviceIdOf, isDeviceId } from './device-id.ts';
import { describeConfig, describeCredentials, keyLine, type Loaded, load, loadTolerant, ownDeviceId } from './load.ts';
import { readPassword } from './start-checks.ts';

let dir = '';
beforeEach((t) => {
  dir = temporaryDirectory(t as TestContext);
});

function file(text: string): string {
  const path = join(dir, 'lineside.toml');
  writeFileSync(path, text);
  return path;
}
function invalid(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && error.code === 'CONFIG_INVALID' && pattern.test(error.message);
}

test('reads the named file, or the one LINESIDE_CONFIG names', () => {
  const path = file('[log]\ncommit_ms = 20');
  assert.equal(load(path, {}).config.log.commitMs, 20);
  assert.equal(load(undefined, { LINESIDE_CONFIG: path }).config.log.commitMs, 20);
});

test('a missing named file is a fault', () => {
  assert.throws(
    () => load(join(dir, 'none.toml'), {}),
    invalid(/^cannot read the configuration .*none.toml: there is no such file$/),
  );
});

test('a file that is no TOML is a fault with its place', () => {
  const path = file('[log]\ncommit_ms = = 1');
  assert.throws(() => load(path, {}), invalid(/lineside.toml:2:13: /));
});

test('throws every fault at once, with hints for the eye', () => {
  const path = file(
    '[log]\ncommit_ms = 1\n[grpc]\nlisten = ["0.0.0.0:1"]\n[tls]\ncert_file = "/none"\nkey_file = "/none2"',
  );
  const message =
    /4 faults\n {2}line 2: log.commit_ms: .*\n {2}line 6: tls.cert_file: cannot read.*\n {2}line 7: tls.key_file: .*\n {2}line 4: grpc.listen: .*credentials/;
  const env = { LINESIDE_AUTH_TOKENS_FILE: join(dir, 'tokens.json') };
  assert.throws(() => load(path, env, 'check'), invalid(message));
  // The service itself starts without a certificate: it serves this machine, and says so.
  const others = /2 faults\n {2}(?:line \d+: )?log.commit_ms: .*\n {2}(?:line \d+: )?grpc.listen: .*credentials/;
  assert.throws(() => load(path, env), invalid(others));
});

const described = (loaded: Loaded): string[] => describeConfig(loaded).map(keyLine);

test('describes every key with its value and where it is from', () => {
  const loaded = load(file('[serial]\nextra_ports = ["/dev/pts/1"]\nat_start = "resume"'), {
    LINESIDE_LOG_COMMIT_MS: '50',
  });
  const lines = described(loaded);
  const changed = describeConfig(loaded).filter(({ isDefault }) => !isDefault);
  assert.deepEqual(
    changed.map(({ path }) => path),
    ['serial.extra_ports', 'log.commit_ms'],
  );
  assert.ok(lines.includes('serial.extra_ports = ["/dev/pts/1"]  (from file)'));
  assert.ok(lines.includes('log.commit_ms = 50  (from environment)'));
  assert.ok(lines.includes('serial.rx_gap_ms = "auto"  (from default)'));
  assert.ok(lines.includes('grpc.listen = ["127.0.0.1:50051", "unix:/run/lineside/grpc.sock"]  (from default)'));
});

const kafka = '[kafka]\nsecurity_protocol = "sasl_ssl"\nusername = "u"\n';

test("the password of the broker must be there and not empty, but not for the line's process", () => {
  const password = join(dir, 'password');
  const path = file(`${kafka}password_file = "${password}"`);
  assert.throws(() => load(path, {}), invalid(/ {2}(?:line \d+: )?kafka.password_file: cannot read/));
  writeFileSync(password, '\n');
  assert.throws(() => load(path, {}, 'hub'), invalid(/ {2}(?:line \d+: )?kafka.password_file: .*password is empty/));
  load(path, {}, 'line');
  load(path, {}, 'locate');
  writeFileSync(password, ' s3cret \r\n');
  assert.equal(readPassword(load(path, {}).config.kafka.passwordFile), ' s3cret ', 'spaces are the password');
  writeFileSync(path, `${kafka}password_file = "${dir}"`);
  assert.throws(() => load(path, {}), invalid(/kafka.password_file: cannot read .*: it is a directory/));
});

test("the authorities of subscribers must be there, but not for the line's process", () => {
  const path = file('[webhooks]\nca_file = "/none"');
  assert.throws(() => load(path, {}, 'hub'), invalid(/a fault\n {2}(?:line \d+: )?webhooks.ca_file: cannot read/));
  load(path, {}, 'line');
  load(path, {}, 'locate');
});

test('the key of the secrets is shown where it is', () => {
  const loaded = load(file('[data]\ndir = "/srv/box"'), {}, 'locate');
  assert.ok(described(loaded).includes('webhooks.key_file = "/srv/box/webhooks.key"  (from default)'));
  assert.ok(described(loaded).some((line) => line.startsWith('webhooks.schedule_s = [0, 30, 120, 600, ')));
});

test('each process judges its own addresses', () => {
  const path = file('[http]\nlisten = ["0.0.0.0:1"]\n[grpc]\nlisten = ["0.0.0.0:2"]');
  const env = { LINESIDE_AUTH_TOKENS_FILE: join(dir, 'tokens.json') };
  assert.throws(() => load(path, env, 'line'), invalid(/2 faults\n {2}(?:line \d+: )?grpc.*\n {2}(?:line \d+: )?grpc/));
  assert.throws(() => load(path, env, 'hub'), invalid(/2 faults\n {2}(?:line \d+: )?http.*\n {2}(?:line \d+: )?http/));
  assert.throws(() => load(path, env), invalid(/4 faults/));
  load(path, env, 'locate');
});

test('the box has the name it was given, or one that does not reveal the machine id', () => {
  assert.equal(load(file('[device]\nid = "gate-7"'), {}).config.device.id, 'gate-7');
  const made = load(file(''), {});
  assert.notEqual(made.config.device.id, '');
  assert.ok(described(made).includes(`device.id = "${made.config.device.id}"  (from default)`));
  const machineId = '0123456789abcdef0123456789abcdef';
  const id = deviceIdOf(`${machineId}\n`, 'box');
  assert.match(id, /^lineside-[0-9a-f]{16}$/);
  assert.ok(!machineId.includes(id.slice(-16)));
  assert.equal(deviceIdOf(machineId, 'other'), id);
  assert.notEqual(deviceIdOf(machineId.replace('0', '1'), 'box'), id);
  assert.equal(deviceIdOf('uninitialized\n', 'box_1.lan'), 'box_1.lan');
  assert.equal(deviceIdOf('', '-a b'), 'a-b');
  assert.equal(deviceIdOf('', '(none)'), 'none-');
  assert.equal(deviceIdOf('', ''), 'lineside');
});

test('an id of a box has 1 to 128 plain characters, the first a letter or a digit', () => {
  const ids = ['a', '7', 'box-1_2.lan', 'x'.repeat(128)];
  const others = ['', '-a', '.a', '_a', 'a b', 'a/b', 'a\n', 'ä', 'x'.repeat(129)];
  assert.deepEqual([...ids, ...others].filter(isDeviceId), ids);
});

test("the box's identity names it, and what is no identity does not", () => {
  const identity = join(dir, 'identity.json');
  const derived = ownDeviceId(identity);
  writeFileSync(identity, JSON.stringify({ deviceId: 'lineside-0123456789abcdef' }));
  assert.equal(ownDeviceId(identity), 'lineside-0123456789abcdef');
  for (const damaged of ['', '{"deviceId":', '{"deviceId": 7}', '{"deviceId": "a b\\n"}', '[]', 'null']) {
    writeFileSync(identity, damaged);
    assert.equal(ownDeviceId(identity), derived, damaged);
  }
});

const lan = { kind: 'tcp', host: '::', port: 50_051, loopback: false, fd: 4 } as const;

test('sockets that were handed over replace the addresses of the file, also for what they expose', () => {
  const env = { LINESIDE_AUTH_TOKENS_FILE: join(dir, 'tokens.json') };
  const unix = { kind: 'unix', path: '/run/a.sock', fd: 3 } as const;
  const path = file('[grpc]\nlisten = ["0.0.0.0:1"]');
  const loaded = load(path, env, 'line', { grpc: [unix] });
  assert.deepEqual(loaded.config.grpc.listen, [unix]);
  assert.deepEqual(loaded.unused, ['grpc.listen']);
  assert.deepEqual(load(file(''), env, 'line', { grpc: [unix] }).unused, [], 'a default is nothing to speak of');
  assert.deepEqual(load(file(''), { ...env, LINESIDE_GRPC_LISTEN: 'unix:b' }, 'line', { grpc: [unix] }).unused, [
    'grpc.listen',
  ]);
});

test('a socket of systemd on which no client can be served does not keep a box from logging', () => {
  const unix = { kind: 'unix', path: '/run/a.sock', fd: 3 } as const;
  const env = { LINESIDE_AUTH_TOKENS_FILE: join(dir, 'none.json') };
  const loaded = load(file(''), env, 'line', { grpc: [unix, lan] });
  assert.deepEqual(loaded.config.grpc.listen, [unix]);
  assert.deepEqual(loaded.unserved, ['[::]:50051: tls.cert_file is not set']);
  const missing = file('[tls]\ncert_file = "/nowhere.crt"\nkey_file = "/nowhere.key"');
  assert.deepEqual(load(missing, env, 'line', { grpc: [lan] }).unserved, [], 'its handshakes fail until a reload');
  for (const name of ['a.crt', 'a.key']) writeFileSync(join(dir, name), '');
  const whole = file(`[tls]\ncert_file = "${join(dir, 'a.crt')}"\nkey_file = "${join(dir, 'a.key')}"`);
  // Without a token every caller is refused there, until one is added.
  const served = load(whole, env, 'line', { grpc: [lan] });
  assert.deepEqual([served.config.grpc.listen, served.unserved], [[lan], []]);
});

test('a credential is the file that systemd put into its directory', () => {
  const path = file(
    `${kafka}password_file = "credential:kafka.password"\n[webhooks]\nkey_file = "credential:webhooks.key"`,
  );
  const env = { CREDENTIALS_DIRECTORY: dir };
  assert.throws(
    () => load(path, env, 'hub'),
    invalid(
      / {2}(?:line \d+: )?kafka.password_file: cannot read.*no credential "kafka.password": .*restart the service\)\n {2}(?:line \d+: )?webhooks.key_file: cannot/,
    ),
  );
  writeFileSync(join(dir, 'lineside_kafka.password'), 's3cret\n');
  writeFileSync(join(dir, 'lineside_webhooks.key'), '');
  const { config } = load(path, env, 'hub');
  assert.equal(readPassword(config.kafka.passwordFile), 's3cret');
  assert.equal(config.webhooks.keyFile, join(dir, 'lineside_webhooks.key'));
});

test('without systemd a credential is a fault to the service, and none to who only checks the file', () => {
  const path = file(
    `${kafka}password_file = "credential:p"\nca_file = "credential:c"\n[webhooks]\nkey_file = "credential:k"`,
  );
  const faults = /3 faults\n {2}(?:line \d+: )?kafka.ca_file: credential:c is handed over by systemd, and was not/;
  assert.throws(() => load(path, {}, 'hub'), invalid(faults));
  assert.throws(() => load(path, {}), invalid(faults));
  assert.ok(described(load(path, {}, 'check')).includes('kafka.password_file = "credential:p"  (from file)'));
  assert.deepEqual(describeCredentials(load(path, {}, 'check')), [
    'kafka.password_file = "credential:p" is handed over by systemd when the service starts',
    'kafka.ca_file = "credential:c" is handed over by systemd when the service starts',
    'webhooks.key_file = "credential:k" is handed over by systemd when the service starts',
  ]);
  load(path, {}, 'line');
  load(path, {}, 'locate');
});

test('a credential has a plain name, and only keys that name files take one', () => {
  for (const name of ['', '../shadow', 'a/b', '.hidden', 'a b', 'a:b']) {
    assert.throws(
      () => load(file(`[tls]\ncert_file = "/c"\nkey_file = "credential:${name}"`), {}, 'locate'),
      invalid(/tls.key_file: must be an absolute path or "credential:NAME"/),
      name,
    );
  }
  assert.throws(
    () => load(file('[data]\ndir = "credential:x"'), {}, 'locate'),
    invalid(/data.dir: must be an absolute path/),
  );
  assert.throws(
    () => load(file('[auth]\ntokens_file = "credential:x"'), {}, 'locate'),
    invalid(/auth.tokens_file: must be/),
  );
});

test('a certificate that is not there is a fault to who checks, if an address needs it, and stops no process', () => {
  const tls = '[tls]\ncert_file = "/none/server.crt"\nkey_file = "/none/server.key"\n';
  const tokens = join(dir, 'tokens.json');
  addToken(tokens, 'laptop', ['operator', 'reader'], new Date());
  const env = { LINESIDE_AUTH_TOKENS_FILE: tokens };
  const purposes = ['serve', 'line', 'hub', 'locate'] as const;
  for (const purpose of [...purposes, 'check'] as const) load(file(tls), env, purpose);
  const needed =
    /2 faults\n {2}(?:line \d+: )?tls.cert_file: cannot read.*\n {2}(?:line \d+: )?tls.key_file: cannot read/;
  for (const section of ['grpc', 'http']) {
    const exposed = `${tls}[${section}]\nlisten = ["0.0.0.0:1"]`;
    assert.throws(() => load(file(exposed), env, 'check'), invalid(needed));
    for (const purpose of purposes) load(file(exposed), env, purpose);
  }
});

for (const [name, text, warning] of [
  ['an unknown key', '[kafka]\nbrokers = "x"\n', / {2}(?:line \d+: )?kafka\.brokers: no such key/],
  ['a bad value', '[log]\ncommit_ms = -1\n', / {2}(?:line \d+: )?log\.commit_ms: /],
  ['a string without its end', '[device]\nid = "box\n', / {2}line 4: /],
  ['a line that is no TOML', 'this is no TOML\n', / {2}line 3: /],
  ['a broken header', '[http\nmax_connections = 5\ntokens_file = "/x"\n[auth]\n', / {2}line 3: /],
  ['a key twice', '[log]\ncommit_ms = 10\ncommit_ms = 10\n', / {2}line 5: /],
] as const) {
  test(`a command finds its way beside ${name}, and warns`, () => {
    const own = '[data]\ndir = "/d"\n';
    const more = '[grpc]\nlisten = ["unix:/run/x.sock"]\n';
    const found = loadTolerant(file(`${own}${text}${more}`), {}, ['data.dir', 'grpc.listen']);
    assert.equal(found.config.data.dir, '/d');
    assert.deepEqual(found.config.grpc.listen, [{ kind: 'unix', path: '/run/x.sock' }]);
    assert.match(found.warning, warning);
  });
}

for (const [name, text] of [
  ['has a bad value', '[auth]\ntokens_file = 7\n'],
  ['cannot be read', '[auth]\ntokens_file = "/etc\n'],
  ['is in a table that cannot be read', '[auth\ntokens_file = "/t"\n'],
  ['is in something that is no table', 'auth = 7\n'],
] as const) {
  test(`a key that a command needs and that ${name} is a fault, unless the environment has it`, () => {
    const path = file(text);
    assert.throws(() => loadTolerant(path, {}, ['auth.tokens_file']), invalid(/: a fault/));
    const env = { LINESIDE_AUTH_TOKENS_FILE: '/t' };
    assert.equal(loadTolerant(path, env, ['auth.tokens_file']).config.auth.tokensFile, '/t');
    assert.equal(loadTolerant(path, {}, ['data.dir']).config.data.dir, '/var/lib/lineside');
  });
}

test('a line that cannot be read is not shown: it may hold a secret', () => {
  const { warning } = loadTolerant(file('[kafka]\npassword = geheim"\n'), {}, ['data.dir']);
  assert.match(warning, /line 2: /);
  assert.doesNotMatch(warning, /geheim/);
});
