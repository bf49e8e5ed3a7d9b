import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { PositionFile, type Saved, SLOT_BYTES } from './persisted-state.ts';

const dir = temporaryDirectory({ after });

const saved = (afterId: number): Saved => ({
  places: [{ logId: 'log', afterId, lastId: afterId + 5 }],
  budget: { ranMs: 10, hours: [[0, 1]] },
  unset: { logId: 'log', bootId: 'boot', ranges: [[1, 2]] },
});

async function loaded(path: string): Promise<Saved | undefined> {
  const file = new PositionFile(path);
  try {
    return await file.load();
  } finally {
    await file.close();
  }
}

test('the last saved state is loaded; before the first save there is none', async () => {
  const path = join(dir, 'plain');
  const file = new PositionFile(path);
  assert.equal(await file.load(), undefined);
  for (const n of [1, 2, 3]) {
    await file.save(saved(n));
    assert.deepEqual(await loaded(path), saved(n));
  }
  await file.close();
  const again = new PositionFile(path);
  await again.load();
  await again.save(saved(4));
  await again.close();
  assert.deepEqual(await loaded(path), saved(4));
  assert.deepEqual([statSync(path).size, statSync(path).mode & 0o777], [2 * SLOT_BYTES, 0o600]);
});

test('a write that was cut anywhere, or tore into rubbish, leaves the position of before or after', async () => {
  const path = join(dir, 'torn');
  const file = new PositionFile(path);
  const states = [Buffer.alloc(0)];
  for (let n = 1; n <= 4; n++) {
    await file.save(saved(n));
    states.push(readFileSync(path));
  }
  await file.close();
  for (let n = 1; n <= 4; n++) {
    const [before, whole] = [states[n - 1] ?? Buffer.alloc(0), states[n] ?? Buffer.alloc(0)];
    const from = (n % 2) * SLOT_BYTES;
    for (let cut = 0; cut <= SLOT_BYTES; cut += 31) {
      for (const rubbish of [undefined, 0xa5]) {
        const torn = Buffer.alloc(Math.max(before.length, cut === 0 ? 0 : from + cut), 0);
        before.copy(torn);
        whole.copy(torn, from, from, from + cut);
        if (rubbish !== undefined && torn.length > from + cut)
          torn.fill(rubbish, from + cut, Math.min(torn.length, from + SLOT_BYTES));
        writeFileSync(path, torn);
        const found = (await loaded(path))?.places[0]?.afterId ?? 0;
        assert.ok(found === n - 1 || found === n, `write ${n} cut at ${cut}: ${found}`);
      }
    }
  }
});

test('after a torn write the other slot is kept until the next one is whole', async () => {
  const path = join(dir, 'next');
  const file = new PositionFile(path);
  for (const n of [1, 2, 3]) await file.save(saved(n));
  await file.close();
  const bytes = readFileSync(path);
  bytes.fill(0xff, SLOT_BYTES + 10, SLOT_BYTES + 100);
  writeFileSync(path, bytes);
  const again = new PositionFile(path);
  assert.deepEqual(await again.load(), saved(2));
  await again.save(saved(7));
  assert.deepEqual(await loaded(path), saved(7));
  // That went into the torn slot: the second is still there.
  const now = readFileSync(path);
  now.fill(0, SLOT_BYTES, 2 * SLOT_BYTES);
  writeFileSync(path, now);
  assert.deepEqual(await loaded(path), saved(2));
  await again.close();
});

test('the largest position there can be fits', async () => {
  const path = join(dir, 'large');
  const file = new PositionFile(path);
  const id = Number.MAX_SAFE_INTEGER;
  const uuid = 'xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx';
  await file.save({
    places: Array.from({ length: 4 }, () => ({ logId: uuid, afterId: id, lastId: id })),
    budget: { ranMs: id, hours: Array.from({ length: 25 }, () => [1e9, 1e12] as const) },
    unset: { logId: uuid, bootId: uuid, ranges: Array.from({ length: 64 }, () => [id, id] as const) },
  });
  await file.close();
  assert.equal((await loaded(path))?.unset.ranges.length, 64);
});

test('a place that cannot be written is said', async () => {
  const file = new PositionFile(join(dir, 'missing', 'file'));
  await assert.rejects(file.load(), { code: 'STORAGE_FAILED' });
  await assert.rejects(file.save(saved(1)), { code: 'STORAGE_FAILED' });
});
