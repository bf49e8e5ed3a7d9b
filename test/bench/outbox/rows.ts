import type { Row } from '../table.ts';
import { backlog } from './backlog.ts';
import { bytes } from './bytes.ts';
import { changes } from './changes.ts';
import { drain } from './drain.ts';
import { hold } from './hold.ts';
import { latency } from './latency.ts';
import { memory } from './memory.ts';

/** In the order of the table. */
export const rows: readonly Row[] = [changes, drain, latency, backlog, hold, memory, bytes];
