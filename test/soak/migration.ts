/**
 * A database of version 4 of any size, moved to the newest by a process that is killed at random moments, and again until it is
 * complete: what each delivery sends and what each record was are the same before and after. Reports time, memory and the size of the write-ahead log.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  addDeliveries,
  bodiesAfter,
  bodiesBefore,
  connect,
  type Part,
  sampleIn,
} from '../../src/hub/contents-migration.fixture.ts';
import { hubMigrations } from '../../src/hub/migrations.ts';
import { pendingMoves } from '../../src/shared/storage/migrate.ts';
import type { Connection } from '../../src/shared/storage/open.ts';
import { NODE, ROOT } from '../e2e/daemon.ts';
import { seeded } from './random.ts';

const MIB = 1024 * 1024;
const PART = 5_000;

export async function migrationRun(
  dir: string,
  fileMib: number,
  kills: number,
  seed: number,
  say: (line: string) => void,
) {
  const path = sampleIn(dir);
  let connection = connect(path);
  grow(connection, path, fileMib * MIB);
  const before = digestOf((part) => bodiesBefore(connection, part));
  const deliveries = Number(connection.prepare('SELECT count(*) FROM webhook_deliveries').pluck().get());
  const estimateFrom = performance.now();
  const estimates = (pendingMoves(connection, hubMigrations) ?? []).map((move) => move.estimate(connection, () => {}));
  const bytes = estimates.reduce((sum, one) => sum + one.bytes, 0);
  const estimateS = (performance.now() - estimateFrom) / 1_000;
  assert.deepEqual([estimates[0]?.rows, (estimates[1]?.rows ?? 0) > 0], [deliveries, true]);
  const records = recordsDigest(connection, 'JOIN record_versions v ON v.record_id = r.id');
  connection.close();
  const from = statSync(path).size;
  say(`${Math.round(from / MIB)} MiB with ${deliveries} deliveries`);

  const random = seeded(seed);
  const peaks = { resident: 0, wal: 0 };
  let [killed, seconds] = [0, 0];
  for (let done = false; !done; ) {
    const fromMs = performance.now();
    const child = spawn(NODE, ['--import', 'tsx', '--input-type=module', '-e', program(dir)], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    const moved = firstLine(child);
    await Promise.race([moved, ended]);
    const killMs =
      killed < kills ? performance.now() + random.between(0, Math.min(3_000, fileMib * 15)) : Number.POSITIVE_INFINITY;
    while (child.exitCode === null && performance.now() < killMs) {
      peaks.resident = Math.max(peaks.resident, residentOf(child));
      peaks.wal = Math.max(peaks.wal, existsSync(`${path}-wal`) ? statSync(`${path}-wal`).size : 0);
      await sleep(20);
    }
    child.kill('SIGKILL');
    await ended;
    seconds += (performance.now() - fromMs) / 1_000;
    assert.ok(child.exitCode === 0 || child.signalCode === 'SIGKILL', `the process ended with ${child.exitCode}`);
    done = child.exitCode === 0;
    if (!done) killed += 1;
  }
  connection = connect(path);
  connection.pragma('wal_checkpoint(TRUNCATE)');
  assert.equal(connection.pragma('user_version', { simple: true }), hubMigrations.length);
  const after = digestOf((part) => bodiesAfter(connection, part));
  assert.deepEqual(after, before);
  assert.equal(
    recordsDigest(
      connection,
      'JOIN record_versions v ON v.id IN (r.newest_id, (SELECT previous_id FROM record_versions WHERE id = r.newest_id))',
    ),
    records,
  );
  assert.equal(connection.pragma('quick_check', { simple: true }), 'ok');
  connection.close();
  const mib = (size: number): number => Math.round(size / MIB);
  const growth = statSync(path).size - from;
  assert.ok(growth <= bytes, `it grew by ${growth}, estimated were ${bytes}`);
  return {
    fileMib: mib(from),
    deliveries,
    kills: killed,
    estimateS: Math.round(estimateS * 10) / 10,
    estimatedMib: mib(bytes),
    grownMib: mib(growth),
    /** Of all processes together, killed ones too. */
    seconds: Math.round(seconds),
    peakResidentMib: mib(peaks.resident),
    peakWalMib: mib(peaks.wal),
  };
}

/** Events of 0.3 to 8 KB; of each ten transactions one is for 20 subscriptions. */
function grow(connection: Connection, path: string, size: number): void {
  for (let round = 0; statSync(path).size < size; round++) {
    addDeliveries(connection, 900, 1, [100, 800, 2_500, 6_000][round % 4]);
    addDeliveries(connection, 100, 20, 400);
    addRecords(connection);
    connection.pragma('wal_checkpoint(TRUNCATE)');
  }
}

/** One of each event, with two versions. */
function addRecords(connection: Connection): void {
  connection.exec(`
    INSERT OR IGNORE INTO dictionaries (id, name, title, scope, version, created_at, updated_at, changed_by)
      VALUES (100, 'moved', '', 'PUBLIC', 1, '', '', '');
    INSERT INTO records SELECT id, 100, business_key || id, 2, 0 FROM outbox_events
      WHERE id > (SELECT coalesce(max(id), 0) FROM records);
    INSERT INTO record_versions SELECT r.id, n.value, 'updated', tx_time, '9999', tx_time, 'anna', '', body
      FROM records r JOIN outbox_events e ON e.id = r.id JOIN json_each('[1, 2]') n
      WHERE r.id > (SELECT coalesce(max(record_id), 0) FROM record_versions)`);
}

/** In any order. */
function recordsDigest(connection: Connection, versions: string): number {
  const said = connection
    .prepare<[], string>(
      `SELECT json_array(business_key, r.version, closed, v.version, valid_from, data) FROM records r ${versions}`,
    )
    .pluck();
  let sum = 0;
  for (const row of said.iterate()) sum = (sum + createHash('sha256').update(row).digest().readUIntBE(0, 6)) % 2 ** 48;
  return sum;
}

function digestOf(read: (part: Part) => ReadonlyMap<number, string | null>): {
  readonly count: number;
  readonly digest: string;
} {
  const hash = createHash('sha256');
  let [after, count] = [0, 0];
  for (let found = read({ after, limit: PART }); found.size > 0; found = read({ after, limit: PART })) {
    for (const [id, body] of found) {
      hash.update(`${id} ${body}\n`);
      after = id;
      count += 1;
    }
  }
  return { count, digest: hash.digest('hex') };
}

function program(dir: string): string {
  return `
    import { hubMigrations } from './src/hub/migrations.ts';
    import { moveRows, pendingRows } from './src/hub/outbox/refdata-file.ts';
    const dir = ${JSON.stringify(dir)};
    pendingRows(dir, hubMigrations, () => {});
    console.log('begun');
    for (const batch of moveRows(dir, hubMigrations));`;
}

async function firstLine(child: ChildProcess): Promise<void> {
  if (child.stdout !== null) await once(child.stdout, 'data');
}

/** The most that it has had, in bytes. */
function residentOf({ pid }: ChildProcess): number {
  try {
    return (
      Number(/^VmHWM:\s*(\d+) kB/m.exec(readFileSync(join('/proc', String(pid), 'status'), 'utf8'))?.[1] ?? 0) * 1024
    );
  } catch {
    return 0;
  }
}
