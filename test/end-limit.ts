/**
 * Preloaded by scripts/test: a test file that leaves a handle open fails, and names it. Without this the runner waits for it
 * without end, as --test-timeout limits tests and not their file; --test-force-exit would report such a file as passed.
 */
import { isMainThread } from 'node:worker_threads';

/** Counts from the end of the last test: brokers and services may still have to end. */
const LIMIT_MS = 120_000;
const [, program = ''] = process.argv;

// Neither in the runner, nor in the workers and programs that a test starts with the same options.
if (program.endsWith('.test.ts') && process.env['NODE_TEST_CONTEXT'] !== undefined && isMainThread) {
  const { after } = await import('node:test');
  after(() => {
    const limit = setTimeout(() => {
      const handles = process.getActiveResourcesInfo().join(', ');
      process.stderr.write(`${program}: its tests are over, and it is kept alive by: ${handles}\n`);
      process.exit(1);
    }, LIMIT_MS);
    limit.unref();
  });
}
