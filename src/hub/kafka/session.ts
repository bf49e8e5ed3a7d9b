/**
 * One producer of node-rdkafka, from its first connection to its end: single use. Loads the native module, so it is
 * itself loaded only when there is a broker to talk to.
 */
import kafka, { type LibrdKafkaError, type Metadata, type MetadataOptions } from 'node-rdkafka';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import type { KafkaOptions, OutgoingMessage } from './face.ts';
import type { Fault } from './librdkafka-errors.ts';
import { producerSettings, topicSettings } from './settings.ts';

/** Reports come with a poll: this often while there is something to report, */
const POLL_BUSY_MS = 5;
/** and this often for errors alone. */
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

export interface Session {
  /** Makes the client, which begins to connect and goes on trying. Rejects when the settings are refused. */
  open(): Promise<void>;
  /** Asks for a sign of life: undefined when a broker answered within the limit, else why not. */
  probe(limitMs: number): Promise<Fault | undefined>;
  /** Throws what librdkafka throws: see faultOf. */
  produce(message: OutgoingMessage): void;
  /** Nothing is reported any more from now on; resolves when librdkafka has let go of everything. */
  close(): Promise<void>;
}

/** node-rdkafka takes a client apart again whose first question is not answered; this one asks its questions itself. */
class PatientProducer extends kafka.Producer {
  override getMetadata(options?: MetadataOptions, done?: (error: LibrdKafkaError, data: Metadata) => unknown): void {
    if (this.opened) super.getMetadata(options, done);
    else done?.(undefined as never, undefined as never);
  }
  opened = false;
}

export function newSession(options: KafkaOptions, clock: Clock, listener: SessionListener): Session {
  const settings = { ...producerSettings(options), dr_cb: true, event_cb: true };
  const producer = new PatientProducer(settings, topicSettings(options));
  let closed = false;
  let opening: Promise<Fault | undefined> = Promise.resolve({ code: 0, text: 'never opened' });
  let unreported = 0;
  let poll: Timer | undefined;
  let pollAt = Number.POSITIVE_INFINITY;

  const pollWithin = (ms: number): void => {
    const at = clock.monoMs() + ms;
    if (closed || at >= pollAt) return;
    poll?.cancel();
    pollAt = at;
    poll = clock.timer(ms, () => {
      pollAt = Number.POSITIVE_INFINITY;
      producer.poll();
      pollWithin(unreported > 0 ? POLL_BUSY_MS : POLL_IDLE_MS);
    });
  };

  producer.on('delivery-report', (error: unknown, report) => {
    unreported--;
    if (!closed) listener.report(Number(report.opaque), error == null ? undefined : faultOf(error));
  });
  producer.on('event.error', (error) => {
    if (!closed) listener.error(faultOf(error));
  });
  producer.on('event.log', (event: { fac?: string; message?: string }) => {
    if (!closed && FAULT_FACILITIES.has(event.fac ?? '')) listener.logLine(event.message ?? '');
  });

  const answered = (ask: (done: (error: unknown) => void) => void): Promise<Fault | undefined> =>
    new Promise((resolve) => ask((error) => resolve(error == null ? undefined : faultOf(error))));
  const asked = (limitMs: number) => ({ allTopics: false, timeout: limitMs });

  return {
    async open() {
      opening = answered((done) => producer.connect({}, done));
      const fault = await opening;
      if (fault !== undefined) throw new Error(fault.text);
      producer.opened = true;
      pollWithin(POLL_IDLE_MS);
    },
    probe: (limitMs) => answered((done) => producer.getMetadata(asked(limitMs), done)),
    produce(message) {
      const headers = Object.entries(message.headers).map(([name, value]) => ({ [name]: value }));
      const [value, key] = [Buffer.from(message.value), Buffer.from(message.key)];
      producer.produce(message.topic, null, value, key, null, message.id, headers);
      unreported++;
      pollWithin(POLL_BUSY_MS);
    },
    async close() {
      if (closed) return;
      closed = true;
      // Polling a producer that another thread is taking apart would touch freed memory.
      poll?.cancel();
      // A client that is just being made cannot be taken apart yet.
      if ((await opening) === undefined) await new Promise<void>((resolve) => producer.disconnect(0, () => resolve()));
    },
  };
}

/** Anything that node-rdkafka throws or reports. */
function faultOf(error: unknown): Fault {
  if (!(error instanceof Error)) return { code: -1, text: String(error).toLowerCase() };
  const { code, origin } = error as Error & { code?: unknown; origin?: unknown };
  const whole = /^(?:local|broker): /i.test(error.message) || typeof origin !== 'string' || origin === 'unknown';
  const text = whole ? error.message : `${origin}: ${error.message}`;
  return { code: typeof code === 'number' ? code : -1, text: text.toLowerCase() };
}
