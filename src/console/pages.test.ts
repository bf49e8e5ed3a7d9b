import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { olderRows } from './pages.ts';
import { MAX_LINES, type Row } from './rows.ts';

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
