/**
 * The Broker on librdkafka. One producer (session) at a time: librdkafka reconnects automatically; after a fatal error the
 * producer is replaced. Every message taken is settled once: by its report, or as unreached when its producer is closed.
 */
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, endsWithin, pause } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { ConnectionFault } from './connection-fault.ts';
import type {
  Broker,
  BrokerListener,
  BrokerState,
  KafkaOptions,
  Offered,
  Outcome,
  OutgoingMessage,
  Settled,
} from './face.ts';
import type { Session, SessionListener } from './librdkafka.ts';
import {
  type Fault,
  fatalReason,
  isAllDown,
  isFatal,
  isLimitOutdated,
  isNoneReady,
  isTopicMissing,
  outcomeOf,
  type SentMessage,
  thrownOutcome,
  unanswered,
} from './librdkafka-errors.ts';
import { Outstanding, SendWindow } from './send-window.ts';
import { BATCH_BYTES, MESSAGE_OVERHEAD_BYTES, QUEUE_MESSAGES } from './settings.ts';
import { Topics } from './topics.ts';

/** The pause before a producer that failed is replaced doubles between these. */
const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 60_000;
/** A broker that has sent nothing for this long is probed, */
const SILENCE_MS = 10_000;
/** and must answer within this. */
const PROBE_LIMIT_MS = 3_000;
/** While the broker is unreachable, this is the pause between two probes. */
const UNREACHABLE_PAUSE_MS = 500;
/** A broker that answers that none is ready costs 390 bytes a probe, 67 MB a day: then the pause doubles up to this. */
const NONE_READY_PAUSE_MS = 5_000;
/** stop() resolves at the latest this long after its limit. */
const CLOSE_LIMIT_MS = 900;
const DRAIN_POLL_MS = 10;

export class KafkaBroker implements Broker {
  readonly #options: KafkaOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #random: () => number;
  readonly #fault: ConnectionFault;
  readonly #topics: Topics;
  readonly #outstanding = new Outstanding();
  readonly #window: SendWindow;
  readonly #stopping = new AbortController();
  #listener: BrokerListener | undefined;
  #running: Promise<void> | undefined;
  #session: Session | undefined;
  /** A broker answers, and the topics were checked. */
  #connected = false;
  #draining = false;
  #sinceMs: number;
  #heardMs = 0;
  /** The last refusal, until its topic takes a message again. */
  #lastRefusal: { readonly topic: string; readonly reason: string } | undefined;
  #fatal = false;
  #fatalReason = '';
  #failures = 0;
  #producersReplaced = 0;
  #settled: Settled[] = [];
  #wasFull = false;
  #wakeUp = new AbortController();
  #closing: Promise<void> = Promise.resolve();

  /** `random`: 0 to 1; spreads what a fleet does after an outage. */
  constructor(options: KafkaOptions, clock: Clock, logger: Logger, random: () => number = Math.random) {
    this.#options = options;
    this.#clock = clock;
    this.#logger = logger;
    this.#random = random;
    this.#fault = new ConnectionFault(options, clock, logger);
    this.#topics = new Topics(options, clock, random, logger);
    this.#window = new SendWindow(options.queueBytes, options.messageTimeoutMs);
    this.#sinceMs = clock.monoMs();
  }

  start(listener?: BrokerListener): void {
    this.#listener = listener;
    this.#fault.connecting();
    this.#running ??= this.#run(this.#stopping.signal);
  }

  state(): BrokerState {
    const { size, bytes } = this.#outstanding;
    return {
      connected: this.#connected,
      reason: this.#connected ? (this.#lastRefusal?.reason ?? '') : this.#fault.reason,
      forMs: this.#clock.monoMs() - this.#sinceMs,
      topics: this.#topics.reports(),
      outstanding: size,
      outstandingBytes: bytes,
      producersReplaced: this.#producersReplaced,
    };
  }

  hasRoom(topic: string, bytes: number): boolean {
    const limit = this.#topics.limitOf(topic);
    // librdkafka may join small ones.
    const isSure = limit !== undefined && Math.max(bytes, BATCH_BYTES) + MESSAGE_OVERHEAD_BYTES <= limit;
    return isSure && this.#outstanding.bytes + bytes <= this.#window.bytes;
  }

  offer(message: OutgoingMessage): Offered {
    const session = this.#session;
    if (session === undefined || !this.#connected || this.#draining) return 'offline';
    const bytes = bytesOf(message);
    const outstanding = this.#outstanding;
    if (bytes > this.#options.maxMessageBytes) {
      const reason = `${bytes} bytes are more than kafka.max_message_bytes (${this.#options.maxMessageBytes}) allows`;
      return this.#refuseUnsent(message, { kind: 'refused', reason, permanent: true });
    }
    // A message larger than the whole window is sent when no other is in flight.
    const full =
      outstanding.size >= QUEUE_MESSAGES || (outstanding.size > 0 && outstanding.bytes + bytes > this.#window.bytes);
    if (full) return this.#full();
    const fault = session.produce(message);
    if (fault !== undefined) {
      const sent = this.#sentMessage(message.topic, bytes);
      const outcome = thrownOutcome(fault, sent);
      if (outcome === 'full') return this.#full();
      this.#checkTopicsAfter(fault, sent);
      // The line of librdkafka's log with the reason usually comes first.
      if (isFatal(fault) && !this.#fatal) this.#fatallyFailed(this.#fatalReason);
      return outcome === 'offline' ? 'offline' : this.#refuseUnsent(message, outcome);
    }
    outstanding.take(message.id, { topic: message.topic, bytes, takenMs: this.#clock.monoMs() });
    return 'taken';
  }

  async stop(limitMs: number): Promise<void> {
    this.#draining = true;
    const end = this.#clock.monoMs() + limitMs;
    while (this.#outstanding.size > 0 && this.#connected && this.#clock.monoMs() < end) {
      await pause(this.#clock, Math.min(DRAIN_POLL_MS, Math.max(0, end - this.#clock.monoMs())));
    }
    this.#stopping.abort();
    this.#fault.stop();
    this.#disconnected('stopped');
    this.#abandon('the service is stopping');
    this.#deliver();
    const closed = Promise.all([this.#session?.close(), this.#running]).then(() => this.#closing);
    this.#session = undefined;
    await endsWithin(this.#clock, CLOSE_LIMIT_MS, closed);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#oneSession(signal);
      } catch (error) {
        // No network failure arrives here: the native module cannot be loaded, or librdkafka refuses the settings.
        this.#disconnected(messageOf(error));
      }
      if (signal.aborted) return;
      await pause(this.#clock, backoffMs(this.#failures++, RETRY_FIRST_MS, RETRY_MAX_MS), signal);
    }
  }

  async #oneSession(signal: AbortSignal): Promise<void> {
    const { Session } = await import('./librdkafka.ts');
    if (signal.aborted) return;
    this.#fatal = false;
    this.#fatalReason = 'the Kafka client reports a fatal error; a new producer is made';
    const session = new Session(this.#options, this.#clock, this.#sessionListener);
    this.#session = session;
    try {
      await session.open();
      await this.#watch(session, signal);
    } finally {
      if (this.#session === session) this.#session = undefined;
      // Not awaited: a broker that hangs would delay the next session.
      this.#closing = session.close();
    }
  }

  /** Watches the connection and checks the topics while the producer is usable. */
  async #watch(session: Session, signal: AbortSignal): Promise<void> {
    const over = (): boolean => signal.aborted || this.#fatal;
    let noneReady = 0;
    while (!over()) {
      const fault = await session.probe(PROBE_LIMIT_MS);
      if (over()) break;
      if (fault === undefined) {
        noneReady = 0;
        this.#heardMs = this.#clock.monoMs();
        if (!this.#connected) this.#topics.reconnected();
        if (this.#clock.monoMs() >= this.#topics.dueMs(!this.#connected)) {
          await this.#topics.check();
          // That may have taken half a minute: the broker is probed again.
          continue;
        }
        this.#reached();
        await this.#idle(over, signal);
      } else {
        if (this.#connected) this.#disconnected(unanswered(fault));
        else this.#fault.noAnswer(unanswered(fault));
        noneReady = isNoneReady(fault) ? noneReady + 1 : 0;
        const pauseMs = backoffMs(noneReady, UNREACHABLE_PAUSE_MS, NONE_READY_PAUSE_MS, this.#random);
        await pause(this.#clock, pauseMs, signal);
      }
    }
    if (!signal.aborted) this.#replace();
  }

  /** Waits while acknowledgements arrive and no other work is due. */
  async #idle(over: () => boolean, signal: AbortSignal): Promise<void> {
    while (this.#connected && !over()) {
      // The answer to a probe would wait behind a large message, which has a time limit of its own.
      const isSending = this.#options.isolated === true && this.#outstanding.size > 0;
      const wait = isSending
        ? SILENCE_MS
        : Math.min(this.#topics.dueMs(), this.#heardMs + SILENCE_MS) - this.#clock.monoMs();
      if (wait <= 0) return;
      this.#wakeUp = new AbortController();
      await pause(this.#clock, wait, AbortSignal.any([signal, this.#wakeUp.signal]));
    }
  }

  #replace(): void {
    this.#producersReplaced++;
    this.#disconnected(this.#fatalReason);
    this.#abandon('the producer had to be replaced');
    this.#logger.warn('kafka producer replaced after a fatal error', { reason: this.#fatalReason });
  }

  /** A closed session reports nothing, and the next one is opened only then. */
  readonly #sessionListener: SessionListener = {
    report: (id, fault) => this.#reported(id, fault),
    error: (fault) => {
      if (isAllDown(fault.text) && this.#connected) this.#disconnected('the connection to the broker is lost');
    },
    logLine: (line) => {
      const fatal = fatalReason(line);
      if (fatal === undefined) this.#fault.logLine(line);
      else this.#fatallyFailed(fatal);
    },
  };

  /** The producer takes no more messages; #watch replaces it. */
  #fatallyFailed(reason: string): void {
    this.#fatal = true;
    this.#fatalReason = reason;
    this.#wake();
  }

  #reported(id: number, fault: Fault | undefined): void {
    const taken = this.#outstanding.settle(id);
    if (taken === undefined) return;
    const now = this.#clock.monoMs();
    if (fault === undefined) {
      this.#window.acknowledged(taken.bytes, taken.takenMs, now);
      this.#heardMs = now;
      this.#failures = 0;
      if (this.#lastRefusal?.topic === taken.topic) this.#lastRefusal = undefined;
      this.#settle(id, { kind: 'acknowledged' });
      return;
    }
    const sent = this.#sentMessage(taken.topic, taken.bytes);
    const outcome = outcomeOf(fault, sent);
    if (outcome.kind === 'refused') this.#lastRefusal = { topic: taken.topic, reason: outcome.reason };
    if (outcome.kind === 'unreached') {
      this.#window.timedOut(taken.takenMs, now);
      // The broker answers, so a partition has no leader, or the link is too slow for this message.
      this.#lastRefusal = { topic: taken.topic, reason: `${taken.topic}: ${outcome.reason}` };
    }
    this.#checkTopicsAfter(fault, sent);
    this.#settle(id, outcome);
  }

  /** A refusal that the topics as last checked do not explain has them checked soon. */
  #checkTopicsAfter(fault: Fault, sent: SentMessage): void {
    const isNews = isTopicMissing(fault.text) || isLimitOutdated(fault, sent);
    if (isNews && this.#topics.topicMissing()) this.#wake();
  }

  #reached(): void {
    if (this.#connected) return;
    this.#connected = true;
    this.#sinceMs = this.#clock.monoMs();
    this.#heardMs = this.#sinceMs;
    this.#fault.connected();
    this.#logger.info('kafka connected', { bootstrap: this.#options.bootstrap });
    this.#listener?.changed();
  }

  #disconnected(reason: string): void {
    this.#fault.setReason(reason);
    if (!this.#connected) return;
    this.#connected = false;
    this.#sinceMs = this.#clock.monoMs();
    this.#topics.disconnected();
    this.#wake();
    this.#listener?.changed();
  }

  #wake(): void {
    this.#wakeUp.abort();
  }

  #abandon(reason: string): void {
    for (const id of this.#outstanding.ids()) {
      this.#outstanding.settle(id);
      this.#settle(id, { kind: 'unreached', reason });
    }
  }

  #refuseUnsent({ id, topic }: OutgoingMessage, outcome: Outcome): Offered {
    if (outcome.kind === 'refused') this.#lastRefusal = { topic, reason: outcome.reason };
    this.#settle(id, outcome);
    return 'taken';
  }

  /** One call to the listener for all reports of a turn, after offer() has returned. */
  #settle(id: number, outcome: Outcome): void {
    if (this.#settled.length === 0) setImmediate(() => this.#deliver());
    this.#settled.push({ id, outcome });
  }

  #deliver(): void {
    const batch = this.#settled;
    if (batch.length === 0) return;
    this.#settled = [];
    this.#listener?.settled(batch);
    if (this.#wasFull) this.#listener?.changed();
    this.#wasFull = false;
  }

  #full(): Offered {
    this.#wasFull = true;
    return 'full';
  }

  #sentMessage(topic: string, bytes: number): SentMessage {
    return { topic, bytes, topicLimit: this.#topics.limitOf(topic), alone: this.#options.isolated === true };
  }
}

function bytesOf(message: OutgoingMessage): number {
  let bytes = Buffer.byteLength(message.key) + Buffer.byteLength(message.value);
  for (const [name, value] of Object.entries(message.headers))
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  return bytes;
}
