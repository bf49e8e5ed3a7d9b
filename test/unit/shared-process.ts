/**
 * The unit tests of src/ share a few processes: with a process for each of 240 files, every process would load the same modules
 * again. The files run one after the other, each in a suite with its name, which holds the hooks of the file. A file that
 * measures or changes its process has a process of its own: it says `// Runs alone: REASON` at the beginning of a line, and
 * test/run.ts finds it. Every file must also pass with `scripts/test FILE`.
 */
import assert from 'node:assert/strict';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

const ROOT = resolve(import.meta.dirname, '../..');
/** As for a file with a process of its own (test/end-limit.ts): servers may still have to end. */
const LIMIT_MS = 120_000;
const LOOK_MS = 20;
/** A file system in memory: the thousands of small databases are flushed tens of thousands of times, 10 to 24 % of the CPU time. */
const MEMORY = '/dev/shm';
/** Two processes together were seen to hold 100 MiB, six may run; a container's /dev/shm often has 64 MiB. */
const ENOUGH_BYTES = 2 ** 30;

/** The folders of src whose files share a process; the files of a folder that is named itself are not those of the one above. */
const processes = {
  appliance: ['admin', 'appliance', 'collector', 'doctor', 'serve'],
  cli: ['cli'],
  console: ['console'],
  http: ['hub/http'],
  hub: ['hub'],
  line: ['line'],
  shared: ['shared'],
  webhooks: ['hub/webhooks'],
} as const;

/** Registers the unit tests of this process. */
export async function unitTests(name: keyof typeof processes): Promise<void> {
  const files = globSync('src/**/*.test.ts', { cwd: ROOT }).filter(
    (file) => processOf(file) === name && !runsAlone(file),
  );
  if (process.env['TMPDIR'] === undefined && hasRoom(MEMORY)) keepFilesInMemory();
  const { promise: allLoaded, resolve: begin } = Promise.withResolvers<void>();
  // The first test waits: modules that are compiled meanwhile would hold it up.
  before(() => allLoaded);
  for (const file of files.sort()) await load(file);
  begin();
}

export function runsAlone(file: string): boolean {
  return /^\/\/ Runs alone: \S/m.test(readFileSync(join(ROOT, file), 'utf8'));
}

function keepFilesInMemory(): void {
  // A short name: the path of a socket has at most 107 bytes.
  const dir = mkdtempSync(join(MEMORY, 'ls-'));
  // As /tmp: some tests act as another user.
  chmodSync(dir, 0o1777);
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  process.env['TMPDIR'] = dir;
}

function hasRoom(dir: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize >= ENOUGH_BYTES;
  } catch {
    return false;
  }
}

function processOf(file: string): string {
  const folders = Object.entries(processes).flatMap(([name, all]) => all.map((folder) => ({ name, folder })));
  const above = folders.filter(({ folder }) => file.startsWith(`src/${folder}/`));
  const nearest = above.sort((a, b) => b.folder.length - a.folder.length)[0];
  if (nearest === undefined) throw new Error(`${file}: name its folder in test/unit/shared-process.ts`);
  return nearest.name;
}

/** Returns when the tests of the file are registered. */
function load(file: string): Promise<void> {
  const { promise, resolve: loaded } = Promise.withResolvers<void>();
  describe(file, async () => {
    const unloaded = shared();
    let begun = unloaded;
    let handles: string[] = [];
    before(() => {
      running = file;
      begun = shared();
      handles = openHandles();
    });
    try {
      await import(join(ROOT, file));
      assert.deepEqual(shared(), unloaded, CHANGED);
    } finally {
      loaded();
    }
    // The last hook of the file.
    after(async () => {
      running = '';
      assert.deepEqual(shared(), begun, CHANGED);
      await closed(handles);
    });
  });
  return promise;
}

let running = '';
process.on('exit', () => {
  if (running === '') return;
  process.stderr.write(`${running} ended the process that it shares with other files\n`);
  process.exitCode = 1;
});
const CHANGED = 'the file changed its process: put back what it changed, or mark the file "// Runs alone: REASON"';

/** What the files of a process have in common. */
function shared() {
  const listeners = process.eventNames().map((name) => [String(name), process.listenerCount(name)]);
  return { env: { ...process.env }, directory: process.cwd(), umask: process.umask(), listeners };
}

/** Without pipes: the standard streams and the loader open theirs at any time. */
function openHandles(): string[] {
  return process.getActiveResourcesInfo().filter((one) => one !== 'PipeWrap');
}

/** Until no more handles are open than before the file. */
async function closed(before: readonly string[]): Promise<void> {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const rest = [...before];
    const more = openHandles().filter((one) => {
      const at = rest.indexOf(one);
      if (at >= 0) rest.splice(at, 1);
      return at < 0;
    });
    if (more.length === 0) return;
    if (performance.now() > end) throw new Error(`its tests are over, and these are open: ${more.join(', ')}`);
    await sleep(LOOK_MS);
  }
}
