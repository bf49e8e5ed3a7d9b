import type { Clock } from '../../shared/base/clock.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import type { DeliveryRows } from './delivery/delivery-rows.ts';
import type { RunningTime } from './progress.ts';
import type { SubscriptionSource } from './subscriptions/cache.ts';

/** What planning, delivery, review and retention share. */
export interface WebhookParts {
  readonly store: ChangeStore;
  readonly cache: SubscriptionSource;
  readonly rows: DeliveryRows;
  readonly running: RunningTime;
  readonly clock: Clock;
  readonly logger: Logger;
}
