import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { errorCatalogue, LinesideError } from '../shared/base/errors.ts';
import { exchange } from '../shared/base/exchange.fixture.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { fill, mountSmall } from '../shared/base/small-disk.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { parseConfig } from '../shared/config/parse.ts';
import type { ServiceStart } from '../shared/host/service-process.ts';
import type { Migrations } from '../shared/storage/open.ts';
import { bringUp } from './bring-up.ts';
import { addDeliveries, bodiesAfter, bodiesBefore, connect, sampleIn } from './contents-migration.fixture.ts';
import { contentsMigration } from './contents-migration.ts';
import { startHub } from './hub-process.ts';
import { hubMigrations } from './migrations.ts';
import { openRefdataFile } from './outbox/refdata-file.ts';

const migrations: Migrations = [...hubMigrations.slice(0, 4), contentsMigration(5)];

interface Rig {
  readonly dir: string;
  readonly path: string;
  readonly start: ServiceStart;
  readonly lines: readonly string[];
  readonly stages: readonly string[];
  readonly restarts: readonly string[];
  readonly end: () => void;
}

function rig(dir: string): Rig {
  const path = sampleIn(dir);
  const { config, faults } = parseConfig(
    { data: { dir, runtime_dir: dir }, http: { listen: ['unix:http.sock'] }, grpc: { listen: ['unix:grpc.sock'] } },
    {},
  );
  assert.deepEqual(faults, []);
  const { logger, lines } = recordingLogger();
  const [stages, restarts]: string[][] = [[], []];
  const ending = new AbortController();
  const start: ServiceStart = {
    config,
    logger,
    version: '9.9.9',
    configurationRefused: () => '',
    restartNeeded: () => '',
    stage: (text) => void stages?.push(text),
    ending: ending.signal,
    restart: (why) => void restarts?.push(why),
  };
  return { dir, path, start, lines, stages: stages ?? [], restarts: restarts ?? [], end: () => ending.abort() };
}

/** Of the file and its write-ahead log; -shm is SQLite's scratch, and a reader begins an empty -wal where there is none. */
function digest(path: string): string {
  const hash = createHash('sha256').update(readFileSync(path));
  const wal = `${path}-wal`;
  return hash.update(existsSync(wal) ? readFileSync(wal) : '').digest('hex');
}

function bodiesOf(path: string, read: typeof bodiesAfter): ReadonlyMap<number, string | null> {
  const connection = connect(path);
  try {
    return read(connection);
  } finally {
    connection.close();
  }
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly json: { readonly code?: string; readonly detail?: string; readonly reasons?: readonly string[] };
}

async function ask(dir: string, method: string, path: string, json?: unknown): Promise<Answer> {
  const headers = { 'content-type': 'application/json', 'if-match': '"1"' };
  const body = json === undefined ? undefined : JSON.stringify(json);
  const answer = await exchange({ socketPath: join(dir, 'http.sock'), method, path, headers }, body);
  const type = answer.headers['content-type'] ?? '';
  return { status: answer.status, type, json: type.includes('json') ? JSON.parse(answer.text) : {} };
}

async function trialHub(t: TestContext, isOnTrial: () => boolean): Promise<Rig> {
  const made = rig(temporaryDirectory(t));
  const hub = await startHub(made.start, { migrations, isOnTrial });
  t.after(() => hub.stop());
  return made;
}

test('on trial the hub lives, is not ready, and answers 503 to all that needs the file, which stays as it is', async (t) => {
  let trying = true;
  const untouched = digest(sampleIn(temporaryDirectory(t)));
  const { dir, path, lines, restarts } = await trialHub(t, () => trying);
  assert.equal((await ask(dir, 'GET', '/healthz')).status, 200);
  const ready = await ask(dir, 'GET', '/readyz');
  assert.equal(ready.status, 503);
  assert.match(ready.json.reasons?.[0] ?? '', /^UPDATE_ON_TRIAL: update on trial/);
  const record = { businessKey: 'k', data: {}, validFrom: '2026-01-01T00:00:00+00:00' };
  for (const [method, url, json] of [
    ['POST', '/api/v1/dictionaries', { name: 'tools', title: 'Tools', scope: 'PUBLIC' }],
    ['GET', '/api/v1/dictionaries'],
    ['POST', '/api/v1/dictionaries/tools/records', record],
    ['PUT', '/api/v1/dictionaries/tools/records/k', { data: {} }],
    ['GET', '/api/v1/dictionaries/tools/records/k'],
    ['POST', '/api/v1/imports', { items: [] }],
    ['GET', '/api/v1/admin/outbox'],
    ['GET', '/api/v1/admin/audit'],
    ['GET', '/api/v1/admin/webhooks/deliveries'],
    ['GET', '/api/v1/admin/webhooks/subscriptions'],
    ['DELETE', '/api/v1/admin/webhooks/subscriptions/1'],
    ['GET', '/api/v1/alerts'],
    ['GET', '/metrics'],
  ] as const) {
    const { status, type, json: problem } = await ask(dir, method, url, json);
    assert.deepEqual([method, url, status, problem.code], [method, url, 503, 'UPDATE_ON_TRIAL']);
    assert.equal(type, 'application/problem+json');
    assert.match(problem.detail ?? '', /update on trial/);
  }
  for (const url of ['/api/v1/whoami', '/api/v1/admin/host', '/openapi.json'])
    assert.equal((await ask(dir, 'GET', url)).status, 200, url);
  assert.equal(digest(path), untouched);
  assert.ok(lines.some((line) => line.startsWith('warn update on trial')));
  assert.deepEqual(restarts, []);
  trying = false;
  await until('restarted', () => restarts.length > 0);
  assert.deepEqual(restarts, ['the update was kept']);
});

test('the start after the trial migrates, and the hub works with what waited', async (t) => {
  const { start, dir, path } = rig(temporaryDirectory(t));
  const bodies = bodiesOf(path, bodiesBefore);
  const hub = await startHub(start, { isOnTrial: () => false });
  t.after(() => hub.stop());
  assert.equal((await ask(dir, 'GET', '/readyz')).status, 200);
  const answer = await ask(dir, 'GET', '/api/v1/admin/webhooks/deliveries?state=rejected');
  const rejected = (answer.json as { readonly items?: readonly { readonly deliveryId: string }[] }).items ?? [];
  assert.equal(rejected.length, 5);
  for (const { deliveryId } of rejected)
    assert.equal((await ask(dir, 'POST', `/api/v1/admin/webhooks/deliveries/${deliveryId}/resend`, {})).status, 200);
  const made = { name: 'machines', title: 'Machines', scope: 'PUBLIC' };
  assert.equal((await ask(dir, 'POST', '/api/v1/dictionaries', made)).status, 201);
  const after = bodiesOf(path, bodiesAfter);
  for (const [id, body] of bodies) if (body !== null && after.has(id)) assert.equal(after.get(id), body);
});

test('its report is one that the slot check keeps: up, with checks that answer', async (t) => {
  const { start } = rig(temporaryDirectory(t));
  const hub = await startHub(start, { migrations, isOnTrial: () => true });
  t.after(() => hub.stop());
  for (const check of hub.healthReport.checks) await check.answers();
  assert.match(await hub.healthReport.status(), /update on trial/);
});

test('without a trial it migrates before the file is opened, with stages and log lines', async (t) => {
  const { start, path, lines, stages } = rig(temporaryDirectory(t));
  const was = bodiesOf(path, bodiesBefore);
  const clock = new FakeClock();
  const monoMs = clock.monoMs.bind(clock);
  // Each look at the clock is 1 s later.
  clock.monoMs = () => {
    clock.advance(1_000);
    return monoMs();
  };
  assert.equal(await bringUp(start, migrations, () => false, clock), true);
  assert.deepEqual(bodiesOf(path, bodiesAfter), was);
  assert.deepEqual(stages, [
    'checking the space for the migration of refdata.db',
    'migrating refdata.db',
    ...[5, 10, 15, 20, 25, 28].map((n) => `migrating refdata.db: ${n} of 28 rows`),
  ]);
  assert.deepEqual(lines, [
    'info migration of refdata.db started rows=28',
    'info migration of refdata.db moved=20 rows=28',
    'info migration of refdata.db completed rows=28 notWhole=0 seconds=20',
  ]);
  assert.equal(await bringUp(start, migrations, () => true), true, 'nothing is left to move');
});

test('a start that is stopped ends between two batches, and the next one continues', async (t) => {
  const { start, path, end, lines } = rig(temporaryDirectory(t));
  const was = bodiesOf(path, bodiesBefore);
  end();
  await assert.rejects(
    bringUp(start, migrations, () => false),
    { code: 'SHUTTING_DOWN' },
  );
  const again = { ...start, ending: new AbortController().signal };
  assert.equal(await bringUp(again, migrations, () => false), true);
  assert.deepEqual(bodiesOf(path, bodiesAfter), was);
  assert.ok(
    lines.some((line) => line === 'info migration of refdata.db started rows=23'),
    lines.join('\n'),
  );
});

test('a half-moved file waits for the end of a trial too', async (t) => {
  const { start, end } = rig(temporaryDirectory(t));
  end();
  await assert.rejects(
    bringUp(start, migrations, () => false),
    { code: 'SHUTTING_DOWN' },
  );
  assert.equal(await bringUp(start, migrations, () => true), false);
});

test('a migration without rows to move waits for the end of a trial too; then events of before are as they were', async (t) => {
  const { start, dir, path, lines } = rig(temporaryDirectory(t));
  const older = hubMigrations.slice(0, 7);
  assert.equal(await bringUp(start, older, () => false), true);
  const events = (): unknown[] => {
    const connection = connect(path);
    try {
      return connection.prepare('SELECT * FROM outbox').all();
    } finally {
      connection.close();
    }
  };
  const was = events();
  assert.ok(was.length > 0);
  const before = digest(path);
  assert.equal(await bringUp(start, hubMigrations, () => true), false);
  assert.equal(digest(path), before);
  assert.equal(await bringUp(start, hubMigrations, () => false), true);
  assert.equal(lines.at(-2), 'info migration of refdata.db started rows=0');
  assert.deepEqual(events(), was);
  assert.throws(() => openRefdataFile(dir, older), { code: 'INTERNAL' });
});

test('too little space: the start fails with both figures, on trial too, and nothing is changed', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-test-'));
  if (!mountSmall(t, dir, 'size=64m')) return;
  const { start, path } = rig(dir);
  fill(join(dir, 'filler'), 8 * 1024 * 1024);
  const before = digest(path);
  const { mtimeMs } = statSync(path);
  for (const isOnTrial of [true, false]) {
    await assert.rejects(
      bringUp(start, migrations, () => isOnTrial),
      (error) =>
        error instanceof LinesideError &&
        error.code === 'STORAGE_FULL' &&
        /^cannot migrate refdata.db: it needs up to \d{8} bytes of free space and has \d+; this start has changed nothing$/.test(
          error.message,
        ) &&
        error.hint.startsWith('Try: '),
    );
  }
  assert.deepEqual([digest(path), statSync(path).mtimeMs], [before, mtimeMs]);
});

test('a disk that fills up during the move stops it, and it continues when there is space', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-test-'));
  if (!mountSmall(t, dir, 'size=96m')) return;
  const { start, path } = rig(dir);
  const connection = connect(path);
  addDeliveries(connection, 20, 1, 200_000);
  const was = bodiesBefore(connection);
  connection.close();
  const move = { ...contentsMigration(5).move, estimate: () => ({ rows: 48, bytes: 0 }) };
  const unchecked: Migrations = [...migrations.slice(0, 4), { ...contentsMigration(5), move }];
  fill(join(dir, 'filler'), 1024 * 1024);
  await assert.rejects(
    bringUp(start, unchecked, () => false),
    (error) => error instanceof LinesideError && errorCatalogue[error.code].http === 507,
  );
  rmSync(join(dir, 'filler'));
  assert.equal(await bringUp(start, migrations, () => false), true);
  assert.deepEqual(bodiesOf(path, bodiesAfter), was);
});
