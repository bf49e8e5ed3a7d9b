/** The memory of this process: how much it has, and giving back what it no longer uses. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (how: { readonly type: string; readonly execution: string; readonly flavor: string }) => void;

/**
 * V8 collects garbage when it wants memory: on a machine that is quiet again, never. Of this thread alone, which it stops for
 * about 60 ms (13 MB in use, a PC).
 */
export function collectGarbage(): void {
  // A context that is made now has gc(); the program's own was made without. "last-resort": with the pages of dead objects.
  setFlagsFromString('--expose-gc');
  const collect: Collect = runInNewContext('gc');
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/**
 * By how much the heap may grow, in percent of what was in use, before V8 collects all of it. By the machine's memory V8 would
 * let it grow up to fourfold: the hub that sends webhook deliveries without a pause had 160 to 201 MB resident, of which 21 were
 * in use. With 60: 140 to 169 MB.
 */
const heapGrowthPercent = 60;

/** For all threads of the process. */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${heapGrowthPercent}`);
}

/**
 * When a process releases what its start left behind, which would stay while it has little to do: the line had 92.5 MB instead
 * of 85.7, the hub 94.6 instead of 91.8. A release takes 75 ms of CPU time on a PC, a fifth of a start. Both processes are up by
 * then (an emulated Raspberry Pi 3: 3 to 4 s apart), and the clients that waited for them are served first.
 */
export const releaseAfterStartMs = 15_000;

/** Of this thread, and what all threads have freed: the C library keeps freed pages below the end of its heap. */
export async function releaseMemory(): Promise<void> {
  const { trimHeap } = await import('./libc.ts');
  collectGarbage();
  trimHeap();
}

let last = 0;

/** Memory of this process. Node opens a file of /proc for it: without descriptors left it is the figure of the last time. */
export function residentBytes(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // EMFILE: a request for the state of the process must be answered then above all.
  }
  return last;
}
