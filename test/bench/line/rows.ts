import type { Row } from '../table.ts';
import { idle } from './idle.ts';
import { localPort } from './local-port.ts';
import { memory } from './memory.ts';
import { fast, usual } from './paced.ts';
import { receive } from './receive.ts';
import { replay } from './replay.ts';
import { roundTrip, sessions } from './round-trip.ts';
import { stall } from './stall.ts';
import { startup } from './startup.ts';
import { storage } from './storage.ts';
import { tail } from './tail.ts';

/** In the order of the table. */
export const rows: readonly Row[] = [
  receive,
  fast,
  usual,
  roundTrip,
  sessions,
  localPort,
  tail,
  replay,
  storage,
  stall,
  idle,
  memory,
  startup,
];
