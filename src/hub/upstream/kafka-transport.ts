/**
 * The serial log over Kafka: a producer of its own, so that a backlog of the serial log never precedes a change event in the
 * same queue. It is there while there is something to send: a connection that is only kept costs some bytes a second.
 */

import { constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { type Clock, endsWithin, pause, type Timer, withLimit } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { Broker, BrokerState, KafkaOptions, Outcome } from '../kafka/face.ts';
import { SCHEMA_VERSION } from './packer.ts';
import type { SendOutcome, Transport, TransportState, UpstreamSettings } from './transport.ts';

/** A broker answers within this, or the producer is stopped until the next try. */
const CONNECT_MS = 30_000;
/**
 * Bytes of a connection made: three to the broker (the first, the producer's own, the one that maintains the topic), each
 * with the metadata of the broker. Measured: 15 kB; with TLS and SCRAM 42 kB, of which certificates may be more.
 */
const CONNECT_BYTES = 24 * 1_024;
const SECURE_CONNECT_BYTES = 56 * 1_024;
/** Of a connection that is kept, a second: keepalives and topic metadata. Measured: 76 while nothing is sent. */
const KEPT_BYTES_PER_S = 100;
const OUTAGE_CHECK_MS = 500;
const PATIENCE_MS = 5_000;
/** A producer that does not stop within this ends with the process. */
const STOP_MS = 900;

export interface KafkaTransportOptions {
  /** A producer, not started. */
  readonly newBroker: () => Promise<Broker>;
  /** Why the brokers cannot be reached, as far as it is known without trying; '': they can, or that is not known. */
  readonly outage: () => string;
  readonly settings: Pick<UpstreamSettings, 'topic' | 'compression' | 'maxKbitPerS' | 'maxBytesPerDay'>;
  readonly kafka: Pick<KafkaOptions, 'maxMessageBytes' | 'securityProtocol'>;
  readonly deviceId: string;
  readonly clock: Clock;
}

export class KafkaTransport implements Transport {
  readonly name = 'kafka';
  readonly connectBytes: number;
  readonly maxBytes: number;
  readonly #o: KafkaTransportOptions;
  #broker: Broker | undefined;
  /** Called when the broker has connected or disconnected, or has settled a batch. */
  readonly #waiting = new Set<() => void>();
  #changed: () => void = () => {};
  /** By the broker's reports; undefined: in flight. */
  readonly #outcomes = new Map<number, Outcome | undefined>();
  #nextId = 1;
  #state: TransportState = { connected: false, reason: 'not tried yet' };
  #keptSinceMs = 0;
  #overhead = 0;
  #releasing: Promise<void> = Promise.resolve();
  #stopped = false;
  /** At first, and after each connection. */
  #isPatient = true;
  #outageCheck: Timer | undefined;

  constructor(options: KafkaTransportOptions) {
    this.#o = options;
    const { maxMessageBytes, securityProtocol } = options.kafka;
    this.maxBytes = maxMessageBytes - MESSAGE_BYTES;
    this.connectBytes = securityProtocol === 'plaintext' ? CONNECT_BYTES : SECURE_CONNECT_BYTES;
  }

  start(changed: () => void): void {
    this.#changed = changed;
  }

  state(): TransportState {
    return this.#state;
  }

  hasRoom(bytes: number): boolean {
    return this.#broker?.hasRoom(this.#o.settings.topic, bytes + MESSAGE_BYTES) === true;
  }

  /** This level compresses a little less than librdkafka's own: the charge errs upwards. */
  cost(batch: Uint8Array): number {
    const { compression, maxKbitPerS, maxBytesPerDay } = this.#o.settings;
    const part = maxKbitPerS + maxBytesPerDay > 0 ? batch : batch.subarray(0, SAMPLE_BYTES);
    const bytes = Math.min(compressedBytes(part, compression) / part.length, 1) * batch.length;
    return Math.ceil((bytes + MESSAGE_BYTES / 2) * LINK_FACTOR) + REQUEST_BYTES;
  }

  takeOverhead(): number {
    this.#countKept();
    const bytes = Math.round(this.#overhead);
    this.#overhead -= bytes;
    return bytes;
  }

  async position(_logId: string, signal: AbortSignal): Promise<undefined> {
    const known = await this.#outage(signal);
    if (known !== '') {
      this.#awaitEnd();
      throw this.#unreached(known);
    }
    await this.#connected(signal);
    this.#isPatient = true;
    this.#state = { connected: true, reason: '' };
    return undefined;
  }

  async send(batch: Uint8Array, _range: unknown, signal: AbortSignal): Promise<SendOutcome> {
    const broker = this.#broker;
    const { settings, deviceId } = this.#o;
    if (broker === undefined || signal.aborted)
      return { kind: 'unreached', reason: 'there is no connection', unsent: true };
    const id = this.#nextId++;
    const headers = { ...HEADERS, 'device-id': deviceId };
    const offered = broker.offer({ id, topic: settings.topic, key: deviceId, value: batch, headers });
    if (offered !== 'taken') {
      this.#gone(broker);
      return { kind: 'unreached', reason: this.#state.reason, unsent: true };
    }
    // librdkafka would send it again over the next connection, and the budget would not know.
    this.#outcomes.set(id, undefined);
    await this.#until(() => this.#outcomes.get(id) !== undefined || !broker.state().connected, signal);
    const reason = signal.aborted ? 'it is being stopped' : broker.state().reason;
    const outcome = this.#outcomes.get(id) ?? { kind: 'unreached' as const, reason };
    this.#outcomes.delete(id);
    if (outcome.kind === 'acknowledged') {
      this.#state = { connected: true, reason: '' };
      return { kind: 'stored' };
    }
    this.#state = { connected: broker.state().connected, reason: outcome.reason };
    // librdkafka abandons its copy, so that it is not sent beside its successor.
    if (outcome.kind === 'unreached' && this.#broker === broker) this.#release();
    return outcome;
  }

  rest(): void {
    this.#release();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#outageCheck?.cancel();
    this.#release();
    await endsWithin(this.#o.clock, STOP_MS, this.#releasing);
  }

  async #connected(signal: AbortSignal): Promise<void> {
    const { clock, newBroker } = this.#o;
    await this.#releasing;
    const broker = this.#broker ?? (await newBroker());
    if (signal.aborted || this.#stopped) throw this.#unreached('it is being stopped');
    if (this.#broker === undefined) this.#begin(broker);
    await withLimit(clock, CONNECT_MS, signal, (limit) => this.#until(() => broker.state().connected, limit));
    const { connected, reason } = broker.state();
    if (connected && !signal.aborted) return;
    // Retrying costs bytes if the link is up and the broker is not.
    this.#release();
    throw this.#unreached(reason);
  }

  /** Returns when it is so, after a report or a change of the broker, or when the signal fires. */
  async #until(isSo: () => boolean, signal: AbortSignal): Promise<void> {
    const over = Promise.withResolvers<void>();
    const check = (): void => {
      if (signal.aborted || isSo()) over.resolve();
    };
    this.#waiting.add(check);
    signal.addEventListener('abort', check, { once: true });
    check();
    await over.promise;
    // A listener that stays would keep the batch in memory for as long as the signals behind this one.
    signal.removeEventListener('abort', check);
    this.#waiting.delete(check);
  }

  /** A connection that is being made, or is restored at once, is no outage. */
  async #outage(signal: AbortSignal): Promise<string> {
    const { outage, clock } = this.#o;
    const end = clock.monoMs() + (this.#isPatient ? PATIENCE_MS : 0);
    while (outage() !== '' && clock.monoMs() < end && !signal.aborted && !this.#stopped)
      await pause(clock, OUTAGE_CHECK_MS, signal);
    this.#isPatient = false;
    return outage();
  }

  /** The end of a known outage is noticed at once, and costs nothing on the link. */
  #awaitEnd(): void {
    this.#outageCheck?.cancel();
    if (this.#stopped) return;
    this.#outageCheck = this.#o.clock.timer(OUTAGE_CHECK_MS, () => {
      if (this.#o.outage() !== '') this.#awaitEnd();
      else if (!this.#state.connected) {
        this.#state = { connected: true, reason: '' };
        this.#changed();
      }
    });
  }

  #begin(broker: Broker): void {
    this.#broker = broker;
    this.#overhead += this.connectBytes;
    this.#keptSinceMs = this.#o.clock.monoMs();
    broker.start({
      settled: (batch) => {
        for (const { id, outcome } of batch) if (this.#outcomes.has(id)) this.#outcomes.set(id, outcome);
        for (const check of this.#waiting) check();
      },
      changed: () => {
        for (const check of this.#waiting) check();
        this.#noticed(broker.state());
      },
    });
  }

  #noticed({ connected, reason }: BrokerState): void {
    if (connected === this.#state.connected) return;
    if (!connected) this.#state = { connected, reason };
    this.#changed();
  }

  #gone(broker: Broker): void {
    const { reason } = broker.state();
    this.#release();
    this.#state = { connected: false, reason: reason === '' ? 'the connection to the broker is lost' : reason };
  }

  /** Stops the producer; its outstanding message is settled, or lost with it. */
  #release(): void {
    const broker = this.#broker;
    if (broker === undefined) return;
    this.#countKept();
    this.#broker = undefined;
    this.#releasing = broker.stop(0);
  }

  #countKept(): void {
    if (this.#broker === undefined) return;
    const nowMs = this.#o.clock.monoMs();
    this.#overhead += ((nowMs - this.#keptSinceMs) / 1_000) * KEPT_BYTES_PER_S;
    this.#keptSinceMs = nowMs;
  }

  #unreached(reason: string): LinesideError {
    this.#state = { connected: false, reason };
    return new LinesideError('NOT_READY', reason);
  }
}

// A batch as a Kafka message, and what it costs on the link.

const HEADERS = {
  'content-type': 'application/x-protobuf',
  message: 'lineside.v1.UpstreamBatch',
  'schema-version': String(SCHEMA_VERSION),
};

/** Key, headers and what Kafka puts around them, before compression. */
const MESSAGE_BYTES = 512;
/** Of a batch that is only counted, so much is compressed to see what it costs: all of it took a sixth of the hub's time in a drain. */
const SAMPLE_BYTES = 16_384;
/**
 * What a request and its answer cost beside the batch: Kafka's own frames and the acknowledgements of TCP. Measured at an
 * interface, with a small batch in it: 614 bytes without TLS.
 */
const REQUEST_BYTES = 600;
/** TCP/IP headers of both directions for each segment of 1,448 bytes: 7 %; and TLS's for each 16 KiB. */
const LINK_FACTOR = 1.08;

function compressedBytes(value: Uint8Array, compression: UpstreamSettings['compression']): number {
  switch (compression) {
    case 'none':
      return value.length;
    case 'gzip':
      return gzipSync(value, { level: 1 }).length;
    case 'zstd':
      return zstdCompressSync(value, { params: { [constants.ZSTD_c_compressionLevel]: 1 } }).length;
  }
}
