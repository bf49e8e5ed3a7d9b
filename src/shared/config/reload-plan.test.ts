import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import type { Config } from './config.ts';
import { parseConfig } from './parse.ts';
import { planReload } from './reload-plan.ts';

function read(toml: string, unused: readonly string[] = []) {
  const parsed = parseConfig(parse(toml), {});
  assert.deepEqual(parsed.faults, [], toml);
  return { ...parsed, unused };
}

const tls = '[tls]\ncert_file = "/c"\nkey_file = "/k"\n';
/** What changes, how the reload takes it, and the live value in the new configuration. */
const changes: [string, 'live' | 'hub' | 'both' | 'restart', ((config: Config) => unknown)?, unknown?][] = [
  ['[log]\ncommit_ms = 20', 'live', ({ log }) => log.commitMs, 20],
  ['[serial]\nrx_gap_ms = 50', 'live', ({ serial }) => serial.rxGapMs, 50],
  [tls, 'both', ({ tls: files }) => files.keyFile, '/k'],
  ['[kafka]\npartitions = 4', 'hub'],
  ['[device]\nid = "box-2"', 'hub'],
  ['[data]\ndir = "/other"', 'restart'],
  ['[serial.line]\nparity = "even"', 'restart'],
];
for (const [toml, how, valueIn, value] of changes) {
  test(`a changed key is taken as it is declared (${how}): ${toml.replaceAll('\n', ' ')}`, () => {
    const [before, after] = [read(''), read(toml)];
    const plan = planReload(before, after);
    const isLive = how === 'live' || how === 'both';
    assert.deepEqual(
      [plan.live.length > 0, plan.hub.length > 0, plan.restart.length > 0, plan.conflicts],
      [isLive, how === 'hub' || how === 'both', how === 'restart', []],
    );
    assert.deepEqual(valueIn?.(plan.config), value);
    if (isLive) assert.deepEqual(planReload({ ...plan, unused: [] }, after).live, [], 'it is taken once');
    else assert.deepEqual(plan.config, before.config, 'it waits for a restart');
  });
}

test('keys that were not applied are named again by the next reload', () => {
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
