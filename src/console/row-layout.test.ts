import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { visibleColumns } from '../shared/log-formats/byte-text.ts';
import { hangs, isAtEnd, RowLayout, wrappedPx } from './row-layout.ts';
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
const layoutOf = (...heights: number[]): RowLayout => {
  let next = 0;
  return new RowLayout(Array<ShownRow>(heights.length).fill(line('')), () => heights[next++] ?? 0);
};
const even = (count: number): RowLayout => layoutOf(...Array<number>(count).fill(50));

describe('a long list', () => {
  it('draws what is in sight and a little more', () => {
    assert.deepEqual(even(5_000).drawn(0, 500), { from: 0, to: 19 });
    assert.deepEqual(even(5_000).drawn(100_000, 500), { from: 1_992, to: 2_019 });
    assert.deepEqual(even(3).drawn(0, 500), { from: 0, to: 3 });
    assert.deepEqual(even(0).drawn(0, 500), { from: 0, to: 0 });
    // The list has become shorter than where it was scrolled to.
    assert.deepEqual(even(3).drawn(10_000, 500), { from: 3, to: 3 });
  });

  it('scrolls as far as a row needs to be seen', () => {
    const rows = layoutOf(50, 50, 100, 300, 20);
    assert.equal(rows.scrollToShow(2, 100, 200), 100);
    assert.equal(rows.scrollToShow(1, 100, 200), 50);
    assert.equal(rows.scrollToShow(4, 100, 200), 320);
    assert.equal(rows.scrollToShow(3, 0, 200), 200, 'the begin of a row that is higher than the view');
    assert.deepEqual([rows.scrollToMiddle(2, 200), rows.scrollToMiddle(3, 200)], [50, 200]);
    assert.equal(isAtEnd(796.5, 200, 1_000), true);
    assert.equal(isAtEnd(700, 200, 1_000), false);
  });

  it('knows which row is at each height', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 99 })), fc.nat(3_000), (heights, px) => {
        const rows = layoutOf(...heights);
        const index = rows.indexAt(px);
        assert.equal(rows.wholePx, rows.topOf(heights.length));
        if (px >= rows.wholePx) assert.equal(index, heights.length);
        else assert.ok(rows.topOf(index) <= px && px < rows.topOf(index + 1));
      }),
    );
  });
});

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
