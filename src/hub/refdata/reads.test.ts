/** Lists by cursor, the plans of the statements, and what a damaged file looks like to a reader. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLogger } from '../../shared/base/logger.ts';
import { breakPage, openStoreIn } from '../outbox/change-store.fixture.ts';
import { dictionaryStatements } from './dictionaries.ts';
import { draftStatements } from './drafts.ts';
import { writeStatements } from './record-writer.ts';
import { readStatements } from './records.ts';
import { everyone, temporaryRefdata, whole, withTools } from './refdata.fixture.ts';
import { openRefdata } from './refdata.ts';

it('a damaged file is reported by reads and changes', async (t) => {
  const sound = await withTools(t);
  await sound.refdata.createRecord(everyone, 'tools', 'k', { data: {} });
  await sound.store.close();
  breakPage(sound.path, 'record_versions');
  const { dir, path, clock } = sound;
  const store = openStoreIn(t, dir, { clock });
  const refdata = openRefdata({ store, path, maxBytes: 1e9, maxImportBytes: 1e6, clock, logger: silentLogger });
  assert.throws(() => refdata.record(everyone, 'tools', 'k', undefined), { code: 'STORAGE_DAMAGED' });
  assert.match(store.health().damage, /damaged/);
  await assert.rejects(refdata.updateRecord(everyone, 'tools', 'k', { data: {} }, 1), { code: 'STORAGE_DAMAGED' });
});

describe('lists', () => {
  it('of records go by business key, and all pages show the moment of the first', async (t) => {
    const at = await withTools(t);
    const keys = ['A', 'B', 'a', 'z', 'ä', 'ключ', '😀'];
    for (const key of [...keys].reverse()) await at.refdata.createRecord(everyone, 'tools', key, { data: {} });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = at.refdata.records(everyone, 'tools', {}, { limit: 2, cursor });
      seen.push(...page.items.map(({ businessKey }) => businessKey));
      cursor = page.nextCursor;
      at.clock.advance(1_000);
      // Neither what closes nor what comes in between changes a list that has begun.
      if (seen.length === 2) await at.refdata.bulkClose(everyone, 'tools', ['ä', 'A'], '');
      if (seen.length === 4) await at.refdata.createRecord(everyone, 'tools', 'я', { data: {} });
    } while (cursor !== undefined);
    assert.deepEqual(seen, keys);
    assert.deepEqual(
      at.refdata.records(everyone, 'tools', {}, whole).items.map(({ businessKey }) => businessKey),
      ['B', 'a', 'z', 'ключ', 'я', '😀'],
    );
  });

  it('of all records have closed ones and those to come, each in its newest version', async (t) => {
    const { refdata } = await withTools(t);
    await refdata.createRecord(everyone, 'tools', 'closed', { data: { n: 1 } });
    await refdata.closeRecord(everyone, 'tools', 'closed', '', 1);
    await refdata.createRecord(everyone, 'tools', 'later', { data: {}, validFrom: '2999-01-01T00:00:00+00:00' });
    await refdata.createRecord(everyone, 'tools', 'now', { data: {} });
    const listed = (which: 'valid' | 'all') =>
      refdata
        .records(everyone, 'tools', { which }, whole)
        .items.map(({ businessKey, action }) => [businessKey, action]);
    assert.deepEqual(listed('valid'), [['now', 'created']]);
    assert.deepEqual(listed('all'), [
      ['closed', 'closed'],
      ['later', 'created'],
      ['now', 'created'],
    ]);
    const at = '2026-03-01T09:30:00+00:00';
    assert.throws(() => refdata.records(everyone, 'tools', { which: 'all', at }, whole), { code: 'INVALID_ARGUMENT' });
  });

  it('by the beginning of their keys have these keys alone, in pages too', async (t) => {
    const { refdata } = await withTools(t);
    for (const key of ['P', 'P-1', 'P-10', 'P-\u{10ffff}', 'P-ä', 'Q', 'p-1', '%', 'O'])
      await refdata.createRecord(everyone, 'tools', key, { data: {} });
    const keysOf = (prefix: string): string[] => {
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = refdata.records(everyone, 'tools', { prefix }, { limit: 2, cursor });
        seen.push(...page.items.map(({ businessKey }) => businessKey));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return seen;
    };
    assert.deepEqual(keysOf('P-'), ['P-1', 'P-10', 'P-ä', 'P-\u{10ffff}']);
    assert.deepEqual([keysOf('P-1'), keysOf('%'), keysOf('_'), keysOf('').length], [['P-1', 'P-10'], ['%'], [], 9]);
    // A cursor from a list without it does not lead out of it.
    const { nextCursor } = refdata.records(everyone, 'tools', {}, { limit: 1, cursor: undefined });
    const { items } = refdata.records(everyone, 'tools', { prefix: 'Q' }, { limit: 9, cursor: nextCursor });
    assert.deepEqual(
      items.map(({ businessKey }) => businessKey),
      ['Q'],
    );
  });

  it('that pass over many closed records stay bounded and reach the end', async (t) => {
    const at = await withTools(t);
    const { id } = at.store.connection.prepare<[], { id: number }>('SELECT id FROM dictionaries').get() ?? { id: 0 };
    // Closed ones in bulk, by SQL: 25,000 ways through the face would say nothing more.
    at.store.connection.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
      INSERT INTO record_versions (id, version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data)
      SELECT i, 1, 'closed', '2000', '2001', '2001', '', '', '{}' FROM n;
      INSERT INTO records (dictionary_id, business_key, version, closed, newest_id)
      SELECT ${id}, printf('c%05d', id), 1, 1, id FROM record_versions`);
    await at.refdata.createRecord(everyone, 'tools', 'z', { data: {} });
    let pages = 0;
    let cursor: string | undefined;
    const seen: string[] = [];
    do {
      const page = at.refdata.records(everyone, 'tools', {}, { limit: 10, cursor });
      seen.push(...page.items.map(({ businessKey }) => businessKey));
      cursor = page.nextCursor;
      pages++;
    } while (cursor !== undefined);
    assert.deepEqual([pages, seen], [3, ['z']]);
  });

  it('of large records end their pages early', async (t) => {
    const { refdata } = await withTools(t);
    const keys = Array.from({ length: 20 }, (_, i) => `k${10 + i}`);
    for (const key of keys) await refdata.createRecord(everyone, 'tools', key, { data: { text: 'x'.repeat(250_000) } });
    const first = refdata.records(everyone, 'tools', {}, whole);
    assert.equal(first.items.length, 16);
    const second = refdata.records(everyone, 'tools', {}, { ...whole, cursor: first.nextCursor });
    const seen = [...first.items, ...second.items].map(({ businessKey }) => businessKey);
    assert.deepEqual([seen, second.nextCursor], [keys, undefined]);
  });

  it('refuse limits out of range and cursors of others', async (t) => {
    const { refdata } = await withTools(t);
    await refdata.createRecord(everyone, 'tools', 'k', { data: {} });
    await refdata.updateRecord(everyone, 'tools', 'k', { data: {} }, 1);
    const history = refdata.history(everyone, 'tools', 'k', { limit: 1, cursor: undefined });
    assert.deepEqual(
      refdata
        .history(everyone, 'tools', 'k', { limit: 1, cursor: history.nextCursor })
        .items.map(({ version }) => version),
      [1],
    );
    for (const limit of [0, -1, 1.5, 1_001, Number.NaN])
      assert.throws(() => refdata.records(everyone, 'tools', {}, { limit, cursor: undefined }), {
        code: 'INVALID_ARGUMENT',
      });
    const forged = Buffer.from('["records","then","a"]').toString('base64url');
    for (const cursor of ['', 'x', 'e30', history.nextCursor, forged, 'A'.repeat(10_000)])
      assert.throws(() => refdata.records(everyone, 'tools', {}, { limit: 1, cursor }), {
        code: 'INVALID_ARGUMENT',
      });
  });

  it('and every other read and write of a record go by an index', (t) => {
    const { store } = temporaryRefdata(t);
    const groups = [dictionaryStatements, draftStatements, readStatements, writeStatements];
    const statements = groups.flatMap((group): { source: string }[] => Object.values(group(store.connection)));
    assert.ok(statements.length >= 18);
    for (const { source: sql } of statements) {
      const named = [...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name, 1]);
      const places = Array<number>(sql.split('?').length - 1).fill(1);
      const given = named.length > 0 ? [Object.fromEntries(named)] : places;
      const plan = store.connection.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...given) as { detail: string }[];
      for (const { detail } of plan) {
        // The versions of one record.
        assert.doesNotMatch(detail, /^SCAN (?!back$)|TEMP B-TREE|AUTOMATIC/, sql);
      }
    }
  });
});
