/** A log on the collector's disk: what a crash leaves, what comes twice, and disks that fail at any call. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { silentLogger } from '../shared/base/logger.ts';
import { type BatchLike, batchOf, encoded, stored, temporaryDirectory, words } from './batches.fixture.ts';
import { RECORD_HEAD_BYTES } from './segment.ts';
import { type Disk, realDisk, StoredLog } from './stored-log.ts';

const FILE = '00000000000000000000.batches';

/** A place for one log, as the collector has it. */
function place(): { root: string; dir: string } {
  const root = temporaryDirectory();
  return { root, dir: join(root, 'box-1', 'log-1') };
}

function open(dir: string, disk?: Disk, segmentBytes?: number): Promise<StoredLog> {
  return StoredLog.open(dir, silentLogger, disk, segmentBytes);
}

function append(log: StoredLog, like: BatchLike): Promise<void> {
  return log.append(encoded(like), batchOf(like));
}

async function write(dir: string, batches: readonly BatchLike[]): Promise<void> {
  const log = await open(dir);
  for (const like of batches) await append(log, like);
  await log.close();
}

async function positionOf(dir: string): Promise<number> {
  const log = await open(dir);
  const position = await log.sync();
  await log.close();
  return position.toNumber();
}

const three: readonly BatchLike[] = [
  { after: 0, through: 2 },
  { after: 2, through: 4 },
  { after: 4, through: 6 },
];
const lengths = three.map((like) => RECORD_HEAD_BYTES + encoded(like).length);
const [first = 0, second = 0, third = 0] = lengths;
const MARK_BYTES = 8;
/** Where each record ends. */
const ends = [MARK_BYTES + first, MARK_BYTES + first + second, MARK_BYTES + first + second + third];

describe('a log of the collector', () => {
  it('resumes behind the last whole record, at whatever byte the file was truncated', async () => {
    const whole = place();
    await write(whole.dir, three);
    assert.equal(readFileSync(join(whole.dir, FILE)).length, ends[2]);
    // Each byte of the mark and of a record that is alone, and those around the ends of the others, which are alike.
    const all = Array.from({ length: (ends[2] ?? 0) + 1 }, (_, size) => size);
    const sizes = all.filter(
      (size) => size <= (ends[0] ?? 0) || ends.some((end) => Math.abs(size - end) <= RECORD_HEAD_BYTES),
    );
    for (const size of sizes) {
      const { root, dir } = place();
      cpSync(whole.dir, dir, { recursive: true });
      truncateSync(join(dir, FILE), size);
      const kept = ends.filter((end) => end <= size).length * 2;
      assert.equal(await positionOf(dir), kept, `cut at ${size}`);
      assert.deepEqual(await stored(root), words(1, kept), `cut at ${size}`);
      await write(dir, three.slice(kept / 2));
      assert.deepEqual(await stored(root), words(1, 6), `cut at ${size}, and gone on`);
    }
  });

  it('takes zeros at the end for what they are: a size that reached the disk without its content', async () => {
    const { root, dir } = place();
    await write(dir, three);
    writeFileSync(join(dir, FILE), Buffer.alloc(10_000), { flag: 'a' });
    assert.equal(await positionOf(dir), 6);
    await write(dir, [{ after: 6, through: 7 }]);
    assert.deepEqual(await stored(root), words(1, 7));
  });

  it('never takes a damaged record, at whatever byte, and sets aside what stands behind it', async () => {
    const whole = place();
    await write(whole.dir, three);
    const good = readFileSync(join(whole.dir, FILE));
    for (let at = MARK_BYTES + first; at < MARK_BYTES + first + second; at += 1) {
      const { root, dir } = place();
      mkdirSync(dir, { recursive: true });
      const bad = Buffer.from(good);
      bad.writeUInt8((bad[at] ?? 0) ^ 0x55, at);
      writeFileSync(join(dir, FILE), bad);
      assert.equal(await positionOf(dir), 2, `damaged at ${at}`);
      // A length that reaches beyond the file is what a crash leaves too: nothing can be concluded from it.
      const aside = readdirSync(dir).filter((name) => name.includes('damaged'));
      if (at > MARK_BYTES + first + 3) assert.deepEqual(aside, [`${FILE}.damaged-at-${MARK_BYTES + first}`]);
      for (const name of aside) assert.deepEqual(readFileSync(join(dir, name)), bad.subarray(MARK_BYTES + first));
      await write(dir, three.slice(1));
      assert.deepEqual(await stored(root), words(1, 6));
    }
  });

  it('drops what it has, takes what overlaps, and refuses what lies ahead', async () => {
    const { root, dir } = place();
    const log = await open(dir);
    await append(log, { after: 0, through: 10 });
    const size = readFileSync(join(dir, FILE)).length;
    await append(log, { after: 0, through: 10 });
    await append(log, { after: 3, through: 7 });
    assert.equal(readFileSync(join(dir, FILE)).length, size, 'what was there is not stored again');
    await append(log, { after: 5, through: 15, gaps: [{ from: 8, to: 12 }] });
    await assert.rejects(append(log, { after: 16, through: 20 }), /after_id: 16 is above the position 15/);
    assert.equal((await log.sync()).toNumber(), 15);
    await log.close();
    assert.deepEqual(await stored(root), [...words(1, 10), '11-12 overtaken', ...words(13, 15)]);
  });

  it('keeps a correction of times though its ids are known, once', async () => {
    const { dir } = place();
    const late: BatchLike = { after: 10, through: 10, corrections: [{ from: 1, to: 10, ms: 5 }] };
    await write(dir, [{ after: 0, through: 10 }, late]);
    const size = readFileSync(join(dir, FILE)).length;
    await write(dir, [late, late]);
    assert.equal(readFileSync(join(dir, FILE)).length, size);
    assert.equal(await positionOf(dir), 10);
  });

  it('does not count what a failed flush may have left in memory only, also once the disk flushes again', async () => {
    const { root, dir } = place();
    let fails = false;
    const disk: Disk = {
      ...realDisk,
      sync: async (file) => {
        if (fails) throw Object.assign(new Error('EIO'), { code: 'EIO' });
        await realDisk.sync(file);
      },
    };
    const log = await open(dir, disk);
    await append(log, { after: 0, through: 2 });
    assert.equal((await log.sync()).toNumber(), 2);
    await append(log, { after: 2, through: 4 });
    fails = true;
    await assert.rejects(log.sync(), { code: 'STORAGE_FAILED' });
    fails = false;
    // The kernel reads such pages back, and its next flush finds nothing to do.
    assert.equal(await positionOf(dir), 2);
    await write(dir, [{ after: 2, through: 6 }]);
    assert.deepEqual(await stored(root), words(1, 6));
  });

  it('survives a failure at any call to the disk: what it said is stored is, once, and nothing is by half', async () => {
    let failures = 0;
    for (let nth = 1; ; nth += 1) {
      const { root, dir } = place();
      const disk = new FailingDisk(nth, nth % 2 === 0 ? 'ENOSPC' : 'EIO');
      const { acknowledged, refusals } = await ship(dir, disk);
      assert.equal(await positionOf(dir), 20, `failure ${nth}`);
      assert.equal(acknowledged, 20);
      assert.deepEqual(await stored(root), words(1, 20), `failure ${nth}`);
      if (!disk.hasFailed) break;
      failures += 1;
      assert.ok(refusals.length > 0, `failure ${nth} was not reported`);
      const code = nth % 2 === 0 ? 'STORAGE_FULL' : 'STORAGE_FAILED';
      assert.ok(
        refusals.every((refusal) => refusal === code || refusal === 'STORAGE_FAILED'),
        refusals.join(),
      );
    }
    assert.ok(failures > 20, `only ${failures} calls`);
  });
});

/** What a box does: on after what is acknowledged, again from the position after a refusal. */
async function ship(dir: string, disk: Disk): Promise<{ acknowledged: number; refusals: string[] }> {
  const refusals: string[] = [];
  let acknowledged = 0;
  for (let tries = 0; acknowledged < 20; tries += 1) {
    assert.ok(tries < 60, refusals.join());
    try {
      const log = await open(dir, disk, 200);
      try {
        const position = (await log.sync()).toNumber();
        assert.ok(position >= acknowledged, `${position} after ${acknowledged} was acknowledged`);
        acknowledged = position;
        for (let after = position; after < 20; after += 2) {
          await append(log, { after, through: Math.min(20, after + 2) });
          acknowledged = (await log.sync()).toNumber();
        }
      } finally {
        await log.close().catch(() => undefined);
      }
    } catch (error) {
      refusals.push((error as { code?: string }).code ?? String(error));
    }
  }
  return { acknowledged, refusals };
}

/** The nth call fails; a write that fails has written half. */
class FailingDisk implements Disk {
  readonly #nth: number;
  readonly #code: string;
  #calls = 0;

  constructor(nth: number, code: string) {
    this.#nth = nth;
    this.#code = code;
  }

  get hasFailed(): boolean {
    return this.#calls >= this.#nth;
  }

  async open(path: string, flags: string): Promise<FileHandle> {
    this.#count();
    return realDisk.open(path, flags);
  }

  async write(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
    try {
      this.#count();
    } catch (error) {
      await realDisk.write(file, bytes.subarray(0, Math.floor(bytes.length / 2)), position);
      throw error;
    }
    await realDisk.write(file, bytes, position);
  }

  async sync(file: FileHandle): Promise<void> {
    this.#count();
    await realDisk.sync(file);
  }

  async truncate(file: FileHandle, size: number): Promise<void> {
    this.#count();
    await realDisk.truncate(file, size);
  }

  #count(): void {
    this.#calls += 1;
    if (this.#calls === this.#nth) throw Object.assign(new Error(this.#code), { code: this.#code });
  }
}
