/**
 * The work in a process of its own: what hangs in the kernel (a dead mount of the network, a disk) hangs that one, and the
 * command itself ends at its limit all the same. The child says what it found in lines of JSON, the last of them {"end":true}.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Clock } from '../shared/base/clock.ts';

/** Look-ups of names and every read of a file take a thread each while they hang. */
const threads = '24';

export interface ChildOptions {
  readonly clock: Clock;
  readonly args: readonly string[];
  readonly limitMs: number;
  readonly onLine: (value: unknown) => void;
  readonly stop?: AbortSignal;
}

/** How it went: 'done', 'late', or why not. Never rejects. The child is gone then, or can no longer be killed by anybody. */
export function inChild({ clock, args, limitMs, onLine, stop }: ChildOptions): Promise<string> {
  return new Promise((resolve) => {
    const program = process.argv[1] ?? '';
    const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
      // Its standard input ends with this process, however that ends, and the child with it.
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, UV_THREADPOOL_SIZE: threads },
    });
    const lines = createInterface({ input: child.stdout });
    const give = (how: string): void => {
      limit.cancel();
      child.kill('SIGKILL');
      lines.close();
      child.stdout.destroy();
      child.stdin.destroy();
      child.unref();
      resolve(how);
    };
    const limit = clock.timer(limitMs, () => give('late'));
    child.stdin.on('error', () => undefined);
    stop?.addEventListener('abort', () => give('stopped'), { once: true });
    lines.on('line', (line) => {
      const value = parsed(line);
      if (typeof value === 'object' && value !== null && 'end' in value) give('done');
      else if (value !== undefined) onLine(value);
    });
    child.once('error', () => give('it could not be started'));
    child.once('close', (status, signal) => give(`it ended (${signal ?? `status ${status ?? ''}`})`));
  });
}

/** Called by the child: it does not outlive who started it, nor what of it hangs. */
export function endWithParent(stdin: NodeJS.ReadableStream): void {
  stdin.once('end', () => process.kill(process.pid, 'SIGKILL'));
  stdin.resume();
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
