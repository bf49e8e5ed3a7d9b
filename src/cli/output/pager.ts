/** Long output on a terminal goes through a pager, as with git: less leaves output alone that fits. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { CliIo } from '../io.ts';

/** undefined: there is no terminal, or no pager. */
export async function openPager(io: CliIo) {
  const { stdin, stdout, env } = io;
  const [program = '', ...words] = (env['PAGER'] ?? 'less').trim().split(/\s+/);
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true && env['TERM'] !== 'dumb';
  if (!isTerminal || program === '' || program === 'cat') return undefined;
  // F: quits if one screen holds it, R: colours, X: leaves it on the screen.
  const child = spawn(program, words, { stdio: ['pipe', 'inherit', 'inherit'], env: { LESS: 'FRX', ...env } });
  try {
    await once(child, 'spawn');
  } catch {
    return undefined;
  }
  const closed = once(child, 'close');
  // Ctrl-C is for the pager, which does not end by it.
  const off = io.onSignal('SIGINT', () => undefined);
  return {
    stream: Object.assign(child.stdin, { isTTY: true, columns: stdout.columns ?? 80 }),
    /** Resolves when the reader has left it. */
    async close(): Promise<void> {
      child.stdin.end();
      await closed;
      off();
    },
  };
}
