/** Loaded before the daemon (--import): at SIGUSR2 writes the longest hold of the main thread's loop since the one before. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const RESOLUTION_MS = 1;

if (isMainThread) {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  process.on('SIGUSR2', () => {
    // Of the time from tick to tick one resolution is no delay.
    process.stderr.write(`longest hold ${Math.max(0, delays.max / 1e6 - RESOLUTION_MS)} ms\n`);
    delays.reset();
  });
}
