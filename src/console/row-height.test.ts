import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { visibleColumns } from '../shared/log-formats/byte-text.ts';
import { hangs, wrappedPx } from './row-height.ts';
import type { LineRow, ShownRow } from './rows.ts';

function line(text: string, note = ''): LineRow {
  const bytes = new TextEncoder().encode(text);
  const columns = visibleColumns(bytes);
  return {
    kind: 'line',
    id: 1,
    lastId: 1,
    dir: 'rx',
    timestampMs: 0,
    clock: 'known',
    bytes,
    endBytes: 0,
    note,
    columns,
  };
}

describe('a line that wraps', () => {
  const linesOf = (row: ShownRow, columns: number): number => (wrappedPx({ columns, linePx: 20 })(row) - 9) / 20;

  it('stands below the time where there is room for that, else below the text', () => {
    assert.equal(hangs({ columns: 80, linePx: 20 }), true);
    assert.deepEqual(
      [0, 63, 64, 126, 127].map((length) => linesOf(line('x'.repeat(length)), 80)),
      [1, 1, 2, 2, 3],
    );
    assert.equal(hangs({ columns: 40, linePx: 20 }), false);
    assert.deepEqual(
      [0, 23, 24, 63, 64].map((length) => linesOf(line('x'.repeat(length)), 40)),
      [1, 1, 2, 2, 3],
    );
  });

  it('has room for escapes, a note, and wide characters', () => {
    assert.equal(linesOf(line('\x01'.repeat(6)), 40), 2);
    assert.equal(linesOf(line('\u6c34'.repeat(12)), 40), 2);
    assert.equal(linesOf(line('\u00e9'.repeat(23)), 40), 1);
    assert.equal(linesOf(line('x'.repeat(20), 'noted'), 40), 2);
  });

  it('is drawn before the size of a character is known', () => {
    assert.equal(wrappedPx({ columns: 0, linePx: 0 })(line('abc')), 9);
  });
});
