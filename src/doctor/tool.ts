/** A program of the system, run with an end: it is killed at its limit, and not waited for where it cannot be killed. */
import { spawn } from 'node:child_process';
import type { Clock } from '../shared/base/clock.ts';
import { systemCode } from '../shared/base/errors.ts';

export interface ToolAnswer {
  readonly kind: 'done' | 'missing' | 'late' | 'failed';
  /** The last of it, where it was more than the limit. */
  readonly stdout: string;
  readonly stderr: string;
  readonly cut: boolean;
}

export interface ToolLimits {
  readonly limitMs: number;
  readonly limitBytes: number;
}

const stderrLimitBytes = 16 * 1024;

export function runTool(
  clock: Clock,
  program: string,
  args: readonly string[],
  limits: ToolLimits,
): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    const [out, err] = [new Tail(limits.limitBytes), new Tail(stderrLimitBytes)];
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C', PAGER: 'cat' },
    });
    const give = (kind: ToolAnswer['kind']): void => {
      limit.cancel();
      // One that hangs in the kernel takes no signal: nothing here waits for it.
      child.stdout.destroy();
      child.stderr.destroy();
      child.unref();
      resolve({ kind, stdout: out.text(), stderr: err.text(), cut: out.cut });
    };
    const limit = clock.timer(limits.limitMs, () => {
      child.kill('SIGKILL');
      give('late');
    });
    child.stdout.on('data', (part: Buffer) => out.add(part));
    child.stderr.on('data', (part: Buffer) => err.add(part));
    child.once('error', (error) => give(systemCode(error) === 'ENOENT' ? 'missing' : 'failed'));
    child.once('close', (status) => give(status === 0 ? 'done' : 'failed'));
  });
}

class Tail {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #bytes = 0;
  cut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(part: Buffer): void {
    this.#parts.push(part);
    this.#bytes += part.length;
    while (this.#bytes > this.#limit && this.#parts.length > 0) {
      const first = this.#parts[0] ?? Buffer.alloc(0);
      const over = Math.min(first.length, this.#bytes - this.#limit);
      this.#bytes -= over;
      this.cut = true;
      if (over === first.length) this.#parts.shift();
      else this.#parts[0] = first.subarray(over);
    }
  }

  text(): string {
    const all = Buffer.concat(this.#parts).toString('utf8');
    // Half a line may lack the word that says that its rest is secret.
    return this.cut ? all.slice(all.indexOf('\n') + 1) : all;
  }
}
