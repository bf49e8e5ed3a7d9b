import type { Row } from '../table.ts';
import { memory } from './memory.ts';
import { fast, usual } from './paced.ts';
import { receive } from './receive.ts';
import { replay } from './replay.ts';
import { roundTrip, session } from './round-trip.ts';
import { stall } from './stall.ts';
import { startup } from './startup.ts';
import { storage } from './storage.ts';
import { tail } from './tail.ts';

/** In the order of the table. */
export const lineRows: readonly Row[] = [
  receive,
  fast,
  usual,
  roundTrip,
  session,
  tail,
  replay,
  storage,
  stall,
  memory,
  startup,
];
