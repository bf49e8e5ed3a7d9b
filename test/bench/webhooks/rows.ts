import type { Row } from '../table.ts';
import { bytes } from './bytes.ts';
import { dead } from './dead.ts';
import { deliveries } from './deliveries.ts';
import { planning } from './planning.ts';
import { waiting } from './waiting.ts';

/** In the order of the table. */
export const rows: readonly Row[] = [deliveries, planning, dead, waiting, bytes];
