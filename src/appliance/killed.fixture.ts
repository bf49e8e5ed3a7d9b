/** Work in a process of its own that kills itself at its nth step, as a pulled plug would end it. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** `work`: a module's text that calls onStep(step) before each step; its imports are relative to the repository. */
export function killedAt(nth: number, work: string): { readonly signal: string | null; readonly steps: string[] } {
  const program = `
    import { writeSync } from 'node:fs';
    let steps = 0;
    const onStep = (step) => {
      writeSync(1, step + '\\n');
      if (++steps === ${nth}) process.kill(process.pid, 'SIGKILL');
    };
    ${work}`;
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    env: { ...process.env, NODE_COMPILE_CACHE: join(root, '.cache/compile') },
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  return { signal, steps: stdout.trim().split('\n') };
}
