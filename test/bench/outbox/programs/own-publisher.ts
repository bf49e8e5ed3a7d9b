/** The hub's publisher and its broker beside an open store. */

import { KafkaBroker } from '../../../../src/hub/kafka/broker.ts';
import type { Broker } from '../../../../src/hub/kafka/face.ts';
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
  const broker = new KafkaBroker(kafkaOptions(bootstrap, [topicOf('PUBLIC')]), clock, logger);
  let firstMs: number | undefined;
  const watched: Broker = {
    offer(message) {
      firstMs ??= performance.now();
      return broker.offer(message);
    },
    state: () => broker.state(),
    listen: (listener) => broker.listen(listener),
    start: () => broker.start(),
    stop: (limitMs) => broker.stop(limitMs),
  };
  const publisher = new Publisher({
    store,
    broker: watched,
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
    firstOfferMs: () => firstMs,
    stop: () => publisher.stop(STOP_LIMIT_MS),
  };
}
