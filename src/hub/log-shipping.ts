/** Composition of upstream: the configured transport, and the shipper. */
import { join } from 'node:path';
import type { Clock } from '../shared/base/clock.ts';
import type { Logger } from '../shared/base/logger.ts';
import type { Config } from '../shared/config/config.ts';
import type { LineClient } from '../shared/line-client/line-client.ts';
import { openUpstreamBroker } from './brokers.ts';
import { type Broker, type BrokerState, LARGE_MESSAGE_MS } from './kafka/face.ts';
import type { Publisher, PublisherStatus } from './outbox/publisher/publisher.ts';
import { StoredLog } from './upstream/line-log.ts';
import { PositionFile, positionFileName } from './upstream/persisted-state.ts';
import { Shipper } from './upstream/shipper.ts';
import type { Transport } from './upstream/transport.ts';

export interface UpstreamParts {
  readonly config: Config;
  readonly line: LineClient;
  readonly publisher: Publisher;
  /** Of the change events; undefined: none is configured. */
  readonly broker: Broker | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Beyond a transport's own limits: librdkafka's time-outs, a collector's 60 s and a second for each kilobyte. */
const SEND_MORE_MS = 60_000;
const SLOWEST_BYTES_PER_MS = 1;

/** Never waits for the line or the remote. */
export async function startUpstream(parts: UpstreamParts): Promise<Shipper> {
  const { config, line, clock, logger } = parts;
  const { to, batchBytes } = config.upstream;
  const events = changeEvents(parts.publisher, parts.broker, clock);
  const shipper = new Shipper({
    transport: to === 'kafka' ? await kafka(parts, events.outage) : await collector(parts),
    line: new StoredLog(line, clock),
    file: new PositionFile(join(config.data.dir, positionFileName)),
    deviceId: config.device.id,
    settings: config.upstream,
    busy: events.busy,
    sendLimitMs:
      Math.max(config.kafka.messageTimeoutMs, LARGE_MESSAGE_MS, SEND_MORE_MS + batchBytes / SLOWEST_BYTES_PER_MS) +
      SEND_MORE_MS,
    clock,
    logger,
  });
  shipper.start();
  return shipper;
}

async function kafka({ config, clock, logger }: UpstreamParts, outage: () => string): Promise<Transport> {
  const { KafkaTransport } = await import('./upstream/kafka-transport.ts');
  return new KafkaTransport({
    newBroker: () => openUpstreamBroker(config, clock, logger),
    outage,
    settings: config.upstream,
    kafka: config.kafka,
    deviceId: config.device.id,
    clock,
  });
}

async function collector({ config, clock, logger }: UpstreamParts): Promise<Transport> {
  const { CollectorTransport } = await import('./upstream/collector-transport.ts');
  return new CollectorTransport(config.upstream, config.device.id, clock, logger);
}

// Change events take precedence over the serial log: whether some can be sent now, and whether their broker is reachable.

/** Rows that have not moved for so long are refused or have no partition: the serial log does not wait for them. */
const STUCK_MS = 30_000;

/** `broker`: undefined if none is configured. */
export function changeEvents(
  publisher: { status(): Pick<PublisherStatus, 'waiting' | 'publishedTotal'> },
  broker: { state(): Pick<BrokerState, 'connected' | 'reason'> } | undefined,
  clock: Clock,
) {
  let published = -1;
  /** When one was published last, or none waited. */
  let movedMs = clock.monoMs();
  const busy = (): boolean => {
    const { waiting, publishedTotal } = publisher.status();
    const nowMs = clock.monoMs();
    if (waiting === 0 || publishedTotal !== published) movedMs = nowMs;
    published = publishedTotal;
    return waiting > 0 && broker?.state().connected === true && nowMs - movedMs < STUCK_MS;
  };
  /** Why the broker is unreachable; '': it is reachable, or that is unknown. */
  const outage = (): string => {
    const state = broker?.state();
    return state === undefined || state.connected ? '' : state.reason;
  };
  return { busy, outage };
}
