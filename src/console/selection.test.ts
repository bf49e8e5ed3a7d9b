import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LineBuffer } from './lines.ts';
import type { EntryRow, ShownRow } from './rows.ts';
import {
  copiedText,
  everyRow,
  holds,
  isSelected,
  MAX_COPIED,
  moved,
  picked,
  type Selection,
  selectedRows,
} from './selection.ts';

const entry = (id: number, bytes = `line ${id}\n`, own: Partial<EntryRow> = {}): EntryRow => ({
  kind: 'entry',
  id,
  dir: 'rx',
  timestampMs: Date.UTC(2026, 10, 22, 12, 0, id),
  clock: 'known',
  bytes: new TextEncoder().encode(bytes),
  note: '',
  ...own,
});
const rows: readonly ShownRow[] = [1, 2, 3, 4, 5].map((id) => entry(id));
const press = (selection: Selection | undefined, key: string, held: { shiftKey?: true; control?: true } = {}) =>
  moved(rows, selection, { key, shiftKey: false, control: false, ...held }, 2);
const ids = (selection: Selection | 'none' | undefined): number[] =>
  selection === 'none' ? [] : selectedRows(rows, selection).map(({ id }) => id);

describe('a selection of rows', () => {
  it('is one row after a click or a key, and extends from its anchor with Shift', () => {
    const one = picked(undefined, 2, false);
    assert.deepEqual(ids(one), [2]);
    const more = picked(one, 4, true);
    assert.deepEqual(ids(more), [2, 3, 4]);
    assert.deepEqual(ids(picked(more, 1, true)), [1, 2]);
    assert.deepEqual(ids(picked(undefined, 3, true)), [3]);
    assert.deepEqual(ids(press(more, 'ArrowDown')), [5]);
    assert.deepEqual(ids(press(more, 'ArrowDown', { shiftKey: true })), [2, 3, 4, 5]);
    assert.deepEqual(ids(press(more, 'ArrowUp', { shiftKey: true })), [2, 3]);
    assert.deepEqual(ids(press(more, 'Home', { shiftKey: true })), [1, 2]);
    assert.deepEqual(ids(press(one, 'PageDown')), [4]);
    assert.deepEqual(ids(press(one, 'End', { shiftKey: true })), [2, 3, 4, 5]);
  });

  it('begins at an end of the list where nothing is selected, or where its row has left', () => {
    for (const none of [undefined, { anchor: 99, head: 99 }]) {
      assert.deepEqual(ids(press(none, 'ArrowDown')), [1]);
      assert.deepEqual(ids(press(none, 'ArrowUp')), [5]);
    }
    assert.equal(moved([], undefined, { key: 'End', shiftKey: false, control: false }, 2), undefined);
  });

  it('is everything with Ctrl+A, nothing with Esc, and keeps other keys for the browser', () => {
    assert.deepEqual(ids(press(undefined, 'a', { control: true })), [1, 2, 3, 4, 5]);
    assert.equal(press(picked(undefined, 1, false), 'Escape'), 'none');
    // For what is around the list.
    assert.equal(press(undefined, 'Escape'), undefined);
    for (const key of ['Tab', 'a', 'toString']) assert.equal(press(picked(undefined, 1, false), key), undefined);
    assert.equal(press(picked(undefined, 1, false), 'ArrowDown', { control: true }), undefined);
    assert.equal(everyRow([]), undefined);
  });

  it('keeps its ends when rows arrive, leave, or are hidden by a search', () => {
    const all = everyRow(rows);
    assert.deepEqual(
      selectedRows([entry(2), entry(5), entry(6)], all).map(({ id }) => id),
      [2, 5],
    );
    assert.equal(isSelected(undefined, 1), false);
  });
});

describe('the rows of an entry', () => {
  it('are itself, or the lines with some of its bytes', () => {
    const all = [entry(1, 'a'), entry(2, 'x', { dir: 'tx' }), entry(3, 'b\nc\nd'), entry(4, 'e\n'), entry(5, 'f')];
    const lines = new LineBuffer().update(all);
    const found = (rows: readonly ShownRow[], id: number): number[] =>
      rows.flatMap((row, at) => (holds(row, all[id - 1] ?? entry(0)) ? [at] : []));
    assert.deepEqual(found(all, 3), [2]);
    assert.deepEqual(
      [1, 2, 3, 4, 5].map((id) => found(lines, id)),
      [[0], [1], [0, 2, 3], [3], [4]],
    );
  });
});

describe('what is copied', () => {
  const mixed: readonly ShownRow[] = [
    entry(1, 'a\tß\r\n', { note: 'by hand', clock: 'corrected' }),
    entry(2, '\x01', { dir: 'tx' }),
    { kind: 'gap', id: 9, firstId: 3, entries: 7, reason: 'disk full' },
  ];

  it('is what is shown: time, mark, direction, bytes in their form, note, and what is missing', () => {
    const [first, second, third] = (copiedText(mixed, 'text', false) ?? '').split('\n');
    assert.match(first ?? '', /^2026-11-22 \d\d:00:01\.000~RX a\\tß\\r\\n # by hand$/);
    assert.match(second ?? '', /^2026-11-22 \d\d:00:02\.000 TX \\x01$/);
    assert.equal(third, '-- 7 entries are missing here: disk full --');
    assert.match(copiedText(mixed, 'hex', false) ?? '', /TX 01\n/);
    assert.match(copiedText(mixed, 'both', false) ?? '', /TX 01 {2}\\x01\n/);
  });

  it('is the bytes alone on request', () => {
    assert.equal(copiedText(mixed, 'hex', true), '61 09 c3 9f 0d 0a\n01\n');
  });

  it('is a line for each line of text, without its end', () => {
    const lines = new LineBuffer().update([
      entry(1, 'Temp 2'),
      entry(2, '1.5\r\n\x01 end', { dir: 'rx' }),
      entry(3, '?'),
    ]);
    assert.equal(copiedText(lines, 'lines', true), 'Temp 21.5\n\\x01 end?\n');
    assert.match(
      copiedText(lines, 'lines', false) ?? '',
      /^2026-11-22 \d\d:00:01\.000 RX Temp 21\.5\n.*:02\.000 RX \\x01 end\?\n$/,
    );
  });

  it('is whole, not cut as on the screen, and has a limit', () => {
    const long = 'x'.repeat(5_000);
    assert.equal(copiedText([entry(1, long)], 'text', true), `${long}\n`);
    assert.equal(copiedText([entry(1, 'x'.repeat(MAX_COPIED / 2))], 'hex', true), undefined);
  });
});
