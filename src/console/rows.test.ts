import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type EntryRow, filterFor, type LineEvent, MAX_ROWS, type Row, RowBuffer, withEvents } from './rows.ts';

function entry(id: number, text = 'x', dir: 'rx' | 'tx' = 'rx'): EntryRow {
  const bytes = new TextEncoder().encode(text);
  return { kind: 'entry', id, dir, timestampMs: id, clock: 'known', bytes, note: '' };
}
const gap = (firstId: number, id: number): Row => ({ kind: 'gap', id, firstId, entries: id - firstId + 1, reason: '' });
const entries = (from: number, to: number): EntryRow[] =>
  Array.from({ length: to - from + 1 }, (_, i) => entry(from + i));
const ids = (buffer: RowBuffer): number[] => buffer.rows.map(({ id }) => id);

describe('the rows that the page holds', () => {
  it('are bounded over 50,000 entries, the newest stay', () => {
    const buffer = new RowBuffer();
    for (let from = 1; from <= 50_000; from += 100) {
      buffer.append(entries(from, from + 99));
      assert.ok(buffer.rows.length <= MAX_ROWS);
    }
    assert.deepEqual([buffer.rows.length, buffer.firstId, buffer.lastId], [MAX_ROWS, 50_000 - MAX_ROWS + 1, 50_000]);
  });

  it('are bounded in bytes and in ends of lines, one row stays in any case', () => {
    const buffer = new RowBuffer(100, 10);
    buffer.append([entry(1, '1234'), entry(2, '1234'), entry(3, '1234')]);
    assert.deepEqual(ids(buffer), [2, 3]);
    buffer.append([entry(4, 'longer than all that is allowed')]);
    assert.deepEqual(ids(buffer), [4]);
    buffer.append([entry(5, 'x')]);
    assert.deepEqual(ids(buffer), [5]);
    const lines = new RowBuffer(100, 100, 3);
    lines.append([entry(1, 'a\r\nb\r'), entry(2, '\n'), entry(3, '\r')]);
    assert.deepEqual(ids(lines), [2, 3]);
  });

  it('have no entry twice', () => {
    const buffer = new RowBuffer();
    buffer.append(entries(1, 5));
    buffer.append(entries(3, 7));
    assert.deepEqual(ids(buffer), [1, 2, 3, 4, 5, 6, 7]);
    buffer.prepend(entries(1, 3));
    assert.deepEqual(ids(buffer), [1, 2, 3, 4, 5, 6, 7]);
  });

  it('go further back, and then end before the end of the log', () => {
    const buffer = new RowBuffer(5, 1_000);
    buffer.append(entries(10, 14));
    assert.equal(buffer.prepend(entries(7, 9)), true);
    assert.deepEqual(ids(buffer), [7, 8, 9, 10, 11]);
    assert.equal(new RowBuffer().prepend(entries(1, 3)), false);
  });

  it('know where a gap begins', () => {
    const buffer = new RowBuffer();
    buffer.append([gap(3, 8), entry(9)]);
    assert.deepEqual([buffer.firstId, buffer.lastId], [3, 9]);
    buffer.clear();
    assert.deepEqual([buffer.firstId, buffer.lastId], [0, 0]);
  });
});

describe('the filter', () => {
  const rows: Row[] = [entry(1, 'Temp 21\r\n'), entry(2, 'PING', 'tx'), gap(3, 4), entry(5, 'TEMP\x02')];
  const found = (dir: 'all' | 'rx' | 'tx', text: string, as: 'text' | 'hex' = 'text'): number[] =>
    rows.filter(filterFor({ dir, text, as }).matches).map(({ id }) => id);

  it('takes a direction, and text whatever its case; gaps stay', () => {
    assert.deepEqual(found('all', ''), [1, 2, 4, 5]);
    assert.deepEqual(found('tx', ''), [2, 4]);
    assert.deepEqual(found('all', 'temp'), [1, 4, 5]);
    assert.deepEqual(found('rx', 'ping'), [4]);
    assert.deepEqual(found('all', '\\x02'), [4, 5]);
    assert.deepEqual(found('all', '21\\r\\n'), [1, 4]);
  });

  it('takes hex exactly as it is', () => {
    assert.deepEqual(found('all', '54 45', 'hex'), [4, 5]);
    assert.deepEqual(found('all', '0d0a', 'hex'), [1, 4]);
  });

  it('says what it cannot search for, and shows everything meanwhile', () => {
    assert.match(filterFor({ dir: 'all', text: '5', as: 'hex' }).fault, /whole bytes/);
    assert.deepEqual(found('all', '5', 'hex'), [1, 2, 4, 5]);
    assert.equal(filterFor({ dir: 'all', text: '5', as: 'hex' }).narrows, false);
  });
});

const event = (id: number, afterEntryId: number): LineEvent => {
  return { id, afterEntryId, timestampMs: id, clock: 'known', kind: 'opened', by: '', detail: '' };
};

describe('events of the line', () => {
  const shown = (rows: readonly Row[], events: readonly LineEvent[], endsLog: boolean, held = rows): string[] =>
    withEvents(rows, events, held, endsLog).map((row) =>
      row.kind === 'event' ? `event ${row.event.id}` : String(row.id),
    );

  it('stand behind the entry after which they happened, and in their order', () => {
    const events = [event(1, 0), event(2, 2), event(3, 2), event(4, 3)];
    assert.deepEqual(shown(entries(1, 3), events, true), ['event 1', '1', '2', 'event 2', 'event 3', '3', 'event 4']);
    const rows = withEvents(entries(1, 3), events, entries(1, 3), true).map(({ id }) => id);
    assert.deepEqual(
      rows,
      [...new Set(rows)].sort((a, b) => a - b),
    );
  });

  it('of another place in the log are not shown', () => {
    assert.deepEqual(shown(entries(5, 6), [event(1, 3), event(2, 4), event(3, 6), event(4, 9)], false), [
      'event 2',
      '5',
      '6',
      'event 3',
    ]);
    assert.deepEqual(shown([gap(3, 4), ...entries(5, 6)], [event(1, 2), event(2, 9)], true), [
      'event 1',
      '4',
      '5',
      '6',
      'event 2',
    ]);
  });

  it('are those of all rows that are held, however few of them are shown', () => {
    const events = [event(1, 0), event(2, 100), event(3, 104), event(4, 900)];
    assert.deepEqual(shown([], events, false, entries(100, 105)), ['event 2', 'event 3']);
    assert.deepEqual(shown(entries(101, 101), events, false, entries(100, 105)), ['event 2', '101', 'event 3']);
    assert.deepEqual(shown([], events, false), [], 'another place is being loaded');
    assert.deepEqual(shown([], [event(1, 0)], true), ['event 1'], 'a log without an entry');
  });
});
