/** The hub's publisher and its broker beside an open store. */

import { KafkaBroker } from '../../../../src/hub/kafka/broker.ts';
import type { Broker, Offered, OutgoingMessage } from '../../../../src/hub/kafka/face.ts';
import type { ChangeStore } from '../../../../src/hub/outbox/change-store.ts';
import { Publisher } from '../../../../src/hub/outbox/publisher/publisher.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import { DEVICE_ID, IN_FLIGHT_BYTES, kafkaOptions } from '../settings.ts';

export interface OwnPublisher {
  readonly broker: Broker;
  start(): void;
  /** Rows that are still to be acknowledged, or to be marked. */
  waiting(): number;
  /** performance.now() of the first message offered; undefined: none was. */
  firstOfferMs(): number | undefined;
  stop(): Promise<void>;
}

const STOP_LIMIT_MS = 1_000;

export function ownPublisher(store: ChangeStore, bootstrap: string, prefix: string): OwnPublisher {
  const [clock, logger] = [systemClock, silentLogger];
  const topicOf = (scope: string): string => `${prefix}.${scope.toLowerCase()}`;
  const broker = new WatchedBroker(kafkaOptions(bootstrap, [topicOf('PUBLIC')]), clock, logger);
  const publisher = new Publisher({
    store,
    broker,
    topicOf,
    deviceId: DEVICE_ID,
    maxAttempts: 1_000,
    inFlightBytes: IN_FLIGHT_BYTES,
    keepPublishedDays: 7,
    clock,
    logger,
  });
  return {
    broker,
    start: () => publisher.start(),
    waiting: () => publisher.status().waiting,
    firstOfferMs: () => broker.firstMs,
    stop: () => publisher.stop(STOP_LIMIT_MS),
  };
}

class WatchedBroker extends KafkaBroker {
  /** performance.now() of the first message offered. */
  firstMs: number | undefined;

  override offer(message: OutgoingMessage): Offered {
    this.firstMs ??= performance.now();
    return super.offer(message);
  }
}
