/** Programs that measure in a process of their own: bundled as scripts/build bundles the hub, in the service's environment. */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { buildSync } from 'esbuild';
import { NODE, ROOT } from '../../e2e/daemon.ts';
import { type Started, start } from '../processes.ts';

const SOURCES = ['outbox', 'webhooks', 'upstream'].map((suite) => join(ROOT, 'test/bench', suite, 'programs'));
/** Within the checkout, where the native packages are found. */
const COMPILED = join(ROOT, '.cache', 'bench');
let built = false;

/** Path of programs/NAME, compiled. */
export function compiled(name: string): string {
  if (!built) {
    const sources = SOURCES.flatMap((dir) => readdirSync(dir).map((file) => join(dir, file)));
    buildSync({
      entryPoints: [...sources, join(ROOT, 'src/hub/refdata/import-worker.ts')],
      outdir: COMPILED,
      entryNames: '[name]',
      bundle: true,
      splitting: true,
      platform: 'node',
      format: 'esm',
      target: 'node24',
      external: ['better-sqlite3', 'koffi', 'node-rdkafka'],
      // CommonJS libraries call require, which a bundle of ES modules lacks.
      banner: {
        js: "import { createRequire as lsRequire } from 'node:module'; const require = lsRequire(import.meta.url);",
      },
    });
    built = true;
  }
  return join(COMPILED, `${name}.js`);
}

/** programs/NAME, running. */
export function program(name: string, args: readonly (string | number)[]): Started {
  return start(NODE, [compiled(name), ...args]);
}

/** What programs/NAME prints as JSON. */
export async function measured<T>(name: string, args: readonly (string | number)[]): Promise<T> {
  const child = program(name, args);
  const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (status !== 0) throw new Error(`${name} ended with ${String(status)}`);
  return JSON.parse(output) as T;
}
