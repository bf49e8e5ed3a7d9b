/** The publisher when its file fails it, and when much is to be sent again at once. */
import assert from 'node:assert/strict';
import { closeSync, openSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { createLogger } from '../../../shared/base/logger.ts';
import { openExisting } from '../../../shared/storage/open.ts';
import { author, openStoreIn, recordEvent } from '../change-store.fixture.ts';
import { FakeBroker } from './broker.fixture.ts';
import { change, changeAtOnce, keys, publisherOn, rigFor, settles, turns } from './publisher.fixture.ts';

test('what a broker refuses for days while nothing can be stored is kept once for each row', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t, { maxAttempts: 1_000_000 });
  broker.answer = () => 'refuse';
  publisher.start();
  const broken = 'BEGIN SELECT RAISE(ABORT, "disk full"); END';
  store.connection.exec(`CREATE TEMP TRIGGER full BEFORE UPDATE ON outbox_waiting ${broken}`);
  await change(store, ['a', 'b']);
  await settles('refused', clock, () => publisher.status().refusedTotal === 2);
  const { inMemory } = publisher;
  for (let minute = 0; minute < 200; minute++) {
    clock.advance(60_000);
    await turns();
  }
  assert.ok(publisher.status().refusedTotal > 300);
  assert.equal(publisher.inMemory, inMemory);
  store.connection.exec('DROP TRIGGER full');
  const stored = store.connection.prepare<[], number>('SELECT min(attempts) FROM outbox_waiting').pluck();
  await settles('stored', clock, () => (stored.get() ?? 0) > 150);
});

test('a file that cannot be read is said once, and its damage is known to the store', async (t) => {
  const { store, clock, dir, path } = rigFor(t);
  await change(store, keys(200));
  await store.close();
  breakPage(path, 'outbox_events');
  const again = openStoreIn(t, dir, { clock });
  const lines: string[] = [];
  const logger = createLogger({ write: (line) => lines.push(line), journal: true, debug: false, wallMs: () => 0 });
  const publisher = publisherOn(again, new FakeBroker(), clock, { logger });
  publisher.start();
  for (let n = 0; n < 10; n++) {
    clock.advance(1_000);
    await turns();
  }
  assert.match(again.health().damage, /damaged/);
  assert.equal(lines.filter((line) => line.includes('could not be read')).length, 1, lines.join(''));
  await publisher.stop(0);
});

/** The first leaf of a table, overwritten. */
function breakPage(path: string, table: string): void {
  const connection = openExisting({ path, cacheKib: 64, walLimitBytes: 1_000_000 });
  const page = connection
    .prepare<[string], number>("SELECT min(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'")
    .pluck()
    .get(table);
  connection.close();
  assert.ok(page);
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(4096, 0xaa), 0, 4096, (page - 1) * 4096);
  closeSync(file);
}

test('thousands of rows that are to be sent again do not hold the loop: some hundreds go in a turn', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  broker.answer = () => 'never';
  publisher.start();
  const names = keys(3_000);
  await changeAtOnce(store, names);
  await settles('all on their way', clock, () => broker.outstanding === 3_000);
  broker.connected = false;
  broker.settle({ kind: 'unreached', reason: 'timed out' });
  assert.equal(publisher.status().unreachedTotal, 3_000);
  await turns();
  broker.answer = () => 'acknowledge';
  broker.connected = true;
  let most = 0;
  for (let before = broker.offers; broker.acknowledged.size < 3_000; before = broker.offers) {
    await new Promise(setImmediate);
    most = Math.max(most, broker.offers - before);
  }
  assert.ok(most > 0 && most <= 500, `${most} in a turn`);
  await settles('published', clock, () => publisher.status().waiting === 0);
  await store.commit(author, (tx) => tx.emit(recordEvent('k1', 2)));
});
