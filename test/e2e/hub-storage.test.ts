/**
 * The disk under refdata.db fills up or fails: a change is refused with the right problem and nothing of it is kept, no
 * delivery is lost or sent twice, and the hub resumes when it can. Without a broker: rows wait.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { OutboxLedger, storedVersions } from '../soak/outbox-ledger.ts';
import { type Toml, temporaryDirectory } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import { type Answer, type HubApi, recordPath } from './hub-api.ts';
import { apiOf, create, dictionary, expect, outbox, refused, sendBundle } from './hub-support.ts';
import { inject, straceWorks } from './strace.ts';
import { startReceiver } from './webhook-receiver.ts';
import { assertFaultless, SECRET, settled, subscribe, webhookStatus, webhooksConfig } from './webhooks-support.ts';

const KIB = 1024;
const DELIVERIES = 20;
const alone: Toml = { device: { inventory: false } };

/** Changes of which the ledger knows how each was answered. */
class Probe {
  readonly ledger = new OutboxLedger();
  readonly #path: string;
  #number = 0;

  constructor(hub: Hub) {
    this.#path = join(hub.dir, 'data', 'refdata.db');
  }

  /** A new record of some size. */
  async create(api: HubApi, bytes = 100): Promise<Answer> {
    const change = `C-${++this.#number}`;
    const data = { text: 'x'.repeat(bytes) };
    const body = { businessKey: change, data, changeReason: change };
    return this.#asked(change, [`d:${change}`], api.post('/api/v1/dictionaries/d/records', body));
  }

  async bundle(api: HubApi, count: number): Promise<Answer> {
    const change = `B-${++this.#number}`;
    const keys = Array.from({ length: count }, (_, i) => `${change}.${i}`);
    const lines = keys.map((businessKey) => ({ dictionary: 'd', businessKey, data: { text: businessKey } }));
    return this.#asked(
      change,
      keys.map((key) => `d:${key}`),
      sendBundle(api, lines, change),
    );
  }

  /** All that was answered is stored, nothing that was refused is; each stored change has its outbox row. */
  settle(): void {
    this.ledger.settle(storedVersions(this.#path, this.ledger.lastTxTime));
    const all = storedVersions(this.#path);
    this.ledger.again(all);
    assert.equal(count(this.#path, "SELECT count(*) FROM outbox WHERE category = 'dict.record.*'"), all.length);
    assert.equal(count(this.#path, 'SELECT count(*) FROM outbox WHERE waiting = 1'), all.length);
  }

  async #asked(change: string, targets: readonly string[], answer: Promise<Answer>): Promise<Answer> {
    this.ledger.ask(change, targets);
    const got = await answer;
    if (got.status < 300) this.ledger.answered(change, got.body?.txTime ?? '');
    else this.ledger.refused(change);
    return got;
  }
}

function count(path: string, sql: string): number {
  const file = new Database(path, { readonly: true, fileMustExist: true });
  try {
    return Number(file.prepare(sql).pluck().get());
  } finally {
    file.close();
  }
}

/** SQLite's own judgement, after the hub has ended. */
function sound(dir: string): void {
  const file = new Database(join(dir, 'data', 'refdata.db'), { readonly: true });
  assert.deepEqual(file.pragma('integrity_check'), [{ integrity_check: 'ok' }]);
  assert.deepEqual(file.pragma('foreign_key_check'), []);
  file.close();
}

async function full(probe: Probe, api: HubApi, bytes: number): Promise<Answer> {
  return until('a change is refused', async () => {
    const answer = await probe.create(api, bytes);
    assert.ok([201, 507].includes(answer.status), answer.text);
    return answer.status === 507 && answer;
  });
}

test('the disk is really full: 507, nothing half written, reads continue, and changes resume when there is room', async (t) => {
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  if (!mountSmall(t, data, 'size=12m')) return;
  const hub = await startHub({ dir, config: { ...alone, outbox: { min_free_bytes: 0 } } });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const probe = new Probe(hub);
  for (let i = 0; i < 20; i++) await expect(201, probe.create(api));
  const filler = join(data, 'filler');
  fill(filler, 150 * KIB);
  // One that certainly does not fit, small ones until the last page is gone, and a bundle.
  await refused(507, 'STORAGE_FULL', probe.create(api, 200 * KIB));
  await refused(507, 'STORAGE_FULL', full(probe, api, 2_000));
  await refused(507, 'STORAGE_FULL', probe.bundle(api, 3_000));
  fill(join(data, 'filler 2'));
  await refused(507, 'STORAGE_FULL', full(probe, api, 10));
  await expect(200, api.get(recordPath('d', 'C-1')));
  assert.ok((await outbox(api)).waiting >= 20);
  assert.equal((await api.get('/healthz')).status, 200, 'a restart would repair nothing');
  rmSync(filler);
  await until('there is room again', async () => (await probe.create(api, 20 * KIB)).status === 201);
  await expect(200, probe.bundle(api, 500));
  probe.settle();
  await hub.kill();

  const again = await startHub({ dir });
  probe.settle();
  assert.equal(await again.stop(), 0);
  probe.settle();
  sound(dir);
});

test('fsync fails: 503 and nothing is kept, also if the hub is killed right after; when the disk works again, so do changes', {
  skip: straceWorks() ? false : 'strace cannot trace here',
}, async () => {
  const dir = temporaryDirectory();
  let hub = await startHub({ dir, config: alone });
  let api = apiOf(hub);
  await dictionary(api, 'd');
  const probe = new Probe(hub);
  await expect(201, probe.create(api));
  const refuse = async (...attempts: readonly (() => Promise<Answer>)[]): Promise<void> => {
    const injection = await inject(hub.pid(), 'fsync,fdatasync:error=EIO');
    await Promise.all(attempts.map((attempt) => refused(503, 'STORAGE_FAILED', attempt())));
    await expect(200, api.get(recordPath('d', 'C-1')));
    await injection.end();
  };
  const one = (): Promise<Answer> => probe.create(api);
  const many = (): Promise<Answer> => probe.bundle(api, 200);
  const together = Array.from({ length: 8 }, () => one);
  await refuse(one);
  await refuse(many, ...together);
  await until('changes continue', async () => (await one()).status === 201);
  await expect(200, many());
  probe.settle();
  for (const attempts of [[one], [many], together]) {
    await expect(201, one());
    await refuse(...attempts);
    // Nothing was written since.
    await hub.kill();
    hub = await startHub({ dir });
    api = apiOf(hub);
    probe.settle();
  }
  assert.equal(await hub.stop(), 0);
  sound(dir);
});

test('the disk is full while it is to be stored how deliveries ended: each is sent once, and stored when there is room', async (t) => {
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  if (!mountSmall(t, data, 'size=12m')) return;
  const receiver = await startReceiver(t, { secrets: [SECRET] });
  const config = { ...webhooksConfig([receiver], { timeout_ms: 60_000 }), outbox: { min_free_bytes: 0 } };
  const hub = await startHub({ dir, config });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const { id } = await subscribe(api, receiver, 'all');
  await receiver.script([{ fault: 'hang' }]);
  for (let i = 0; i < DELIVERIES; i++) await create(api, 'd', `key ${i}`, {});
  await receiver.received(1);
  await until('all are planned', async () => {
    const { waiting, unplannedEvents } = await webhookStatus(api);
    return waiting === DELIVERIES && unplannedEvents === 0;
  });
  fill(join(data, 'filler'));
  // What the log of changes still has room for goes, too.
  await until('a change is refused', async () => {
    const body = { businessKey: 'refused', data: { text: 'x'.repeat(100_000) } };
    return (await api.post('/api/v1/dictionaries/d/records', body)).status === 507;
  });
  await receiver.release();
  await hub.waitFor(/how deliveries ended could not be stored/);
  await receiver.received(DELIVERIES);
  const now = await webhookStatus(api);
  assert.ok(now.waiting > 0 && now.inFlight === 0, JSON.stringify(now));
  rmSync(join(data, 'filler'));
  await hub.waitFor(/how deliveries ended can be stored again/);
  const all = await settled(api, id);
  assert.ok(all.every(({ state, attempts }) => state === 'delivered' && attempts === 1));
  const sent = receiver.requests().map(({ body }) => body?.deliveryId ?? '');
  assert.deepEqual(sent.toSorted(), all.map(({ deliveryId }) => deliveryId).toSorted());
  assertFaultless(receiver);
  assert.equal(await hub.stop(), 0);
});
