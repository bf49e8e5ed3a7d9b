/** The file of the audit: what is kept of it, and what is read of what was kept. */
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { AuditFile, BEGUN } from './audit-file.ts';

function start(t: TestContext) {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const note = (outcome: string, args = {}, file = new AuditFile(dir, clock)): void =>
    file.append({ caller: 'chief', verb: 'tokens.revoke', args, outcome });
  const page = (limit = 100, before?: number, file = new AuditFile(dir, clock)): ReturnType<AuditFile['page']> =>
    file.page(before, limit, () => true);
  return { dir, path: join(dir, 'audit.jsonl'), clock, note, page };
}

const shown = ({ items }: ReturnType<AuditFile['page']>): unknown[] => items.map(({ id, outcome }) => [id, outcome]);

test('a verb that the helper did not survive is interrupted; a torn line costs no other line', (t) => {
  const { dir, note, page, path, clock } = start(t);
  assert.deepEqual(page(), { items: [], next: null });
  note(BEGUN);
  new AuditFile(dir, clock).append({ caller: 'chief', verb: 'tokens.list', args: {}, outcome: 'done' });
  note(BEGUN, { name: 'ops' });
  clock.advance(1_500);
  note('done', { name: 'ops' });
  const [done] = page().items;
  assert.equal(Date.parse(done?.endedAt ?? '') - Date.parse(done?.at ?? ''), 1_500);
  assert.deepEqual(shown(page()), [
    [3, 'done'],
    [2, 'done'],
    [1, 'interrupted'],
  ]);
  appendFileSync(path, '{"n":5,"at":"2026');
  note('failed: CONFLICT');
  assert.deepEqual(shown(page(1)), [[5, 'failed: CONFLICT']]);
  assert.equal(page().items.length, 4);
});

test('lines of a build that had no numbers have one, and the new ones follow', (t) => {
  const { note, page, path } = start(t);
  const old = JSON.stringify({
    at: '2026-03-01T09:30:00+00:00',
    caller: 'a',
    verb: 'restart',
    args: {},
    outcome: BEGUN,
  });
  writeFileSync(path, `${old}\n${old.replace(BEGUN, 'done')}\n`);
  note('done');
  assert.deepEqual(shown(page()), [
    [3, 'done'],
    [1, 'done'],
  ]);
});

test('two files of a bounded size are read as one list, whose pages neither repeat nor leave out', (t) => {
  const { dir, note, page, path, clock } = start(t);
  const file = new AuditFile(dir, clock);
  const args = { name: 'x'.repeat(100_000) };
  const sizes: number[] = [];
  for (let i = 0; i < 40; i++) {
    note('done', args, file);
    sizes.push(statSync(`${path}.1`, { throwIfNoEntry: false })?.size ?? 0);
  }
  const [largest = 0] = sizes.toSorted((a, b) => b - a);
  assert.ok(largest > 1_000_000 && largest < 1_200_000, String(largest));
  const ids: number[] = [];
  for (let before: number | undefined; ; ) {
    const { items, next } = page(100, before);
    ids.push(...items.map(({ id }) => id));
    assert.ok(JSON.stringify(items).length < 700_000);
    if (next === null) break;
    before = next;
  }
  assert.ok(ids.length > 11 && ids.length < 22, String(ids.length));
  assert.deepEqual(
    ids,
    ids.map((_, i) => 40 - i),
  );
  assert.ok(readFileSync(path, 'utf8').length < 1_200_000);
});
