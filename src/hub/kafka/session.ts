/** One producer of node-rdkafka: single use. Loads the native module, so it is itself loaded only when a broker is configured. */
import kafka, { type LibrdKafkaError, type Metadata, type MetadataOptions } from 'node-rdkafka';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import type { KafkaOptions, OutgoingMessage } from './face.ts';
import { type Fault, faultOf } from './librdkafka-errors.ts';
import { producerSettings, topicSettings } from './settings.ts';

/** Interval of the polls for reports while messages are unreported, */
const POLL_BUSY_MS = 5;
/** and otherwise, for errors alone. */
const POLL_IDLE_MS = 200;

/** Facilities of librdkafka's log that say what is wrong. */
const FAULT_FACILITIES = new Set(['FAIL', 'ERROR', 'FATAL']);

export interface SessionListener {
  /** Of a message that produce() took; `fault` undefined: acknowledged. Never after close(). */
  report(id: number, fault: Fault | undefined): void;
  /** An error of librdkafka that belongs to no message. */
  error(fault: Fault): void;
  /** A line of librdkafka's log that says why a connection fails. */
  logLine(line: string): void;
}

/** node-rdkafka destroys a client whose first request is not answered; this one sends its requests itself. */
class PatientProducer extends kafka.Producer {
  override getMetadata(options?: MetadataOptions, done?: (error: LibrdKafkaError, data: Metadata) => unknown): void {
    if (this.opened) super.getMetadata(options, done);
    else done?.(undefined as never, undefined as never);
  }
  opened = false;
}

export class Session {
  readonly #clock: Clock;
  readonly #producer: PatientProducer;
  #closed = false;
  #opening: Promise<Fault | undefined> = Promise.resolve({ code: 0, text: 'never opened' });
  #unreported = 0;
  #poll: Timer | undefined;
  #pollAtMs = Number.POSITIVE_INFINITY;

  constructor(options: KafkaOptions, clock: Clock, listener: SessionListener) {
    this.#clock = clock;
    const settings = { ...producerSettings(options), dr_cb: true, event_cb: true };
    this.#producer = new PatientProducer(settings, topicSettings(options));
    this.#producer.on('delivery-report', (error: unknown, report) => {
      this.#unreported--;
      if (!this.#closed) listener.report(Number(report.opaque), error == null ? undefined : faultOf(error));
    });
    this.#producer.on('event.error', (error) => {
      if (!this.#closed) listener.error(faultOf(error));
    });
    this.#producer.on('event.log', (event: { fac?: string; message?: string }) => {
      if (!this.#closed && FAULT_FACILITIES.has(event.fac ?? '')) listener.logLine(event.message ?? '');
    });
  }

  /** The client connects in the background and keeps trying. Rejects when the settings are refused. */
  async open(): Promise<void> {
    this.#opening = answered((done) => this.#producer.connect({}, done));
    const fault = await this.#opening;
    if (fault !== undefined) throw new Error(fault.text);
    this.#producer.opened = true;
    this.#pollWithin(POLL_IDLE_MS);
  }

  /** undefined: a broker answered within the limit; else why not. */
  probe(limitMs: number): Promise<Fault | undefined> {
    return answered((done) => this.#producer.getMetadata({ allTopics: false, timeout: limitMs }, done));
  }

  /** Throws what librdkafka throws: see faultOf. */
  produce(message: OutgoingMessage): void {
    const headers = Object.entries(message.headers).map(([name, value]) => ({ [name]: value }));
    const [value, key] = [Buffer.from(message.value), Buffer.from(message.key)];
    this.#producer.produce(message.topic, null, value, key, null, message.id, headers);
    this.#unreported++;
    this.#pollWithin(POLL_BUSY_MS);
  }

  /** Nothing is reported afterwards; resolves when librdkafka has released everything. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // Polling a producer that another thread destroys would touch freed memory.
    this.#poll?.cancel();
    // A client that is still being created cannot be destroyed.
    if ((await this.#opening) === undefined)
      await new Promise<void>((resolve) => this.#producer.disconnect(0, () => resolve()));
  }

  #pollWithin(ms: number): void {
    const atMs = this.#clock.monoMs() + ms;
    if (this.#closed || atMs >= this.#pollAtMs) return;
    this.#poll?.cancel();
    this.#pollAtMs = atMs;
    this.#poll = this.#clock.timer(ms, () => {
      this.#pollAtMs = Number.POSITIVE_INFINITY;
      this.#producer.poll();
      this.#pollWithin(this.#unreported > 0 ? POLL_BUSY_MS : POLL_IDLE_MS);
    });
  }
}

function answered(ask: (done: (error: unknown) => void) => void): Promise<Fault | undefined> {
  return new Promise((resolve) => ask((error) => resolve(error == null ? undefined : faultOf(error))));
}
