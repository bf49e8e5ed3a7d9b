/** Backup beside a service that is written to all the while, and a restore into nothing. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { backUp, restore, type Site, siteIn } from '../appliance/backup-site.ts';
import { temporaryDirectory } from './daemon.ts';
import { everythingAfter, logStatus, RX } from './faults.ts';
import { type Both, startBoth } from './hub.ts';
import { apiOf, dictionary, expect } from './hub-support.ts';

/** Of entries that are there before, so that the copy takes its time. */
const bigEntries = 48;
const bigBytes = 512 * 1024;
/** Far below what a caller of LogRaw would call stalled; a disk that lets any other program wait longer is not the backup's. */
const longestWaitMs = 3_000;

function start({ etc, dir, data }: Site): Promise<Both> {
  const config = { data: { dir: data, runtime_dir: join(dir, 'run') }, device: { id: 'box-1', inventory: false } };
  return startBoth({ dir: etc, config });
}

/** Writes without a pause until it is stopped; the names of the acknowledged records, in order. */
function writing(write: (n: number) => Promise<unknown>): {
  readonly done: number[];
  longestMs(): number;
  stop(): Promise<void>;
} {
  const done: number[] = [];
  let longest = 0;
  let isOver = false;
  const work = (async () => {
    for (let n = 0; !isOver; n++) {
      const before = performance.now();
      await write(n);
      longest = Math.max(longest, performance.now() - before);
      done.push(n);
    }
  })();
  return {
    done,
    longestMs: () => longest,
    async stop() {
      isOver = true;
      await work;
    },
  };
}

async function logOf({ client }: Both): Promise<{ logId: string | undefined; notes: Set<string> }> {
  const notes = (await everythingAfter(client, 0)).map(({ entry }) => entry?.note ?? '');
  return { logId: (await logStatus(client)).logId, notes: new Set(notes) };
}

const record = (n: number): object => ({ businessKey: `key-${n}`, data: { n, text: 'x'.repeat(2_000) } });
const records = '/api/v1/dictionaries/parts/records';

test('beside a service under load no client waits, and a restore into nothing has all that was acknowledged before', async (t) => {
  const where = siteIn(temporaryDirectory());
  const both = await start(where);

  const api = apiOf(both);
  const { serial } = both.client;
  await dictionary(api, 'parts');
  mkdirSync(join(where.etc, 'secrets/hub'), { recursive: true, mode: 0o700 });
  writeFileSync(join(where.etc, 'secrets/hub/kafka.password'), 'secret\n', { mode: 0o600 });
  for (let n = 0; n < bigEntries; n++) {
    await serial.logRaw({ dir: RX, rawData: randomBytes(bigBytes), note: `big ${n}` });
  }
  const line = writing((n) => serial.logRaw({ dir: RX, rawData: randomBytes(1_000), note: `entry ${n}` }));
  const hub = writing((n) => expect(201, api.post(records, record(n))));
  // What the same disk lets a plain program wait for.
  const plain = await open(join(where.dir, 'plain'), 'w');
  const peer = writing(async () => {
    await plain.write(randomBytes(1_000));
    await plain.datasync();
  });
  await until('both write', () => Math.min(line.done.length, hub.done.length) >= 5 || undefined);
  const before = [line.done.length, hub.done.length] as const;
  await backUp(where);
  const meanwhile = [line.done.length - before[0], hub.done.length - before[1]];
  await Promise.all([line.stop(), hub.stop(), peer.stop()]);
  await plain.close();
  const limitMs = Math.max(longestWaitMs, 2 * peer.longestMs());
  assert.ok(Math.min(...meanwhile) > 3, `written meanwhile: ${meanwhile.join()}`);
  for (const writer of [line, hub]) assert.ok(writer.longestMs() < limitMs, `${writer.longestMs()} ms of ${limitMs}`);
  const { logId } = await logOf(both);
  await both.stop();
  t.diagnostic(
    `written meanwhile: ${meanwhile.join(' and ')}; longest waits ${line.longestMs()} and ${hub.longestMs()} ms`,
  );
  assert.equal(statSync(where.file).mode & 0o777, 0o600);

  rmSync(where.etc, { recursive: true });
  rmSync(where.data, { recursive: true });
  // The place of the data is the new box's to say, not the backup's.
  assert.throws(() => restore(where), /cannot restore line\/log\.db: the backup's configuration puts it at/);
  writeFileSync(where.configFile, `[data]\ndir = ${JSON.stringify(where.data)}\n`);
  restore(where);
  assert.equal(statSync(join(where.etc, 'secrets/hub/kafka.password')).mode & 0o777, 0o600);

  const again = await start(where);
  const log = await logOf(again);
  assert.notEqual(log.logId, logId);
  for (let n = 0; n < bigEntries; n++) assert.ok(log.notes.has(`big ${n}`), `big ${n}`);
  for (let n = 0; n < before[0]; n++) assert.ok(log.notes.has(`entry ${n}`), `entry ${n}`);
  for (let n = 0; n < before[1]; n++) await expect(200, apiOf(again).get(`${records}/key-${n}`));
  // Both continue.
  await again.client.serial.logRaw({ dir: RX, note: 'afterwards' });
  await expect(201, apiOf(again).post(records, record(1_000_000)));
  await again.stop();
});
