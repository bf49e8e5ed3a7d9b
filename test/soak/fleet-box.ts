/** One box of a fleet: the product's own change store, publisher and Kafka client, in a directory of its own. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { KafkaBroker } from '../../src/hub/kafka/broker.ts';
import type { BrokerListener, KafkaOptions } from '../../src/hub/kafka/face.ts';
import { hubMigrations } from '../../src/hub/migrations.ts';
import { type ChangeStore, openChangeStore } from '../../src/hub/outbox/change-store.ts';
import { emitEvent, recordEvent } from '../../src/hub/outbox/event.fixture.ts';
import { publisherOn } from '../../src/hub/outbox/publisher/publisher.fixture.ts';
import type { Clock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { openDatabase } from '../../src/shared/storage/open.ts';

export type Box = ReturnType<typeof startBox>;

export interface BoxSetting {
  readonly name: string;
  readonly dir: string;
  readonly kafka: Omit<KafkaOptions, 'clientId'>;
  /** Whether there is a connection has changed. */
  readonly turned: (connected: boolean) => void;
}

/** Started: it begins to connect. */
export function startBox({ name, dir, kafka, turned }: BoxSetting, clock: Clock) {
  mkdirSync(dir);
  const store = storeIn(dir, clock);
  const broker = new ObservedBroker({ ...kafka, clientId: name }, clock, silentLogger);
  broker.turned = turned;
  const settings = { topicOf: () => kafka.topics[0]?.name ?? '', deviceId: name, inFlightBytes: kafka.queueBytes };
  const publisher = publisherOn(store, broker, clock, settings);
  publisher.start();
  let written = 0;
  return {
    name,
    publisher,
    broker,
    written: () => written,
    /** One change of a record, committed when it resolves: the next version of it. */
    async write(): Promise<void> {
      const version = written + 1;
      await store.commit({ changedBy: 'fleet', changeReason: '' }, (change) =>
        emitEvent(change, recordEvent(name, version, { dictionary: 'fleet' })),
      );
      written = version;
    },
    async stop(limitMs: number): Promise<void> {
      await publisher.stop(limitMs);
      await store.close();
    },
  };
}

function storeIn(dir: string, clock: Clock): ChangeStore {
  const connection = openDatabase({
    path: join(dir, 'refdata.db'),
    pageSize: 1_024,
    // The hub's is larger: here there are a thousand in one machine, each with a few rows.
    cacheKib: 256,
    walLimitBytes: 1024 * 1024,
    migrations: hubMigrations,
  });
  return openChangeStore({
    connection,
    dir,
    maxBytes: 64 * 1024 * 1024,
    minFreeBytes: 0,
    clock,
    logger: silentLogger,
  });
}

/** Notifies when its connection comes and goes. */
class ObservedBroker extends KafkaBroker {
  /** The caller of startBox. */
  turned: (connected: boolean) => void = () => undefined;
  #last = false;

  override start(listener: BrokerListener): void {
    super.start({
      settled: (batch) => listener.settled(batch),
      changed: () => {
        const { connected } = this.state();
        if (connected !== this.#last) this.turned(connected);
        this.#last = connected;
        listener.changed();
      },
    });
  }
}
