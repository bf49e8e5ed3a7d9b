import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type EntryRow,
  filterFor,
  type LineEvent,
  MAX_LINES,
  MAX_ROWS,
  olderRows,
  type Row,
  RowBuffer,
  withEvents,
} from './rows.ts';

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

/** A log of such ids, which is read as the box reads it. */
function logOf(ids: readonly number[], bytesEach = 1, byte = 0) {
  const asked: string[] = [];
  const read = async (after: number, limit: number, take: (row: Row) => void): Promise<void> => {
    asked.push(`${after}+${limit}`);
    const found = ids.filter((id) => id > after).slice(0, limit);
    for (const id of found) {
      const bytes = new Uint8Array(bytesEach).fill(byte);
      take({ kind: 'entry', id, dir: 'rx', timestampMs: 0, clock: 'known', bytes, note: '' });
    }
  };
  return {
    asked,
    older: async (firstId: number, firstStored = 1) =>
      (await olderRows(read, firstId, firstStored)).map(({ id }) => id),
  };
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe('older rows', () => {
  it('are the page right before those that are shown, down to what is stored', async () => {
    const { older, asked } = logOf(range(1, 2_000));
    assert.deepEqual(await older(1_501), range(1_001, 1_500));
    assert.deepEqual(await older(301), range(1, 300));
    assert.deepEqual(await older(1_501, 1_400), range(1_400, 1_500));
    assert.deepEqual(await older(1), []);
    assert.deepEqual(await older(1_400, 1_400), []);
    assert.deepEqual(asked, ['1000+500', '0+500', '1399+500']);
  });

  it('are found before the ids that power cuts have left unused, however many', async () => {
    const ids = [...range(1, 700), 16_000, ...range(16_390, 16_400), ...range(60_000, 60_100)];
    const { older, asked } = logOf(ids);
    let first = 60_000;
    const seen: number[] = [];
    for (let rows = await older(first); rows.length > 0; rows = await older(first)) {
      seen.unshift(...rows);
      first = rows[0] ?? 0;
    }
    assert.deepEqual(
      seen,
      ids.filter((id) => id < 60_000),
    );
    assert.ok(asked.length < 40, `${asked.length} requests`);
  });

  it('are none where nothing is before', async () => {
    const { older, asked } = logOf(range(20_000, 20_010));
    assert.deepEqual(await older(20_000), []);
    assert.equal(asked.length, 2);
  });

  it('are fewer where they are large, and still without a hole', async () => {
    const { older } = logOf(range(1, 20), 1024 * 1024);
    assert.deepEqual(await older(21), range(17, 20));
    const lines = logOf(range(1, 20), MAX_LINES / 8, 10);
    assert.deepEqual(await lines.older(21), range(17, 20));
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
