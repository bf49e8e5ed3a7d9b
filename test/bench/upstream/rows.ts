import type { Row } from '../table.ts';
import { drain } from './drain.ts';
import { traffic } from './traffic.ts';

/** In the order of the table. */
export const rows: readonly Row[] = [drain, traffic];
