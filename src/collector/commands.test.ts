/** What reading the collector's files gives: each id once, what is missing said, and times put right. */
import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { CliIo } from '../cli/io.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../shared/base/logger.ts';
import { lineside } from '../shared/proto/services.ts';
import { type BatchLike, batchOf, encoded, stored, temporaryDirectory, words } from './batches.fixture.ts';
import { type ReadOptions, readCommand } from './commands.ts';
import { realDisk, StoredLog } from './stored-log.ts';

const { ENTRY_CLOCK_NOT_SET } = lineside.v1.EntryClock;

/** A root with one log of these batches. */
async function written(batches: readonly BatchLike[], segmentBytes?: number): Promise<{ root: string; dir: string }> {
  const root = temporaryDirectory();
  const dir = join(root, 'box-1', 'log-1');
  const log = await StoredLog.open(dir, silentLogger, realDisk, segmentBytes);
  for (const like of batches) await log.append(encoded(like), batchOf(like));
  await log.close();
  return { root, dir };
}

async function read(
  options: Partial<ReadOptions> & { dir: string },
): Promise<{ status: number; out: string; err: string }> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const io: CliIo = {
    stdin: new PassThrough(),
    stdout,
    stderr,
    env: {},
    clock: new FakeClock(),
    onSignal: () => () => undefined,
  };
  const all = Promise.all([text(stdout), text(stderr)]);
  const status = await readCommand({ view: 'both', ...options }, io);
  stdout.end();
  stderr.end();
  const [out, err] = await all;
  return { status, out, err };
}

interface Line {
  readonly log?: { deviceId: string; logId: string };
  readonly gap?: { cause: string; firstId: number; lastId: number; entries: number };
  readonly id?: number;
  readonly timestampMs?: number;
  readonly uncorrectedTimestampMs?: number;
  readonly clock?: string;
}

async function lines(dir: string): Promise<Line[]> {
  const { out } = await read({ dir, json: true });
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

describe('reading what a collector has', () => {
  it('gives each id once and in order, however batches are cut when they come again', async () => {
    const cut = fc.record({ back: fc.nat(8), on: fc.integer({ min: 0, max: 9 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(cut, { minLength: 1, maxLength: 12 }), fc.nat(30), async (cuts, gapAt) => {
        const batches: BatchLike[] = [];
        let through = 0;
        for (const { back, on } of cuts) {
          const after = Math.max(0, through - back);
          const to = Math.max(after, through + on - 4);
          // The same ids are missing however it is cut, as they are on a box.
          const gaps = gapAt > after && gapAt <= to ? [{ from: gapAt, to: Math.min(gapAt + 1, to) }] : [];
          const late = gapAt + 1 === after + 1 && to > after ? [{ from: after + 1, to: after + 1 }] : gaps;
          batches.push({ after, through: to, gaps: late });
          through = Math.max(through, to);
        }
        const { root } = await written(batches, 300);
        const found = await stored(root);
        const ids = found.flatMap((word) => {
          const [, from, to = from] = /^(\d+)(?:-(\d+) overtaken)?$/.exec(word) ?? [];
          return from === undefined ? [word] : words(Number(from), Number(to));
        });
        assert.deepEqual(ids, words(1, through), JSON.stringify(batches));
      }),
      { numRuns: 60 },
    );
  });

  it('puts right the times of entries whose correction came later, by the latest one, and leaves the others alone', async () => {
    const { root } = await written([
      { after: 0, through: 4, clock: ENTRY_CLOCK_NOT_SET },
      { after: 4, through: 5 },
      { after: 5, through: 6, corrections: [{ from: 1, to: 5, ms: 1_000 }] },
      { after: 6, through: 6, corrections: [{ from: 2, to: 3, ms: -500 }] },
    ]);
    const times = (await lines(root)).flatMap(({ id, timestampMs = 0, uncorrectedTimestampMs, clock }) =>
      id === undefined ? [] : [[id, timestampMs - 1_700_000_000_000, uncorrectedTimestampMs === undefined, clock]],
    );
    assert.deepEqual(times, [
      [1, 1_001, false, 'corrected'],
      [2, -498, false, 'corrected'],
      [3, -497, false, 'corrected'],
      [4, 1_004, false, 'corrected'],
      [5, 5, true, 'known'],
      [6, 6, true, 'known'],
    ]);
  });

  it('says what is missing: on the box, with the log it replaced, and here', async () => {
    const { root, dir } = await written(
      [
        { after: 0, through: 10, gaps: [{ from: 3, to: 5 }] },
        { after: 10, through: 12 },
        { after: 12, through: 14 },
        { after: 14, through: 15, ids: [], gaps: [{ from: 15, to: 15, openEnded: true }] },
      ],
      100,
    );
    const [, second = ''] = readdirSync(dir).sort();
    rmSync(join(dir, second));
    assert.deepEqual(await stored(root), [
      ...words(1, 2),
      '3-5 overtaken',
      ...words(6, 10),
      '11-12 notHere',
      ...words(13, 14),
      '15-15 logReplaced',
    ]);
    const { out, status } = await read({ dir: root });
    assert.equal(status, 0);
    assert.match(out, /^== device box-1, log log-1 ==\n/);
    assert.match(out, /-- at most 3 entries, ids 3 to 5, removed on the box before they could be sent --\n/);
    assert.match(out, /-- at most 2 entries, ids 11 to 12, not here --\n/);
    assert.match(out, /-- an unknown number of entries lost with the box's log, which was replaced --\n/);
  });

  it('says which file is damaged, with a status of its own, and continues with the next', async () => {
    const { root, dir } = await written(
      [
        { after: 0, through: 2 },
        { after: 2, through: 4 },
        { after: 4, through: 6 },
      ],
      100,
    );
    const [, second = ''] = readdirSync(dir).sort();
    const bytes = readFileSync(join(dir, second));
    bytes.writeUInt8((bytes.at(-1) ?? 0) ^ 1, bytes.length - 1);
    writeFileSync(join(dir, second), bytes);
    assert.deepEqual(await stored(root), ['1', '2', 'damage', '3-4 notHere', '5', '6']);
    const { status, err } = await read({ dir: root, json: true });
    assert.equal(status, 7);
    assert.match(err, /00000000000000000002\.batches is damaged/);
  });

  it('takes what is being written at the end of the last file for what is not there yet', async () => {
    const { root, dir } = await written([{ after: 0, through: 2 }]);
    const [file = ''] = readdirSync(dir);
    appendFileSync(join(dir, file), Buffer.from([200, 0, 0, 0, 1, 2, 3, 4, 5]));
    assert.deepEqual(await stored(root), ['1', '2']);
    assert.equal((await read({ dir: root })).status, 0);
  });

  it('finds the log that is asked for, and says where there is nothing', async () => {
    const { root } = await written([{ after: 0, through: 2 }]);
    assert.equal((await read({ dir: root, device: 'box-1', log: 'log-1' })).status, 0);
    const err = 'lineside: nothing is stored there of what was asked for.\n';
    for (const nothing of [{ device: 'box-2' }, { log: 'log-2' }]) {
      assert.deepEqual(await read({ dir: root, ...nothing }), { status: 5, out: '', err });
    }
  });
});
