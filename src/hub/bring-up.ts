/**
 * Migrations of refdata.db that lock older programs out run before the file is opened, rows in batches, with progress for systemd and
 * the log. On the image they run only after the slot was kept: until then the box may return to the older program.
 */
import { setImmediate } from 'node:timers/promises';
import { type Clock, systemClock, type Timer } from '../shared/base/clock.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { realRoots, slot } from '../shared/host/sensors.ts';
import type { ServiceStart } from '../shared/host/service-process.ts';
import type { Migrations } from '../shared/storage/open.ts';
import type { HttpParts } from './http/server.ts';
import { moveRows, pendingRows } from './outbox/refdata-file.ts';

/** A stage that reports may take as long as it needs; an operator watches the log. */
const stageEveryMs = 1_000;
const logEveryMs = 10_000;
/** Of what could not be moved whole; the number is logged at the end. */
const loggedFaults = 100;
/** The slot check keeps a slot after half a minute. */
const trialPollMs = 1_000;

export function isSlotOnTrial(): boolean {
  return slot(realRoots)?.trying === true;
}

/**
 * False: there is such a migration, and the slot is on trial; nothing was changed. Throws STORAGE_FULL if there is not enough space, on
 * trial too: then the box returns to the older program. SHUTTING_DOWN: the start was stopped; the next one continues.
 */
export async function bringUp(
  { config, logger, stage, ending }: ServiceStart,
  migrations: Migrations,
  isOnTrial: () => boolean,
  clock: Clock = systemClock,
): Promise<boolean> {
  const { dir } = config.data;
  let stagedMs = clock.monoMs();
  const alive = (text: string): void => {
    if (clock.monoMs() - stagedMs < stageEveryMs) return;
    stagedMs = clock.monoMs();
    stage(text);
  };
  const rows = pendingRows(dir, migrations, () => alive('checking the space for the migration of refdata.db'));
  if (rows === undefined) return true;
  if (isOnTrial()) return false;
  const fromMs = clock.monoMs();
  let [moved, faulty, loggedMs] = [0, 0, fromMs];
  stage('migrating refdata.db');
  logger.info('migration of refdata.db started', { rows });
  for (const batch of moveRows(dir, migrations)) {
    moved += batch.rows;
    for (const fault of batch.faults) if (++faulty <= loggedFaults) logger.warn('not migrated whole', { row: fault });
    alive(`migrating refdata.db: ${moved} of ${rows} rows`);
    if (clock.monoMs() - loggedMs >= logEveryMs) {
      loggedMs = clock.monoMs();
      logger.info('migration of refdata.db', { moved, rows });
    }
    // Signals are heard here.
    await setImmediate();
    if (ending.aborted)
      throw new LinesideError('SHUTTING_DOWN', `stopped after ${moved} of ${rows} rows of refdata.db`);
  }
  const seconds = Math.round((clock.monoMs() - fromMs) / 1_000);
  logger.info('migration of refdata.db completed', { rows: moved, notWhole: faulty, seconds });
  return true;
}

export function onTrial(): LinesideError {
  return new LinesideError('UPDATE_ON_TRIAL', 'update on trial: refdata.db is migrated when the update is kept', {
    hint: 'Try: lineside update status',
  });
}

/** In place of the parts of the hub that need refdata.db: every call of one, or of a part of one, throws UPDATE_ON_TRIAL. */
export function partsOnTrial(): Pick<HttpParts, 'refdata' | 'outbox' | 'webhooks' | 'storage'> {
  const part = new Proxy(
    () => {
      throw onTrial();
    },
    // No promise: `then` would be called.
    { get: (_, name): unknown => (name === 'then' ? undefined : part) },
  ) as never;
  return { refdata: part, outbox: part, webhooks: part, storage: part };
}

/** Calls once the slot was kept; answers the end of the wait. */
export function afterTrial(isOnTrial: () => boolean, kept: () => void, clock: Clock = systemClock): () => void {
  let timer: Timer;
  const arm = (): void => {
    timer = clock.timer(trialPollMs, () => (isOnTrial() ? arm() : kept()));
  };
  arm();
  return () => timer.cancel();
}
