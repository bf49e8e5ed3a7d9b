/** Failing and slow system calls for a process that already runs, for as long as a test wants: strace as fault injector. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/** False where strace is missing or may not attach (a container without ptrace). */
export function straceWorks(): boolean {
  return spawnSync('strace', ['-o', '/dev/null', '-e', 'trace=none', 'true']).status === 0;
}

export interface Injection {
  /** Detaches: from now on every call is the kernel's own again. */
  end(): Promise<void>;
}

/** Attaches to every thread, those to come included; resolves when the faults are in force. */
export function inject(pid: number, ...faults: readonly string[]): Promise<Injection> {
  return injectAt([], pid, ...faults);
}

/** Only in calls that concern the files at these paths; none: in all. */
export async function injectAt(
  paths: readonly string[],
  pid: number,
  ...faults: readonly string[]
): Promise<Injection> {
  const filter = paths.flatMap((path) => ['-P', path]);
  const names = faults.map((fault) => fault.slice(0, fault.indexOf(':')));
  const injections = faults.flatMap((fault) => ['-e', `inject=${fault}`]);
  const args = ['-f', '-o', '/dev/null', '-e', `trace=${names.join(',')}`, ...injections, ...filter, '-p', String(pid)];
  const strace = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(strace, 'exit');
  let said = '';
  await new Promise<void>((resolve, reject) => {
    strace.stderr.setEncoding('utf8').on('data', (piece: string) => {
      said += piece;
      if (said.includes('attached')) resolve();
    });
    strace.once('exit', () => reject(new Error(`strace: ${said}`)));
    strace.once('error', reject);
  });
  return {
    async end() {
      strace.kill('SIGTERM');
      await ended;
    },
  };
}
