/** A disk that is slow, full or failing, injected with strace into a process of its own, and a really full one. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { FaultReport } from './fault-child.ts';
import { newEntry, openLog, readAll, temporaryDir } from './support.ts';

const noStrace = spawnSync('strace', ['-V']).status === 0 ? false : 'strace is not installed';

interface Fault {
  readonly inject: string;
  /** `recovered` or milliseconds. */
  readonly goal: string;
  readonly queueBytes?: number;
}

async function runChild(dir: string, { inject, goal, queueBytes = 8 << 20 }: Fault): Promise<FaultReport> {
  const call = inject.split(':')[0] ?? '';
  const files = ['log.db', 'log.db-wal'].flatMap((name) => ['-P', join(dir, name)]);
  const strace = [
    '-f',
    '--seccomp-bpf',
    '-qq',
    '-o',
    '/dev/null',
    ...files,
    '-e',
    `trace=${call}`,
    '-e',
    `inject=${inject}`,
  ];
  const script = [process.execPath, '--import', 'tsx', join(import.meta.dirname, 'fault-child.ts')];
  const child = spawn('strace', [...strace, ...script, dir, goal, String(queueBytes)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const piece of child.stdout) output += String(piece);
  return JSON.parse(output) as FaultReport;
}

/** Every id is either stored or in a recorded gap; what was told to be stored is. */
async function verifyAfter(t: TestContext, dir: string, report: FaultReport): Promise<void> {
  const log = await openLog(t, dir);
  assert.equal((await log.status()).setAside, '');
  const { entries, gaps } = await readAll(log);
  const ids = new Set(entries.map(({ id }) => id));
  assert.equal(ids.size, entries.length);
  for (const id of report.stored) assert.ok(ids.has(id), `entry ${id} was told to be stored`);
  for (const gap of gaps) {
    assert.equal(gap.lastId - gap.firstId + 1, gap.entries);
    for (let id = gap.firstId; id <= gap.lastId; id++) {
      assert.ok(!ids.has(id), `entry ${id} is stored and lost`);
      ids.add(id);
    }
  }
  assert.equal(ids.size, report.headId, 'every id is accounted for');
  assert.equal(
    gaps.reduce((sum, gap) => sum + gap.entries, 0),
    report.lostEntries,
  );
}

function expectUndisturbed(report: FaultReport): void {
  assert.ok(report.liveInOrder);
  // Far above a turn of the loop on a busy machine, far below the 1,000 ms of an fsync.
  assert.ok(report.longestRecordMs < 600, `record() took ${report.longestRecordMs} ms`);
  assert.ok(report.longestLiveMs < 600, `an entry took ${report.longestLiveMs} ms to a live reader`);
  assert.ok(report.longestStallMs < 600, `the thread was held for ${report.longestStallMs} ms`);
}

test('fsync takes 1,000 ms: nothing on the thread of the line waits', { skip: noStrace }, async (t) => {
  const dir = temporaryDir(t);
  const report = await runChild(dir, { inject: 'fsync:delay_exit=1000000', goal: '3000' });
  expectUndisturbed(report);
  assert.deepEqual(report.states, ['ok']);
  assert.ok(report.stored.length > 5);
  assert.equal(report.lostEntries, 0);
  await verifyAfter(t, dir, report);
  t.diagnostic(`record ${report.longestRecordMs.toFixed(1)} ms, live ${report.longestLiveMs.toFixed(1)} ms at most`);
});

const failures: Record<string, { fault: Fault; says: RegExp }> = {
  'fsync fails with EIO for a while': {
    fault: { inject: 'fsync:error=EIO:when=12..14', goal: 'recovered' },
    says: /I\/O error.*SQLITE_IOERR_FSYNC|SQLITE_IOERR/,
  },
  'the disk is full for a while': {
    fault: { inject: 'pwrite64:error=ENOSPC:when=60..62', goal: 'recovered' },
    says: /SQLITE_FULL.*Free space/,
  },
  'writes fail with EIO for a while': {
    fault: { inject: 'pwrite64:error=EIO:when=60..62', goal: 'recovered' },
    says: /SQLITE_IOERR_WRITE.*dmesg/,
  },
  'the disk is full for long and the queue small': {
    fault: { inject: 'pwrite64:error=ENOSPC:when=60..63', goal: 'recovered', queueBytes: 32 << 10 },
    says: /SQLITE_FULL/,
  },
};

for (const [name, { fault, says }] of Object.entries(failures)) {
  test(`${name}: the line goes on, the loss is counted, storing resumes`, { skip: noStrace }, async (t) => {
    const dir = temporaryDir(t);
    const report = await runChild(dir, fault);
    expectUndisturbed(report);
    assert.deepEqual(report.states.slice(0, 3), ['ok', 'failing', 'ok']);
    assert.match(report.errors[0] ?? '', says);
    await verifyAfter(t, dir, report);
    if (fault.queueBytes !== undefined) assert.ok(report.lostEntries > 10, `${report.lostEntries} lost`);
    t.diagnostic(
      `${report.lostEntries} lost of ${report.headId}, ${report.refused} refused, ${report.stored.length} stored`,
    );
  });
}

test('a full file system: failing, then everything pending is stored when space is freed', async (t) => {
  const disk = mkdtempSync(join(tmpdir(), 'lineside-log-'));
  if (!mountSmall(t, disk, 'size=2m')) return;
  const log = await openLog(t, disk);
  await log.store(newEntry('first'));
  writeFileSync(join(disk, 'ballast'), Buffer.alloc(1 << 20));
  for (let i = 0; i < 500; i++) log.record(1, i, randomBytes(2048));
  await until('state === failing', async () => (await log.status()).state === 'failing');
  assert.match((await log.status()).error, /Free space on the file system/);
  await assert.rejects(log.store(newEntry('refused')), { code: 'LOG_NOT_STORED' });
  const { headId } = await log.status();
  rmSync(join(disk, 'ballast'));
  spawnSync('mount', ['-o', 'remount,size=32m', disk]);
  await until(
    'state === ok && pendingEntries === 0',
    async () => (await log.status()).state === 'ok' && (await log.status()).pendingEntries === 0,
  );
  assert.equal((await readAll(log)).entries.length, headId);
  await log.close();
});
