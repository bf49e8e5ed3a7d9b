import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import type { Value } from './key.ts';
import { keys } from './keys.ts';
import { parseConfig } from './parse.ts';
import { planReload } from './reload.ts';

function read(toml: string, unused: readonly string[] = []) {
  const parsed = parseConfig(parse(toml), {});
  assert.deepEqual(parsed.faults, [], toml);
  return { ...parsed, unused };
}

/** Another value that the key takes. */
const others: Readonly<Record<string, Value>> = {
  'device.id': 'box-2',
  'serial.at_start': 'closed',
  'serial.rx_gap_ms': 50,
  'serial.line.stop_bits': '2',
  'serial.line.parity': 'even',
  'serial.line.data_bits': 7,
  'grpc.listen': ['127.0.0.1:1'],
  'http.listen': ['127.0.0.1:2'],
  'kafka.bootstrap': 'broker:9092',
  'kafka.topic_prefix': 'other',
  'kafka.compression': 'lz4',
  'kafka.partitions': 4,
  'kafka.replication_factor': 2,
  'webhooks.allow_cidrs': ['10.0.0.0/8'],
  'webhooks.allow_ports': [8443],
  'webhooks.schedule_s': [1],
  'upstream.topic': 'other',
  'upstream.compression': 'gzip',
  'upstream.max_bytes_per_day': 1_000_000,
  'upstream.collector': 'host:1',
};
/** What goes along, so that the file has no fault. */
const along: Readonly<Record<string, string>> = {
  'kafka.security_protocol': '[kafka]\nca_file = "/ca"\nsecurity_protocol = "ssl"',
  'kafka.ca_file': '[kafka]\nca_file = "/ca"\nsecurity_protocol = "ssl"',
  'kafka.username': '[kafka]\nsecurity_protocol = "sasl_ssl"\nusername = "u"\npassword_file = "/p"',
  'kafka.password_file': '[kafka]\nsecurity_protocol = "sasl_ssl"\nusername = "u"\npassword_file = "/p"',
  'upstream.to': '[upstream]\nto = "collector"\ncollector = "host:1"',
  'tls.cert_file': '[tls]\ncert_file = "/c"\nkey_file = "/k"',
  'tls.key_file': '[tls]\ncert_file = "/c"\nkey_file = "/k"',
  'tls.client_ca_file': '[tls]\ncert_file = "/c"\nkey_file = "/k"\nclient_ca_file = "/a"',
  'auth.operator_certs':
    '[tls]\ncert_file = "/c"\nkey_file = "/k"\nclient_ca_file = "/a"\n[auth]\noperator_certs = ["x"]',
  'auth.viewer_certs': '[tls]\ncert_file = "/c"\nkey_file = "/k"\nclient_ca_file = "/a"\n[auth]\nviewer_certs = ["x"]',
};

function otherValue(path: string, value: Value): Value {
  const other = others[path];
  if (other !== undefined) return other;
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return value + 1;
  return typeof value === 'string' ? '/other' : ['other'];
}

const atom = (value: Value): string => JSON.stringify(value);

test('what the line takes live is what the table of keys calls live', () => {
  const before = read('');
  for (const { path, schema, reload } of keys) {
    const dot = path.lastIndexOf('.');
    const line = `[${path.slice(0, dot)}]\n${path.slice(dot + 1)} = ${atom(otherValue(path, schema.default))}`;
    const after = read(along[path] ?? line);
    const plan = planReload(before, after);
    assert.ok([...plan.live, ...plan.hub, ...plan.restart].includes(path), `${path} is seen to have changed`);
    assert.equal(plan.live.includes(path), reload.includes('live'), path);
    assert.equal(plan.hub.includes(path), reload.includes('hub'), path);
    assert.equal(plan.restart.includes(path), reload === 'restart', path);
    assert.deepEqual(plan.conflicts, []);
    if (reload.includes('live')) {
      assert.notDeepEqual(plan.config, before.config, `${path} reaches the line`);
      assert.deepEqual(planReload({ ...plan, unused: [] }, after).live, [], `${path} is taken once`);
    } else if (plan.live.length === 0) assert.deepEqual(plan.config, before.config, `${path} waits for a restart`);
  }
});

test('what was not taken is named again by the next reload', () => {
  const [before, after] = [read(''), read('[log]\nmax_age_days = 3\nqueue_bytes = 65536')];
  const first = planReload(before, after);
  const second = planReload({ ...first, unused: [] }, after);
  assert.deepEqual([first.live, first.restart], [['log.max_age_days'], ['log.queue_bytes']]);
  assert.deepEqual([second.live, second.restart], [[], ['log.queue_bytes']]);
});

test('a live key that goes only with one that is not taken waits with it', () => {
  const plan = planReload(
    read('[serial]\ntx_queue_bytes = 65536'),
    read('[serial]\ntx_queue_bytes = 2000000\nmax_payload_bytes = 1000000\n[log]\nmax_age_days = 3'),
  );
  assert.deepEqual(plan.live, []);
  assert.deepEqual(plan.restart, ['serial.max_payload_bytes', 'log.max_age_days', 'serial.tx_queue_bytes']);
  assert.equal(plan.config.log.maxAgeDays, 30);
  assert.match(plan.conflicts[0]?.message ?? '', /max_payload_bytes/);
});

test('nothing has changed where the file says the default, or a key counts for nothing', () => {
  const plan = planReload(read(''), read('[log]\ncommit_ms = 1000\n[grpc]\nlisten = ["127.0.0.1:1"]', ['grpc.listen']));
  assert.deepEqual([plan.live, plan.hub, plan.restart], [[], [], []]);
});
