/** Retention over a real refdata.db, at a running time that the test says. */
import type { TestContext } from 'node:test';
import { silentLogger } from '../../../shared/base/logger.ts';
import { type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { subscriptionRow } from '../delivery/stored.fixture.ts';
import { Retention, type RetentionOptions } from './retention.ts';

export const dayMs = 86_400_000;
export const mib = 1024 * 1024;

export interface Rig extends TemporaryStore {
  readonly connection: ChangeStore['connection'];
  readonly retention: Retention;
  /** Commits that removed deliveries. */
  readonly removed: () => number;
  runMs: number;
}

/** With subscription 1. */
export function rigFor(t: TestContext, changes: Partial<RetentionOptions> = {}): Rig {
  const temporary = temporaryStore(t);
  const { store } = temporary;
  subscriptionRow(store.connection, 1);
  let removed = 0;
  const running = { now: () => rig.runMs };
  const retention = retentionOf(t, { ...temporary, running, onRemoved: () => removed++, ...changes });
  const rig: Rig = { ...temporary, connection: store.connection, retention, removed: () => removed, runMs: 0 };
  return rig;
}

/** Not started; stopped after the test. */
export function retentionOf(
  t: TestContext,
  options: Partial<RetentionOptions> & Pick<RetentionOptions, 'store' | 'clock' | 'running'>,
): Retention {
  const retention = new Retention({
    keepDeliveredDays: 7,
    keepFailedDays: 30,
    maxAnswerBytes: 64 * mib,
    maxBytes: 1024 * mib,
    logger: silentLogger,
    onRemoved: () => {},
    ...options,
  });
  t.after(() => retention.stop());
  return retention;
}

export function left({ connection }: Rig): readonly number[] {
  return connection.prepare<[], number>('SELECT id FROM webhook_deliveries ORDER BY id').pluck().all();
}
