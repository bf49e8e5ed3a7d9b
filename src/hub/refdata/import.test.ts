import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { systemCode } from '../../shared/base/errors.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { BundleFormat, ImportResult } from './face.ts';
import {
  auditActions,
  everyone,
  outboxRows,
  type TemporaryRefdata,
  temporaryRefdata,
  tools,
  trusted,
  whole,
  withTools,
} from './refdata.fixture.ts';

async function* bytes(body: string | Uint8Array, size = 65_536): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(body);
  for (let at = 0; at < all.length; at += size) yield await Promise.resolve(all.subarray(at, at + size));
}

function ndjson(items: readonly object[]): string {
  return items.map((item) => JSON.stringify(item)).join('\n');
}

function tool(
  businessKey: string,
  data: JsonObject = { n: 1 },
): { dictionary: string; businessKey: string; data: JsonObject } {
  return { dictionary: 'tools', businessKey, data };
}

function load(at: TemporaryRefdata, body: string | Uint8Array, format: BundleFormat = 'ndjson'): Promise<ImportResult> {
  return at.refdata.importBundle(everyone, format, 'import', bytes(body));
}

/** The reasons of the refusal, after looking that nothing was written. */
async function refused(
  at: TemporaryRefdata,
  body: string | Uint8Array,
  format: BundleFormat = 'ndjson',
): Promise<readonly string[]> {
  const before = outboxRows(at).length;
  const error = await load(at, body, format).then(
    () => assert.fail('the bundle was taken'),
    (thrown: unknown) => thrown as { code: string; reasons: readonly string[] },
  );
  assert.equal(error.code, 'INVALID_ARGUMENT');
  assert.equal(outboxRows(at).length, before);
  assert.equal(auditActions(at).includes('records.imported'), false);
  return error.reasons;
}

describe('a bundle', () => {
  it('is one transaction: created, updated, closed, opened again, and what is so already is left alone', async (t) => {
    const at = await withTools(t);
    for (const key of ['u', 'c', 'same', 'o', 'ahead'])
      await at.refdata.createRecord(everyone, 'tools', key, {
        data: { n: 1, m: { a: 1, b: 2 } },
        ...(key === 'ahead' ? { validFrom: '2090-01-01T00:00:00Z' } : {}),
      });
    await at.refdata.closeRecord(everyone, 'tools', 'o', '', 1);
    const before = outboxRows(at).length;
    const same = { m: { b: 2, a: 1 }, n: 1 };
    const items = [
      tool('new'),
      { ...tool('u', { n: 2 }), validFrom: '2020-01-01T00:00:00+01:00' },
      { dictionary: 'tools', businessKey: 'c', action: 'close' },
      tool('same', same),
      tool('o', same),
      tool('ahead', same),
    ];
    const result = await load(at, ndjson(items));
    const { txTime, ...counts } = result;
    assert.deepEqual(counts, { created: 2, updated: 2, closed: 1, unchanged: 1 });
    const rows = outboxRows(at).slice(before);
    assert.deepEqual(
      rows.map(({ body }) => [
        body['businessKey'],
        body['action'],
        body['version'],
        body['eventType'],
        body['txTime'],
        body['changeReason'],
      ]),
      [
        ['new', 'created', 1],
        ['u', 'updated', 2],
        ['c', 'closed', 2],
        ['o', 'created', 3],
        ['ahead', 'updated', 2],
      ].map((row) => [...row, 'dictionary.bulk_imported', txTime, 'import']),
    );
    assert.equal(at.refdata.record(everyone, 'tools', 'u', '2020-01-01T00:00:00Z').version, 2);
    assert.equal(auditActions(at).at(-1), 'records.imported');
    assert.equal((await load(at, JSON.stringify({ items: [tool('new')] }), 'json')).unchanged, 1);
  });

  it('is taken again and again by its worker when it changes nothing', async (t) => {
    const at = await withTools(t);
    const body = ndjson(Array.from({ length: 400 }, (_, n) => tool(`T-${n}`)));
    assert.equal((await load(at, body)).created, 400);
    for (let day = 0; day < 3; day++) assert.equal((await load(at, body)).unchanged, 400);
    assert.equal(at.store.health().damage, '');
  });

  it('with faults changes nothing and names each with its line', async (t) => {
    const at = temporaryRefdata(t);
    await at.refdata.createDictionary(everyone, { ...tools, schema: { properties: { n: { type: 'number' } } } }, '');
    await at.refdata.createDictionary(trusted, { name: 'keys', title: 'Keys', scope: 'RESTRICTED' }, '');
    await at.refdata.createRecord(everyone, 'tools', 'closed', { data: {} });
    await at.refdata.closeRecord(everyone, 'tools', 'closed', '', 1);
    const lines = [
      JSON.stringify(tool('good')),
      '{"dictionary":"tools"',
      JSON.stringify(tool('a', { n: 'x' })),
      JSON.stringify({ ...tool('b'), dictionary: 'keys' }),
      JSON.stringify(tool('good')),
      '',
      JSON.stringify({ dictionary: 'tools', businessKey: 'closed', action: 'close' }),
      JSON.stringify({ dictionary: 'tools', businessKey: 'none', action: 'close' }),
      `{"dictionary":"tools","businessKey":"n","data":{"n":9007199254740993}}`,
      `"${'x'.repeat(1024 * 1024)}"`,
    ];
    const body = Buffer.concat([Buffer.from(`${lines.join('\n')}\n`), Buffer.from([0x22, 0xc3, 0x28, 0x22])]);
    const reasons = await refused(at, body);
    assert.match(reasons[0] ?? '', /^line 2: is not JSON/);
    assert.deepEqual(reasons.slice(1), [
      'line 3: /data/n must be number',
      'line 4: there is no dictionary "keys"',
      'line 5: "good" is in line 1 already',
      'line 7: the record "closed" of tools is closed already',
      'line 8: there is no record "none" in tools to close',
      'line 9: /data/n the number 9007199254740993 cannot be kept exactly: write it as a string',
      'line 10: is longer than 1048576 bytes',
      'line 11: is not UTF-8',
    ]);
    assert.deepEqual(await refused(at, '{"items":[1,]}', 'json'), [
      'item 1: must be an object',
      'item 2: is not JSON: Unexpected end of JSON input',
    ]);
    await assert.rejects(load(at, '{"items":[', 'json'), { code: 'MALFORMED' });
    await assert.rejects(at.refdata.importBundle(everyone, 'ndjson', '\0', bytes('')), { code: 'INVALID_ARGUMENT' });
  });

  it('with 20,000 faults lists 10,000 and counts the rest', async (t) => {
    const at = temporaryRefdata(t);
    const reasons = await refused(at, '1\n'.repeat(20_000));
    assert.equal(reasons.length, 10_001);
    assert.deepEqual(
      [reasons[0], reasons.at(-2), reasons.at(-1)],
      ['line 1: must be an object', 'line 10000: must be an object', 'and 10000 more'],
    );
  });

  it('beyond the limits of bytes or items is refused, and read no further', async (t) => {
    const at = await withTools(t, { maxImportBytes: 1_000_000 });
    let given = 0;
    let ended = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          given += 65_536;
          yield await Promise.resolve(new Uint8Array(65_536).fill(0x20));
        }
      } finally {
        ended = true;
      }
    }
    await assert.rejects(at.refdata.importBundle(everyone, 'ndjson', '', endless()), { code: 'TOO_LARGE' });
    assert.ok(ended);
    assert.ok(given <= 1_000_000 + 65_536);
    const large = temporaryRefdata(t);
    await assert.rejects(load(large, '1\n'.repeat(100_001)), { code: 'TOO_LARGE', message: /at most 100000 items/ });
  });
});

describe('an import that runs', () => {
  const many = (from: number, count: number): string =>
    ndjson(Array.from({ length: count }, (_, i) => tool(`T${from + i}`, { n: i })));

  /** Those that are started from now on. */
  function startedWorkers(t: TestContext): Worker[] {
    const workers: Worker[] = [];
    const started = (message: unknown): void => void workers.push((message as { worker: Worker }).worker);
    subscribe('worker_threads', started);
    t.after(() => unsubscribe('worker_threads', started));
    return workers;
  }

  /** Resolves when the import holds the write slot: no other change is committed at once any more. */
  async function begun(at: TemporaryRefdata): Promise<{ readonly waiting: Promise<unknown> }> {
    for (let i = 0; i < 100_000; i++) {
      let done = false;
      const change = at.refdata.updateDictionary(everyone, 'tools', { title: `T${i}` }, '', undefined).then(() => {
        done = true;
      });
      await turn();
      if (!done) return { waiting: change };
    }
    return assert.fail('the import never held the write slot');
  }

  function isWriting(at: TemporaryRefdata): boolean {
    const other = new Database(at.store.connection.name, { timeout: 0 });
    try {
      other.exec('BEGIN IMMEDIATE; ROLLBACK');
      return false;
    } catch (error) {
      return systemCode(error) === 'SQLITE_BUSY';
    } finally {
      other.close();
    }
  }

  it('keeps readers on what is committed, and changes waiting, in their order, until it is', async (t) => {
    const at = await withTools(t);
    await at.refdata.createRecord(everyone, 'tools', 'T0', { data: { n: 'old' } });
    let done = false;
    const running = load(at, many(0, 20_000)).then((result) => {
      done = true;
      return result;
    });
    const { waiting } = await begun(at);
    const changed = at.refdata.updateRecord(everyone, 'tools', 'T0', { data: { n: 'late' } }, 2);
    let reads = 0;
    while (!done) {
      const { items } = at.refdata.records(everyone, 'tools', {}, whole);
      assert.ok(items.length === 1 ? items[0]?.data['n'] === 'old' : items.length === 1_000);
      if (items.length === 1) reads++;
      await turn();
    }
    assert.ok(reads > 10, 'reads continued meanwhile');
    const { txTime } = await running;
    await waiting;
    const late = await changed;
    assert.ok(late.txTime > txTime);
    assert.equal(late.version, 3);
  });

  it('of few records has no worker; a larger one does, and also a small one that is slow to check', async (t) => {
    const at = temporaryRefdata(t);
    const workers = startedWorkers(t);
    await at.refdata.createDictionary(everyone, tools, '');
    assert.equal((await load(at, JSON.stringify(tool('a')))).created, 1);
    assert.equal((await load(at, JSON.stringify({ items: [tool('b')] }), 'json')).created, 1);
    await assert.rejects(load(at, JSON.stringify({ ...tool('c'), data: 1 })), {
      code: 'INVALID_ARGUMENT',
      reasons: ['line 1: /data must be an object'],
    });
    assert.equal(workers.length, 0);
    const events = outboxRows(at).slice(1);
    assert.deepEqual(
      events.map(({ body }) => body['eventType']),
      ['dictionary.bulk_imported', 'dictionary.bulk_imported'],
    );
    assert.equal((await load(at, many(0, 1_000))).created, 1_000);
    assert.equal(workers.length, 1);
    // Its clock makes every reading of the time a second later.
    const monoMs = at.clock.monoMs.bind(at.clock);
    let readings = 0;
    t.mock.method(at.clock, 'monoMs', () => monoMs() + 1_000 * ++readings);
    assert.equal((await load(at, JSON.stringify(tool('slow')))).created, 1);
    assert.equal(workers.length, 2);
    assert.equal(at.refdata.history(everyone, 'tools', 'slow', whole).items.length, 1);
  });

  it('writes nothing when its worker dies, and says so; the next one is taken', async (t) => {
    const at = await withTools(t);
    const workers = startedWorkers(t);
    const refusal = assert.rejects(load(at, many(0, 50_000)), {
      code: 'INTERNAL',
      message: 'nothing was imported: the thread that imports has died',
    });
    const { waiting } = await begun(at);
    assert.equal(workers.length, 1);
    // Not before it writes: a thread that dies while it loads better-sqlite3 aborts the process.
    await until('it writes', () => isWriting(at));
    await workers[0]?.terminate();
    await refusal;
    await waiting;
    assert.deepEqual(at.refdata.records(everyone, 'tools', {}, whole).items, []);
    assert.equal(at.store.connection.pragma('quick_check', { simple: true }), 'ok');
    assert.equal((await load(at, many(0, 10))).created, 10);
  });

  it('is reported as done when its worker dies between the commit and the answer', async (t) => {
    const at = await withTools(t);
    await load(at, many(0, 1_000));
    const workers = startedWorkers(t);
    const running = load(at, many(500, 1_000));
    await until('a worker', () => workers.length === 1);
    const [worker] = workers;
    assert.ok(worker);
    const emit = worker.emit.bind(worker) as (...event: unknown[]) => boolean;
    worker.emit = (...event: unknown[]): boolean => {
      const answer = (event[1] as { value?: unknown } | undefined)?.value;
      if (event[0] !== 'message' || typeof answer !== 'object') return emit(...event);
      void worker.terminate();
      return true;
    };
    const result = await running;
    assert.deepEqual(result, { txTime: at.store.now(), created: 500, updated: 500, closed: 0, unchanged: 0 });
    assert.equal(outboxRows(at).length, 2_001);
  });

  it('is ended by the end of the service, with nothing written', async (t) => {
    const at = await withTools(t);
    const refusal = assert.rejects(load(at, many(0, 50_000)), {
      code: 'SHUTTING_DOWN',
      message: /^nothing was imported/,
    });
    const { waiting } = await begun(at);
    await at.refdata.close();
    await refusal;
    await waiting;
    assert.deepEqual(at.refdata.records(everyone, 'tools', {}, whole).items, []);
    await assert.rejects(load(at, many(0, 1)), { code: 'SHUTTING_DOWN' });
  });

  it('does not keep the service from ending when its body stalls', async (t) => {
    const at = await withTools(t);
    let given = false;
    async function* stalled(): AsyncGenerator<Uint8Array> {
      yield* bytes(`${JSON.stringify(tool('a'))}\n`);
      given = true;
      await new Promise(() => undefined);
    }
    const refusal = assert.rejects(at.refdata.importBundle(everyone, 'ndjson', '', stalled()), {
      code: 'SHUTTING_DOWN',
    });
    await until('the body is read', () => given);
    await at.refdata.close();
    await refusal;
  });

  it('lets a few others wait, one after the other, and refuses more', async (t) => {
    const at = await withTools(t);
    const ends = await Promise.allSettled(Array.from({ length: 7 }, (_, i) => load(at, JSON.stringify(tool(`T${i}`)))));
    const codes = ends.map((end) =>
      end.status === 'fulfilled' ? end.value.created : (end.reason as { code: string }).code,
    );
    assert.deepEqual(codes, [1, 1, 1, 1, 1, 'TOO_MANY', 'TOO_MANY']);
  });

  it('that does not fit into the budget writes nothing', async (t) => {
    const at = await withTools(t, { maxBytes: 1024 * 1024 });
    await assert.rejects(load(at, many(0, 20_000)), { code: 'STORAGE_FULL' });
    assert.deepEqual(at.refdata.records(everyone, 'tools', {}, whole).items, []);
    assert.equal((await load(at, many(0, 10))).created, 10);
  });

  /** A bundle of blank lines that is large enough for a worker. */
  const large = Buffer.alloc(16 * 1024 + 1, '\n');

  it('is alive while its body arrives slowly: its worker answers', async (t) => {
    const { refdata } = temporaryRefdata(t);
    await refdata.assertImportAlive();
    const rest = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield large;
      begun.resolve();
      await rest.promise;
    };
    const imported = refdata.importBundle(everyone, 'ndjson', '', body());
    await begun.promise;
    await refdata.assertImportAlive();
    rest.resolve();
    assert.equal((await imported).created, 0);
  });

  it('is reported while it keeps all changes waiting for longer than it may', async (t) => {
    const { refdata, store, path, clock } = temporaryRefdata(t);
    const other = new Database(path);
    t.after(() => other.close());
    // The worker cannot begin: it hangs in SQLite as it would in a disk.
    other.exec('BEGIN IMMEDIATE');
    const holds = Promise.withResolvers<void>();
    const hold = store.hold.bind(store);
    t.mock.method(store, 'hold', (work: () => Promise<unknown>) => {
      const held = hold(work);
      holds.resolve();
      return held;
    });
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield large;
    };
    const imported = assert.rejects(refdata.importBundle(everyone, 'ndjson', '', body()), { code: 'TOO_LARGE' });
    await holds.promise;
    await refdata.assertImportAlive();
    clock.advance(141_000);
    await assert.rejects(refdata.assertImportAlive(), /it has kept all changes waiting for 141 s/);
    other.exec('ROLLBACK');
    await imported;
    await refdata.assertImportAlive();
  });
});
