/** The topics as they were last seen, and when to look again: after a connection, now and then, and when one is missed. */
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { KafkaOptions, TopicReport } from './face.ts';
import type { CheckedTopic } from './tend-topics.ts';

/**
 * Topics are looked after this often: it takes two connections of its own, which a hundred thousand boxes would make 700
 * times a second if each did so every five minutes,
 */
const CHECK_EVERY_MS = 3_600_000;
/** and after a connection, or when a report says that one is missing, but not more often than this. */
const CHECK_AGAIN_MS = 5_000;
/**
 * A broker that was unreachable for less than this is taken for the one it was, with the topics it had: they are looked at some
 * time later, so that a fleet that comes back makes one connection each at first, and not three.
 */
const BRIEF_MS = 300_000;
const LATER_MS = 30_000;

export class TopicChecker {
  readonly #options: KafkaOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #topics: readonly CheckedTopic[] = [];
  #checkedMs = Number.NEGATIVE_INFINITY;
  #soon = false;
  #lostMs: number | undefined;
  /** After a brief absence: when they are looked at. */
  #laterMs: number | undefined;

  constructor(options: KafkaOptions, clock: Clock, logger: Logger) {
    this.#options = options;
    this.#clock = clock;
    this.#logger = logger;
  }

  reports(): readonly TopicReport[] {
    if (this.#topics.length > 0)
      return this.#topics.map(({ name, partitions, lacks }) => ({ name, partitions, lacks }));
    return this.#options.topics.map(({ name }) => ({ name, partitions: 0, lacks: [] }));
  }

  /** Bytes that the topic takes, where that is known. */
  limitOf(name: string): number | undefined {
    return this.#topics.find((one) => one.name === name)?.limitBytes;
  }

  /** True: that is news. */
  topicMissing(): boolean {
    const before = this.#soon;
    this.#soon = true;
    return !before;
  }

  /** The broker is gone: what comes back may be another. */
  disconnected(): void {
    this.#lostMs = this.#clock.monoMs();
  }

  /** A broker answers again. */
  reconnected(): void {
    const now = this.#clock.monoMs();
    if (this.#lostMs === undefined) return;
    const wereRight = this.#topics.length > 0 && this.#topics.every(({ lacks }) => lacks.length === 0);
    // What a report missed is looked for soon also after an absence.
    if (wereRight && now - this.#lostMs < BRIEF_MS) this.#laterMs = now + Math.random() * LATER_MS;
    else this.#soon = true;
    this.#lostMs = undefined;
  }

  /** Monotonic milliseconds of the next look. */
  dueMs(connecting = false): number {
    if (this.#laterMs !== undefined && !this.#soon) return this.#laterMs;
    return this.#checkedMs + (this.#soon || connecting ? CHECK_AGAIN_MS : CHECK_EVERY_MS);
  }

  /** Never rejects: a topic that could not be looked at says so. */
  async check(): Promise<void> {
    this.#soon = false;
    this.#laterMs = undefined;
    let found: readonly CheckedTopic[];
    try {
      const { checkTopics } = await import('./tend-topics.ts');
      found = await checkTopics(this.#options, this.#clock);
    } catch (error) {
      const unknown = { partitions: 0, lacks: [messageOf(error)], created: false, limitBytes: undefined };
      found = this.#options.topics.map(({ name }) => ({ name, ...unknown }));
    }
    this.#checkedMs = this.#clock.monoMs();
    for (const topic of found) this.#log(topic);
    this.#topics = found;
    // Not every broker of a cluster knows at once of a topic that was just created.
    if (found.some(({ created, limitBytes }) => created && limitBytes === undefined)) this.#soon = true;
  }

  /** Once for each change. */
  #log(topic: CheckedTopic): void {
    if (topic.created) this.#logger.info('kafka topic created', { topic: topic.name, partitions: topic.partitions });
    const last = this.#topics.find((one) => one.name === topic.name);
    this.#logPartitions(topic, last?.partitions ?? 0);
    const before = last?.lacks.join('; ') ?? '';
    const lacks = topic.lacks.join('; ');
    if (lacks === before) return;
    if (lacks === '') this.#logger.info('kafka topic is as asked for', { topic: topic.name });
    else this.#logger.warn('kafka topic is not as asked for', { topic: topic.name, lacks });
  }
  /** A key's place is its hash by the number of partitions: its events before and after are in two of them. */
  #logPartitions({ name, partitions, created }: CheckedTopic, before: number): void {
    if (created || before === 0 || partitions === 0 || partitions === before) return;
    const what = 'kafka topic has another number of partitions: the order of a key does not hold across the change';
    this.#logger.warn(what, { topic: name, before, now: partitions });
  }
}
