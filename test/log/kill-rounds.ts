/**
 * kill -9 at random moments under traffic, round after round on the same log. After each: no entry that the caller
 * was told is stored is missing, none is torn, the order is kept, and no id was handed out twice.
 * By itself: `ROUNDS=200 node --import tsx test/log/kill-rounds.ts`.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LogEntry } from '../../src/line/log/entry.ts';
import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { contentOf } from './kill-content.ts';

/** The kill falls within so many milliseconds of the first answer. */
const withinMs = 120;

export interface KillReport {
  readonly rounds: number;
  readonly told: number;
  readonly stored: number;
}

export async function killRounds(dir: string, rounds: number, progress: (line: string) => void): Promise<KillReport> {
  let told = 0;
  let stored = 0;
  let highest = 0;
  for (let round = 1; round <= rounds; round++) {
    const { ids, head } = await oneRound(dir);
    assert.ok(
      ids.length === 0 || (ids[0] ?? 0) > highest,
      `round ${round}: id ${ids[0]} was handed out before (${highest})`,
    );
    highest = Math.max(highest, head);
    told += ids.length;
    stored = await verify(dir, ids, round);
    // The check itself ended cleanly, and an unclean end before it left ids unused: nothing below may come again.
    highest = Math.max(highest, stored);
    progress(`round ${round}: ${ids.length} told, ${stored} stored, head ${head}`);
  }
  return { rounds, told, stored };
}

async function oneRound(dir: string): Promise<{ ids: number[]; head: number }> {
  const script = join(import.meta.dirname, 'kill-child.ts');
  const child = spawn(process.execPath, ['--import', 'tsx', script, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ids: number[] = [];
  let head = 0;
  let timer: NodeJS.Timeout | undefined;
  assert.ok(child.stdout);
  let output = '';
  for await (const piece of child.stdout) {
    output += String(piece);
    timer ??= setTimeout(() => child.kill('SIGKILL'), Math.random() * withinMs);
  }
  clearTimeout(timer);
  await gone(child);
  // What follows the last line end was cut by the kill: it was never told.
  for (const line of output.split('\n').slice(0, -1)) {
    const [what, value] = line.split(' ');
    if (what === 'id') ids.push(Number(value));
    if (what === 'head') head = Math.max(head, Number(value));
  }
  return { ids, head };
}

async function gone(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await new Promise((resolve) => child.once('exit', resolve));
}

async function verify(dir: string, told: readonly number[], round: number): Promise<number> {
  const log = await openSerialLog({
    dir,
    maxBytes: 1 << 30,
    maxAgeDays: 30,
    commitMs: 1_000,
    queueBytes: 8 << 20,
    tailBytes: 1 << 20,
    clock: systemClock,
    logger: silentLogger,
  });
  try {
    const status = await log.status();
    assert.equal(status.setAside, '', `round ${round}: the file was damaged`);
    const found = new Set<number>();
    let last = 0;
    const request = {
      after: 0,
      follow: false,
      dir: undefined,
      sinceMs: undefined,
      untilMs: undefined,
      limit: undefined,
    } as const;
    for await (const run of log.read(request, new AbortController().signal)) {
      assert.deepEqual(run.gaps, []);
      for (const entry of run.entries) {
        assert.ok(entry.id > last, `round ${round}: ${entry.id} after ${last}`);
        last = entry.id;
        checkWhole(entry);
        found.add(entry.id);
      }
    }
    for (const id of told) assert.ok(found.has(id), `round ${round}: entry ${id} was told to be stored and is missing`);
    return found.size;
  } finally {
    await log.close();
  }
}

function checkWhole(entry: LogEntry): void {
  assert.equal(entry.timestampMs, entry.id);
  assert.ok(contentOf(entry.id).equals(entry.data), `entry ${entry.id} is torn`);
  assert.equal(entry.note, entry.dir === 0 ? String(entry.id) : '');
}

if (process.argv[1] === import.meta.filename) {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-kill-'));
  try {
    const report = await killRounds(dir, Number(process.env['ROUNDS'] ?? 200), (line) =>
      process.stdout.write(`${line}\n`),
    );
    process.stdout.write(`${report.rounds} rounds, ${report.told} entries told to be stored, none missing or torn\n`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
