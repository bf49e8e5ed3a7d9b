/** The thread of searches: reads log.db for them beside the log worker, with less of the processor than that. */
import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { serve } from '../../shared/storage/worker-serve.ts';
import type { SearchCalls } from './log-search.ts';
import { HistogramJob } from './search/histogram-job.ts';
import { SearchJob } from './search/search-job.ts';

/**
 * Linux knows this thread as a task of its own, and takes "nice" for it alone. Beside a search one round trip of the line in a hundred
 * then takes 0.3 to 1 ms longer on two cores (npm run bench -- search). No better: 10, slices of 0.1 ms, a pause after each step (the
 * thread that slept is preferred); SCHED_IDLE: 3 ms.
 */
const nice = 19;

let search: SearchJob | undefined;
let histogram: HistogramJob | undefined;

try {
  setPriority(Number(basename(readlinkSync('/proc/thread-self'))), nice);
} catch {
  // Not on Linux, or not allowed (lineside.service allows it): the pauses between the steps are what protects the line.
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
