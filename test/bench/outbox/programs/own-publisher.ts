/** The hub's publisher and its broker beside an open store. */

import { KafkaBroker } from '../../../../src/hub/kafka/broker.ts';
import type { Offered, OutgoingMessage } from '../../../../src/hub/kafka/face.ts';
import type { ChangeStore } from '../../../../src/hub/outbox/change-store.ts';
import { publisherOn } from '../../../../src/hub/outbox/publisher/publisher.fixture.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import { DEVICE_ID, IN_FLIGHT_BYTES, kafkaOptions } from '../settings.ts';

export function ownPublisher(store: ChangeStore, bootstrap: string, prefix: string) {
  const topicOf = (scope: string): string => `${prefix}.${scope.toLowerCase()}`;
  const broker = new WatchedBroker(kafkaOptions(bootstrap, [topicOf('PUBLIC')]), systemClock, silentLogger);
  const settings = { topicOf, deviceId: DEVICE_ID, inFlightBytes: IN_FLIGHT_BYTES };
  return { broker, publisher: publisherOn(store, broker, systemClock, settings) };
}

class WatchedBroker extends KafkaBroker {
  /** performance.now() when the first message was taken: the connection and the check of the topics are before. */
  firstMs: number | undefined;

  override offer(message: OutgoingMessage): Offered {
    const offeredMs = performance.now();
    const offered = super.offer(message);
    if (offered === 'taken') this.firstMs ??= offeredMs;
    return offered;
  }
}
