/** The thread of searches: reads log.db for them beside the log worker, with less of the processor than that. */
import { readFileSync, readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { runOnProcessor } from '../../shared/base/libc.ts';
import { serve } from '../../shared/storage/worker-serve.ts';
import type { SearchCalls } from './log-search.ts';
import { HistogramJob } from './search/histogram-job.ts';
import { SearchJob } from './search/search-job.ts';

/** Linux knows this thread as a task of its own, and takes "nice" for it alone. */
const nice = 19;

let search: SearchJob | undefined;
let histogram: HistogramJob | undefined;

try {
  giveWay();
} catch {
  // Not on Linux, or not allowed (lineside.service allows it): the pauses while the log is behind are what protects the line.
}

/**
 * Stays on the last processor: a thread that moves to each one that is idle for a moment is in the way of the line on all of them. Of the
 * line's round trips beside a search, the slowest one in a hundred took 1.6 to 2.2 times as long; pinned, 1.0 to 1.4 times (npm run bench -- search).
 * No better without it: nice 10, slices of 0.1 ms, a pause after each step. SCHED_IDLE: 3.5 times.
 */
function giveWay(): void {
  setPriority(Number(basename(readlinkSync('/proc/thread-self'))), nice);
  const allowed = /^Cpus_allowed_list:.*?(\d+)$/m.exec(readFileSync('/proc/thread-self/status', 'utf8'))?.[1];
  if (allowed !== undefined) runOnProcessor(Number(allowed));
}

serve<SearchCalls>({
  beginSearch: ({ dir, logId, query }) => {
    search = new SearchJob(dir, logId, query);
  },
  stepSearch: () => {
    if (search === undefined) throw new LinesideError('INTERNAL', 'no search was begun');
    return search.step();
  },
  endSearch: () => {
    search = undefined;
  },
  beginHistogram: ({ dir, logId, query }) => {
    histogram = new HistogramJob(dir, logId, query);
  },
  stepHistogram: () => {
    if (histogram === undefined) throw new LinesideError('INTERNAL', 'no histogram was begun');
    return histogram.step();
  },
});
