import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'smol-toml';
import type { Role } from '../auth/tokens.ts';
import { configSchema, keys, variableOf } from './config.ts';
import { exposureFaults } from './exposure.ts';
import { isLoopback, parseListen, showListen } from './listen.ts';
import { type Environment, parseConfig } from './parse.ts';

const example = readFileSync(new URL('../../../systemd/lineside.toml', import.meta.url), 'utf8');
const uncommented = example.replaceAll(/^#(?=[a-z_]+ = )/gm, '');

function config(toml: string, env: Environment = {}) {
  return parseConfig(parse(toml), env);
}
function faults(toml: string, env: Environment = {}): string[] {
  return config(toml, env).faults.map(({ path, message }) => `${path}: ${message}`);
}

test('an empty file and environment give the defaults, as the code reads them', () => {
  const { config: got, faults: found, warnings } = config('');
  assert.deepEqual([found, warnings], [[], []]);
  assert.deepEqual(got.grpc.listen, [
    { kind: 'tcp', host: '127.0.0.1', port: 50_051, loopback: true },
    { kind: 'unix', path: '/run/lineside/grpc.sock' },
  ]);
  const { port, baudRate, parity, stopBits } = got.serial.line;
  assert.deepEqual([port, baudRate, parity, stopBits], ['', 115_200, 'none', '1']);
  assert.equal(got.serial.rxGapMs, undefined);
  assert.equal(got.webhooks.keyFile, '/var/lib/lineside/webhooks.key');
  assert.deepEqual(got.tls, { certFile: '', keyFile: '', clientCaFile: '' });
});

test('an old name of a key is accepted, with a warning that names the new one', () => {
  const inFile = config('[outbox]\ndrain_ms = 7');
  assert.deepEqual([inFile.faults, inFile.config.outbox.stopGraceMs], [[], 7]);
  assert.deepEqual(inFile.warnings, [
    'outbox.drain_ms is the old name of outbox.stop_grace_ms: write outbox.stop_grace_ms',
  ]);
  const inEnv = config('[outbox]\nstop_grace_ms = 7', { LINESIDE_OUTBOX_DRAIN_MS: '8' });
  assert.deepEqual([inEnv.faults, inEnv.config.outbox.stopGraceMs], [[], 8]);
  assert.match(inEnv.warnings.join(), /^LINESIDE_OUTBOX_DRAIN_MS is the old name of LINESIDE_OUTBOX_STOP_GRACE_MS:/);
  const both = config('[outbox]\ndrain_ms = 7\nstop_grace_ms = 9');
  assert.deepEqual([both.config.outbox.stopGraceMs, both.warnings.length], [9, 1], 'the new name overrides');
});

test('the file overrides the default, the environment overrides the file', () => {
  const file = '[serial]\nrx_buffer_bytes = 8192\nsimulate = true\n[serial.line]\nport = "/dev/ttyS1"\nstop_bits = 2';
  const { config: got, settings } = config(file, { LINESIDE_SERIAL_RX_BUFFER_BYTES: '16384' });
  assert.equal(got.serial.rxBufferBytes, 16_384);
  assert.equal(got.serial.simulate, true);
  assert.deepEqual(got.serial.line, {
    port: '/dev/ttyS1',
    baudRate: 115_200,
    dataBits: 8,
    parity: 'none',
    stopBits: '2',
    flowControl: 'none',
    packetSize: 0,
  });
  assert.equal(settings.get('serial.rx_buffer_bytes')?.source, 'environment');
  assert.equal(settings.get('serial.simulate')?.source, 'file');
  assert.equal(settings.get('log.commit_ms')?.source, 'default');
});

test('every kind of key can come from the environment', () => {
  const { config: got, faults: found } = config('', {
    LINESIDE_SERIAL_EXTRA_PORTS: '/dev/pts/1, /tmp/line*',
    LINESIDE_SERIAL_SIMULATE: 'true',
    LINESIDE_SERIAL_RX_GAP_MS: '0',
    LINESIDE_SERIAL_LINE_PORT: '/dev/ttyS0',
    LINESIDE_SERIAL_LINE_PARITY: 'mark',
    LINESIDE_GRPC_LISTEN: '[::1]:1234,unix:/tmp/x.sock',
    LINESIDE_WEBHOOKS_SCHEDULE_S: '0, 5,60',
    LINESIDE_WEBHOOKS_ALLOW_PORTS: '443,8443',
    LINESIDE_WEBHOOKS_ALLOW_CIDRS: '192.168.7.0/24,fd00::/8',
    LINESIDE_HOST: 'box',
    LINESIDE_CONFIG: '/x',
    STATE_DIRECTORY: '/var/lib/a:/var/lib/b',
    RUNTIME_DIRECTORY: '/run/b',
  });
  assert.deepEqual(found, []);
  assert.deepEqual(got.serial.extraPorts, ['/dev/pts/1', '/tmp/line*']);
  assert.deepEqual([got.serial.simulate, got.serial.rxGapMs, got.serial.line.parity], [true, 0, 'mark']);
  assert.deepEqual(got.data, { dir: '/var/lib/a', runtimeDir: '/run/b' });
  assert.deepEqual(got.grpc.listen, [
    { kind: 'tcp', host: '::1', port: 1234, loopback: true },
    { kind: 'unix', path: '/tmp/x.sock' },
  ]);
  const { scheduleS, allowPorts, allowCidrs, keyFile } = got.webhooks;
  assert.deepEqual(
    [scheduleS, allowPorts],
    [
      [0, 5, 60],
      [443, 8_443],
    ],
  );
  assert.deepEqual([allowCidrs, keyFile], [['192.168.7.0/24', 'fd00::/8'], '/var/lib/a/webhooks.key']);
});

test('lists of numbers are held to their length and each to its limits', () => {
  for (const [toml, fault] of [
    ['schedule_s = 30', 'schedule_s: must be a list of numbers, not 30'],
    ['schedule_s = []', 'schedule_s: must hold 1 to 100 numbers, not 0'],
    [`schedule_s = [${'1,'.repeat(101)}]`, 'schedule_s: must hold 1 to 100 numbers, not 101'],
    ['schedule_s = [0, 604801]', 'schedule_s: each must be a whole number from 0 to 604800, not 604801'],
    ['schedule_s = [0, -1]', 'schedule_s: each must be a whole number from 0 to 604800, not -1'],
    ['schedule_s = [0.5]', 'schedule_s: each must be a whole number from 0 to 604800, not 0.5'],
    ['schedule_s = ["5"]', 'schedule_s: each must be a whole number from 0 to 604800, not "5"'],
    ['allow_ports = [0]', 'allow_ports: each must be a whole number from 1 to 65535, not 0'],
  ]) {
    assert.deepEqual(faults(`[webhooks]\n${toml}`), [`webhooks.${fault}`]);
  }
  assert.deepEqual(faults('', { LINESIDE_WEBHOOKS_SCHEDULE_S: '0,soon' }), [
    'LINESIDE_WEBHOOKS_SCHEDULE_S: each must be a whole number from 0 to 604800, not "soon" (webhooks.schedule_s)',
  ]);
  assert.deepEqual(config('[webhooks]\nallow_ports = []').config.webhooks.allowPorts, []);
});

test('every range that is none is named', () => {
  assert.deepEqual(faults('[webhooks]\nallow_cidrs = ["10.0.0.0/8", "10.0.0.1/8", "lan", "::/0"]'), [
    'webhooks.allow_cidrs: "10.0.0.1/8" names an address inside the range: write "10.0.0.0/8"',
    'webhooks.allow_cidrs: "lan" is no range: write an address and a length, "192.168.7.0/24" or "fd00::/8"',
  ]);
});

test('all faults are named at once, each with its path', () => {
  const file = `
    top = 1
    [serial]
    rx_buffer_byts = 1
    simulate = "yes"
    rx_gap_ms = 1001
    line = 5
    [log]
    commit_ms = 9.5
    max_bytes = 1048575
    [grcp]
    listen = []
    [auth]
    tokens_file = "tokens.json"
    viewer_certs = [1]`;
  const env = { LINESIDE_SERIAL_SIMULTE: '1', LINESIDE_GRPC_INSECURE: 'true', LINESIDE_GRPC_KEEPALIVE_S: 'x' };
  assert.deepEqual(faults(file, env), [
    'top: no such key',
    'serial.rx_buffer_byts: no such key; did you mean serial.rx_buffer_bytes?',
    'serial.line: is a section: write [serial.line]',
    'grcp: no such section; did you mean grpc?',
    'LINESIDE_SERIAL_SIMULTE: no such variable; did you mean LINESIDE_SERIAL_SIMULATE?',
    'serial.simulate: must be true or false, not "yes"',
    'serial.rx_gap_ms: must be a whole number from 0 to 1000, or "auto", not 1001',
    'log.commit_ms: must be a whole number from 10 to 60000, not 9.5',
    'log.max_bytes: must be a whole number from 1048576 to 1099511627776, not 1048575',
    'LINESIDE_GRPC_INSECURE: can only be set in the file (grpc.insecure)',
    'LINESIDE_GRPC_KEEPALIVE_S: must be a whole number from 1 to 3600, not "x" (grpc.keepalive_s)',
    'auth.tokens_file: must be an absolute path, not "tokens.json"',
    'auth.viewer_certs: must hold strings only, not 1',
  ]);
});

const sasl = '[kafka]\nsecurity_protocol = "sasl_ssl"\n';
const together: [string, string, RegExp][] = [
  ['at_start "open" without a port', '[serial]\nat_start = "open"', /^serial.line.port: must name a port/],
  ['1.5 stop bits with 8 data bits', '[serial.line]\nstop_bits = "1.5"', /^serial.line.stop_bits: .* not with 8$/],
  [
    'packets larger than may be sent',
    '[serial]\nmax_payload_bytes = 10\n[serial.line]\nport = "x"\npacket_size = 11',
    /^serial.line.packet_size/,
  ],
  ['a queue smaller than a packet', '[serial]\ntx_queue_bytes = 10', /^serial.tx_queue_bytes: must be at least/],
  ['no address at all', '[grpc]\nlisten = []', /^grpc.listen: must name/],
  ['an address twice', '[grpc]\nlisten = ["127.0.0.1:1", "127.0.0.1:1"]', /listed twice/],
  ['a certificate without key', '[tls]\ncert_file = "/a"', /^tls.key_file/],
  ['a key without certificate', '[tls]\nkey_file = "/a"', /^tls.cert_file/],
  ['a client authority without TLS', '[tls]\nclient_ca_file = "/a"', /^tls.cert_file/],
  ['no address of the HTTP interface', '[http]\nlisten = []', /^http.listen: must name/],
  [
    'one socket for two interfaces',
    '[grpc]\nlisten = ["unix:a"]\n[http]\nlisten = ["unix:/run/lineside/a"]',
    /^http.listen: unix:\/run\/lineside\/a is in grpc.listen too/,
  ],
  ['a broker without a port', '[kafka]\nbootstrap = "broker"', /^kafka.bootstrap: must be "host:port" .*not "broker"$/],
  ['brokers with a space between', '[kafka]\nbootstrap = "a:1, b:2"', /^kafka.bootstrap: must be "host:port"/],
  ['a broker written as a URL', '[kafka]\nbootstrap = "kafka://a:1"', /^kafka.bootstrap: must be "host:port"/],
  ["a broker's port that is none", '[kafka]\nbootstrap = "a:1,b:65536"', /^kafka.bootstrap: "b:65536".*above 65535/],
  ['SCRAM without a user', `${sasl}password_file = "/p"`, /^kafka.username: must be set, since .* is "sasl_ssl"/],
  ['SCRAM without a password', `${sasl}username = "u"`, /^kafka.password_file: must be set/],
  ['a user that would not be asked for', '[kafka]\nusername = "u"', /^kafka.security_protocol: must be "sasl_ssl"/],
  ['authorities without TLS', '[kafka]\nca_file = "/a"', /^kafka.security_protocol: must be "ssl"/],
  [
    'a log for brokers that there are none of',
    '[upstream]\nto = "kafka"',
    /^kafka.bootstrap: must be set, since upstream.to is "kafka"/,
  ],
  ['a log for a collector without one', '[upstream]\nto = "collector"', /^upstream.collector: must be set, since/],
  ['a collector without a port', '[upstream]\ncollector = "host"', /^upstream.collector: must be "host:port"/],
  ["a collector's port that is none", '[upstream]\ncollector = "a:65536"', /^upstream.collector: the port is above/],
  [
    'a log that the hub could not read',
    '[upstream]\nto = "collector"\ncollector = "a:1"\n[grpc]\nlisten = ["127.0.0.1:1"]',
    /^grpc.listen: must name a Unix socket, since upstream.to is "collector"/,
  ],
  [
    "the log on the change events' topic",
    '[upstream]\ntopic = "refdata.cuod.events.public"',
    /^upstream.topic: .* is the topic of change events/,
  ],
  [
    'a budget that nothing fits into',
    '[upstream]\nmax_bytes_per_day = 1000',
    /^upstream.max_bytes_per_day: must be 0 or/,
  ],
  ['a prefix that no topic may have', '[kafka]\ntopic_prefix = "a/b"', /^kafka.topic_prefix: must be 1 to 238 of/],
  ['a prefix that leaves no room', `[kafka]\ntopic_prefix = "${'x'.repeat(239)}"`, /^kafka.topic_prefix: must be 1 to/],
  ['no replicas at all', '[kafka]\nreplication_factor = 0', /^kafka.replication_factor: must be -1/],
  [
    'less in flight than one message',
    '[outbox]\nin_flight_bytes = 65536',
    /^outbox.in_flight_bytes: must be at least kafka.max_message_bytes \(1000000\)/,
  ],
  ['a name of the box with a space', '[device]\nid = "box 1"', /^device.id: must be 1 to 128 of/],
  ['certificate names without authority', '[auth]\nviewer_certs = ["a"]', /^tls.client_ca_file/],
];
for (const [what, toml, expected] of together) {
  test(`refuses ${what}`, () => {
    const found = faults(toml);
    assert.equal(found.length, 1, found.join('; '));
    assert.match(found[0] ?? '', expected);
  });
}

const listenTable: [string, string | RegExp, boolean?][] = [
  ['127.0.0.1:50051', '127.0.0.1:50051', true],
  ['127.9.9.9:1', '127.9.9.9:1', true],
  ['localhost:1', 'localhost:1', true],
  ['[::1]:1', '[::1]:1', true],
  ['[0:0:0:0:0:0:0:1]:1', '[0:0:0:0:0:0:0:1]:1', true],
  ['0.0.0.0:1', '0.0.0.0:1', false],
  ['[::]:1', '[::]:1', false],
  ['[::ffff:127.0.0.1]:1', '[::ffff:127.0.0.1]:1', false],
  ['192.168.1.2:1', '192.168.1.2:1', false],
  ['127.0.0.1.example.com:1', '127.0.0.1.example.com:1', false],
  ['localhost.example.com:1', 'localhost.example.com:1', false],
  ['box:1', 'box:1', false],
  ['unix:/run/x', 'unix:/run/x'],
  ['unix:///run/x', 'unix:/run/x'],
  ['unix:x.sock', 'unix:/run/lineside/x.sock'],
  ['unix:', /names no path/],
  [`unix:/${'x'.repeat(107)}`, /at most 107/],
  ['127.0.0.1', /is not/],
  ['127.0.0.1:65536', /above 65535/],
  ['::1:50051', /is not/],
  ['a b:1', /is not/],
  ['http://x:1', /is not/],
];
test('judges listen addresses', () => {
  for (const [text, expected, loopback] of listenTable) {
    const address = parseListen(text, '/run/lineside');
    if (typeof address === 'string') {
      assert.ok(expected instanceof RegExp, `${text}: ${address}`);
      assert.match(address, expected);
    } else {
      assert.equal(showListen(address), expected);
      assert.equal(address.kind === 'tcp' ? address.loopback : undefined, loopback, text);
    }
  }
  assert.equal(isLoopback('::2'), false);
});

const tls = '[tls]\ncert_file = "/c"\nkey_file = "/k"\n';
const lan = '[grpc]\nlisten = ["0.0.0.0:1"]\n';
const webLan = '[http]\nlisten = ["0.0.0.0:1"]\n';
const names = 'client_ca_file = "/a"\n[auth]\nviewer_certs = ["*"]\n';
const exposed: [string, string, Role[], RegExp[]][] = [
  ['this machine only', '', [], []],
  [
    'the LAN with nothing',
    lan,
    [],
    [/^grpc.listen: .*needs TLS/, /^grpc.listen: .*needs credentials.*--role operator/],
  ],
  ['the LAN with a token but no TLS', lan, ['viewer'], [/needs TLS/]],
  ['the LAN with TLS but no credentials', lan + tls, [], [/needs credentials/]],
  ['the LAN with TLS and a token of another interface', lan + tls, ['admin'], [/needs credentials/]],
  ['the LAN with TLS and a token', lan + tls, ['operator'], []],
  ['an authority without any name', `${lan}${tls}client_ca_file = "/a"`, [], [/needs credentials/]],
  ['an authority and a name', lan + tls + names, [], []],
  ['the LAN, insecure on purpose', `${lan}insecure = true`, [], []],
  ['the LAN for the web with nothing', webLan, [], [/^http.listen: .*needs TLS/, /^http.listen: .*--role reader/]],
  ['the LAN for the web with a token but no TLS', webLan, ['reader'], [/needs TLS/]],
  ['the LAN for the web with TLS and certificate names', webLan + tls + names, [], [/needs credentials/]],
  ['the LAN for the web with a token of a scope alone', webLan + tls, ['refdata-internal'], [/needs credentials/]],
  ['the LAN for the web with TLS and a token', webLan + tls, ['viewer'], []],
  ['the LAN for the web, insecure on purpose', `${webLan}insecure = true`, [], []],
];
for (const [what, toml, roles, expected] of exposed) {
  test(`${expected.length === 0 ? 'starts' : 'refuses to start'} on ${what}`, () => {
    const token = { name: 'a', roles, sha256: '', createdAt: '' };
    const found = exposureFaults(config(toml).config, [token]).map(({ path, message }) => `${path}: ${message}`);
    assert.equal(found.length, expected.length, found.join('\n'));
    for (const [i, pattern] of expected.entries()) assert.match(found[i] ?? '', pattern);
  });
}

test('only the file may open the HTTP interface', () => {
  assert.deepEqual(faults('', { LINESIDE_HTTP_INSECURE: 'true' }), [
    'LINESIDE_HTTP_INSECURE: can only be set in the file (http.insecure)',
  ]);
});

test('a number may be written with a unit, in the file and in the environment', () => {
  const toml =
    '[log]\nmax_bytes = "2GB"\ncommit_ms = "1.5 s"\nmax_age_days = "720h"\n[serial]\nrx_buffer_bytes = "512KiB"';
  const { config: read, faults: found } = parseConfig(parse(toml), { LINESIDE_OUTBOX_STOP_GRACE_MS: '3s' });
  assert.deepEqual(found, []);
  const { maxBytes, commitMs, maxAgeDays } = read.log;
  assert.deepEqual([maxBytes, commitMs, maxAgeDays], [2e9, 1500, 30]);
  assert.deepEqual([read.serial.rxBufferBytes, read.outbox.stopGraceMs], [524_288, 3000]);
  for (const bad of [
    'commit_ms = "1 day"',
    'commit_ms = "10GB"',
    'max_bytes = "1.0000001GB"',
    'max_age_days = "1h"',
    'max_bytes = "1e9"',
  ])
    assert.match(faults(`[log]\n${bad}`)[0] ?? '', /must be a whole number from/, bad);
});

test('the JSON Schema takes the example, and refuses what the parser refuses', () => {
  const validate = new Ajv2020({ strict: false, allErrors: true }).compile(configSchema);
  assert.ok(validate(parse(uncommented)), JSON.stringify(validate.errors));
  for (const toml of [
    '[log]\ncommit_ms = 9',
    '[serial]\nat_start = "x"',
    '[grcp]',
    '[data]\ndir = "a"',
    'serial = 1',
  ]) {
    assert.equal(validate(parse(toml)), false, toml);
    assert.equal(faults(toml).length, 1, toml);
  }
});

test('the example file, uncommented, gives every key its default', () => {
  const { faults: found, settings } = config(uncommented);
  assert.deepEqual(found, []);
  for (const { path, schema } of keys) {
    assert.deepEqual(settings.get(path), { value: schema.default, source: 'file' }, path);
  }
});

test('no two keys share a variable, and variables that are no keys are let through', () => {
  assert.equal(new Set(keys.map(({ path }) => variableOf(path))).size, keys.length);
  for (const name of ['LINESIDE_CONFIG', 'LINESIDE_DEBUG', 'LINESIDE_HOST']) {
    assert.deepEqual(faults('', { [name]: 'x' }), [], name);
  }
});
