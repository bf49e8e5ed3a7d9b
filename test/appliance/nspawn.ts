/**
 * A Debian 13 machine in a container, booted in about 2 s: systemd as PID 1, the hardening of units for real, no network
 * but its own loopback. What it cannot show is limits of memory and tasks (no controllers) and udev (no kernel events).
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

const repository = resolve(import.meta.dirname, '../..');
const BOOT_LIMIT_MS = 60_000;
const COMMAND_LIMIT_MS = 60_000;
/** Building the tree, should it not be there yet, or the package. */
const BUILD_LIMIT_MS = 900_000;

export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Container {
  /** Of its PID 1, as this process sees it. */
  readonly pid: number;
  /** Runs a command as the container's root. */
  run(command: readonly string[], limitMs?: number): Promise<Ran>;
  /** Runs a shell script, which has to succeed; its output without the last newline. */
  sh(script: string, limitMs?: number): Promise<string>;
  /** Waits until the script succeeds, and gives its output. */
  until(what: string, script: string, limitMs?: number): Promise<string>;
  /** Where a path of the container is for this process. */
  path(inside: string): string;
  /** What the console has shown. */
  console(): string;
  stop(): Promise<void>;
}

/** Why no container can be booted here; false: it can. Names the reason of a skipped test. */
export function nspawnMissing(): string | false {
  if (process.getuid?.() !== 0) return 'booting a container needs root';
  for (const command of ['unshare', 'nsenter', 'script', 'mmdebstrap'])
    if (spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0) return `${command} is not installed`;
  const tried = spawnSync(
    'unshare',
    ['-m', 'sh', '-c', 'mount -t cgroup2 none /mnt && mkdir /mnt/x.$$ && rmdir /mnt/x.$$'],
    {
      encoding: 'utf8',
    },
  );
  return tried.status === 0 ? false : `this kernel refuses to mount a cgroup2: ${tried.stderr.trim()}`;
}

/** The tree of image/tools, built if need be. */
export function trixieTree(): string {
  return built('LINESIDE_TREE', 'image/tools');
}

/** Debian 12, with a systemd that has neither RestartMode= nor RestartSteps=. */
export function bookwormTree(): string {
  return built('LINESIDE_BOOKWORM_TREE', 'test/appliance/bookworm-tree');
}

/** The Debian package of these sources. */
export function debianPackage(): string {
  return built('LINESIDE_PACKAGE', 'scripts/package');
}

function built(variable: string, script: string): string {
  const given = process.env[variable];
  if (given !== undefined && given !== '') return resolve(repository, given);
  const output = execFileSync(join(repository, script), { encoding: 'utf8', timeout: BUILD_LIMIT_MS });
  return resolve(repository, output.trim().split('\n').at(-1) ?? '');
}

const booted = new Set<Container>();
// After the hooks of the file itself.
setImmediate(() =>
  after(async () => {
    for (const container of booted) await container.stop();
  }),
);

/**
 * Boots a machine, which is stopped after the file's tests at the latest. `options`: more for systemd-nspawn, such as
 * --bind=/dev/pts/7:/dev/ttyFIELD. `onStop`: what else there is to close then.
 */
export async function bootContainer(
  options: readonly string[] = [],
  onStop = () => {},
  tree = trixieTree(),
): Promise<Container> {
  const work = mkdtempSync('/var/tmp/lineside-nspawn-');
  for (const name of ['root', 'upper', 'overlay']) mkdirSync(join(work, name));
  const consoleFile = join(work, 'console');
  const cgroup = basename(work);
  const boot = [join(import.meta.dirname, 'nspawn-boot'), tree, work, cgroup, ...options].join(' ');
  const isolated = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];
  const outer = spawn('unshare', [...isolated, 'script', '-qefc', boot, consoleFile], { stdio: 'ignore' });
  const ended = new Promise<void>((done) => outer.once('exit', () => done()));
  const consoleText = () => readFileSync(consoleFile, 'utf8');

  const stop = async (): Promise<void> => {
    booted.delete(container);
    onStop();
    // The whole PID namespace ends with it.
    outer.kill('SIGKILL');
    await ended;
    await removeCgroup(cgroup);
    rmSync(work, { recursive: true, force: true });
  };
  let leader = 0;
  const path = (inside: string) => join(`/proc/${leader}/root`, inside);
  const run: Container['run'] = (command, limitMs = COMMAND_LIMIT_MS) => enter(leader, command, limitMs);
  const sh: Container['sh'] = async (script, limitMs) => {
    const ran = await run(['sh', '-ec', script], limitMs);
    assert.equal(ran.status, 0, `${script}\n${ran.stdout}${ran.stderr}`);
    return ran.stdout.trimEnd();
  };
  const until: Container['until'] = async (what, script, limitMs = COMMAND_LIMIT_MS) => {
    const end = performance.now() + limitMs;
    for (;;) {
      const ran = await run(['sh', '-ec', script], limitMs);
      if (ran.status === 0) return ran.stdout.trimEnd();
      if (performance.now() > end) assert.fail(`not within ${limitMs} ms: ${what}\n${ran.stdout}${ran.stderr}`);
      await sleep(100);
    }
  };
  const container: Container = {
    get pid() {
      return leader;
    },
    run,
    sh,
    until,
    path,
    console: consoleText,
    stop,
  };
  booted.add(container);

  const end = performance.now() + BOOT_LIMIT_MS;
  for (;;) {
    leader = innermostInit(outer.pid ?? 0);
    if (leader !== 0 && /^(running|degraded)/.test((await run(['systemctl', 'is-system-running'])).stdout)) break;
    if (outer.exitCode !== null || performance.now() > end) assert.fail(`the container did not boot\n${consoleText()}`);
    await sleep(50);
  }
  return container;
}

/** The process that is PID 1 of a PID namespace two levels below this one: unshare's, then the container's. 0: none yet. */
function innermostInit(pid: number): number {
  try {
    const levels = (/^NSpid:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '').split(/\s+/);
    const own = (/^NSpid:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '').split(/\s+/);
    if (levels.length === own.length + 2) return levels.at(-1) === '1' ? pid : 0;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim();
      for (const child of children === '' ? [] : children.split(' ')) {
        const found = innermostInit(Number(child));
        if (found !== 0) return found;
      }
    }
  } catch {
    // It ended meanwhile.
  }
  return 0;
}

function enter(leader: number, command: readonly string[], limitMs: number): Promise<Ran> {
  const namespaces = ['-m', '-u', '-i', '-n', '-p', '-C', '-r', '-w'];
  const clean = ['env', '-i', 'PATH=/usr/sbin:/usr/bin', 'TERM=dumb', 'LC_ALL=C.UTF-8'];
  // Inside: a killed nsenter would leave what it runs, and its pipes open.
  const limited = ['timeout', '--signal=KILL', `${limitMs / 1_000}`, ...command];
  const child = spawn('nsenter', ['-t', `${leader}`, ...namespaces, '--', ...clean, ...limited], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8');
    child[name].on('data', (part: string) => {
      text[name] += part;
    });
  }
  return new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (status) => done({ status: status ?? -1, ...text }));
  });
}

/** A cgroup stays until it is removed, which works only after the kernel has released the last process. */
async function removeCgroup(name: string): Promise<void> {
  const script = `mount -t cgroup2 none /mnt && [ ! -d /mnt/${name} ] || find /mnt/${name} -depth -type d -exec rmdir {} +`;
  for (let tries = 0; tries < 50; tries++) {
    if (spawnSync('unshare', ['-m', '--propagation', 'private', 'sh', '-c', script]).status === 0) return;
    await sleep(100);
  }
}
