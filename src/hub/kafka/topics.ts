/** The topics as last checked: what each lacks of its specification, and when they are checked again. */
import { backoffMs } from '../../shared/base/backoff.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { KafkaOptions, TopicReport, TopicSpec } from './face.ts';
import type { Handle } from './librdkafka.ts';
import { clientSettings } from './settings.ts';

/** A check takes two connections of its own: at five minutes, 100,000 boxes would make 700 a second. */
const CHECK_EVERY_MS = 3_600_000;
/**
 * After a connection, or when a report says that a topic is missing, the topics are checked, but not more often than this. While one
 * is missing or its settings are not known, the pause doubles from here.
 */
const CHECK_AGAIN_MS = 5_000;
/**
 * A broker that was unreachable for less than this is assumed to have the same topics: they are checked later, so that each box
 * of a fleet that reconnects makes one connection at first instead of three.
 */
const BRIEF_MS = 300_000;
const LATER_MS = 30_000;
/** Of each request to the broker. */
const ANSWER_LIMIT_MS = 5_000;

interface CheckedTopic extends TopicReport {
  readonly created: boolean;
  /** Bytes of the largest message that it takes; undefined: not known. */
  readonly limitBytes: number | undefined;
}

interface FoundTopic {
  /** 0: it does not exist. */
  readonly partitions: number;
  /** Its settings, or why they are not known. */
  readonly config: ReadonlyMap<string, string> | string;
}

export class Topics {
  readonly #options: KafkaOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #logger: Logger;
  #topics: readonly CheckedTopic[] = [];
  #checkedMs = Number.NEGATIVE_INFINITY;
  #pauseMs = CHECK_EVERY_MS;
  #failures = 0;
  #soon = false;
  #lostMs: number | undefined;
  /** After a brief loss of the connection: when they are checked. */
  #laterMs: number | undefined;

  /** `random`: 0 to 1, spreads a fleet. */
  constructor(options: KafkaOptions, clock: Clock, random: () => number, logger: Logger) {
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#logger = logger;
  }

  reports(): readonly TopicReport[] {
    if (this.#topics.length > 0)
      return this.#topics.map(({ name, partitions, lacks }) => ({ name, partitions, lacks }));
    return this.#options.topics.map(({ name }) => ({ name, partitions: 0, lacks: [] }));
  }

  limitOf(name: string): number | undefined {
    return this.#topics.find((one) => one.name === name)?.limitBytes;
  }

  /** True: it was not known before. */
  topicMissing(): boolean {
    const before = this.#soon;
    this.#soon = true;
    return !before;
  }

  disconnected(): void {
    this.#lostMs = this.#clock.monoMs();
  }

  reconnected(): void {
    const now = this.#clock.monoMs();
    if (this.#lostMs === undefined) return;
    const wereRight = this.#topics.length > 0 && this.#topics.every(({ lacks }) => lacks.length === 0);
    // A topic that a report found missing is checked soon also after a loss.
    if (wereRight && now - this.#lostMs < BRIEF_MS) this.#laterMs = now + this.#random() * LATER_MS;
    else this.#soon = true;
    this.#lostMs = undefined;
  }

  /** Monotonic milliseconds of the next check. */
  dueMs(connecting = false): number {
    if (this.#laterMs !== undefined && !this.#soon) return this.#laterMs;
    return this.#checkedMs + (this.#soon || connecting ? CHECK_AGAIN_MS : this.#pauseMs);
  }

  /** Never rejects: the report of a topic contains why it could not be checked. */
  async check(): Promise<void> {
    this.#soon = false;
    this.#laterMs = undefined;
    let found: readonly CheckedTopic[];
    try {
      found = await checkTopics(this.#options, this.#clock);
    } catch (error) {
      const unknown = { partitions: 0, lacks: [messageOf(error)], created: false, limitBytes: undefined };
      found = this.#options.topics.map(({ name }) => ({ name, ...unknown }));
    }
    this.#checkedMs = this.#clock.monoMs();
    for (const topic of found) this.#log(topic);
    this.#topics = found;
    // Also of one that was created: other brokers of a cluster learn of it later.
    const isKnown = found.every(({ limitBytes }) => limitBytes !== undefined);
    this.#failures = isKnown ? 0 : this.#failures + 1;
    this.#pauseMs = isKnown
      ? CHECK_EVERY_MS
      : backoffMs(this.#failures - 1, CHECK_AGAIN_MS, CHECK_EVERY_MS, this.#random);
  }

  #log(topic: CheckedTopic): void {
    const { name, partitions, created } = topic;
    if (created) this.#logger.info('kafka topic created', { topic: name, partitions });
    const last = this.#topics.find((one) => one.name === name);
    const before = last?.partitions ?? 0;
    // A key's partition is its hash modulo their number: its events before and after may be in two partitions.
    if (!created && before !== 0 && partitions !== 0 && partitions !== before) {
      const what = 'kafka topic has another number of partitions: the order of a key does not hold across the change';
      this.#logger.warn(what, { topic: name, before, now: partitions });
    }
    const lacks = topic.lacks.join('; ');
    if (lacks === (last?.lacks.join('; ') ?? '')) return;
    if (lacks === '') this.#logger.info('kafka topic is as requested', { topic: name });
    else this.#logger.warn('kafka topic is not as requested', { topic: name, lacks });
  }
}

async function checkTopics(options: KafkaOptions, clock: Clock): Promise<CheckedTopic[]> {
  const { openHandle } = await import('./librdkafka.ts');
  const handle = openHandle(clientSettings(options), clock, ANSWER_LIMIT_MS);
  try {
    const checked: CheckedTopic[] = [];
    for (const spec of options.topics) checked.push(await checkTopic(handle, spec, options));
    return checked;
  } finally {
    await handle.close();
  }
}

async function checkTopic(handle: Handle, spec: TopicSpec, options: KafkaOptions): Promise<CheckedTopic> {
  const report = (found: FoundTopic, lacks: readonly string[], created = false): CheckedTopic => ({
    name: spec.name,
    partitions: found.partitions,
    lacks,
    created,
    limitBytes: limitOf(found),
  });
  const none: FoundTopic = { partitions: 0, config: '' };
  try {
    const partitions = await handle.partitionsOf(spec.name);
    if (partitions === 0 && !options.createTopics) {
      return report(none, ['does not exist, and kafka.create_topics is false']);
    }
    if (partitions === 0) await handle.createTopic(spec);
    const found: FoundTopic = {
      partitions: partitions === 0 ? spec.partitions : partitions,
      config: await handle.configOf(spec.name).catch((error: unknown) =>
        // The broker that is asked may not know of it yet; it is checked again soon.
        partitions === 0 && /unknown topic/i.test(messageOf(error))
          ? new Map(Object.entries(spec.config))
          : messageOf(error),
      ),
    };
    return report(found, lacksOf(spec, found, options.maxMessageBytes), partitions === 0);
  } catch (error) {
    const text = messageOf(error);
    const why = /authorization failed/i.test(text)
      ? `this user may not describe or create it, it lacks the ACL (${text})`
      : text;
    return report(none, [`could not be checked or created: ${why}`]);
  }
}

export function lacksOf(spec: TopicSpec, found: FoundTopic, maxMessageBytes: number): string[] {
  const lacks: string[] = [];
  if (found.partitions < spec.partitions) {
    lacks.push(
      `has ${found.partitions} partition${found.partitions === 1 ? '' : 's'}, ${spec.partitions} are requested`,
    );
  }
  if (typeof found.config === 'string') return [...lacks, `its settings are not known: ${found.config}`];
  for (const [name, asked] of Object.entries(spec.config)) {
    const has = found.config.get(name);
    if (has !== asked) lacks.push(`${name} is ${has ?? 'not known'}, ${asked} is requested`);
  }
  const limit = limitOf(found);
  if (limit !== undefined && limit < maxMessageBytes) {
    lacks.push(
      `takes messages of up to ${limit} bytes (max.message.bytes), kafka.max_message_bytes allows ${maxMessageBytes}`,
    );
  }
  return lacks;
}

/** Bytes of the largest message (or batch) that a topic takes; undefined: not known. */
function limitOf(found: FoundTopic): number | undefined {
  const text = typeof found.config === 'string' ? undefined : found.config.get('max.message.bytes');
  return text === undefined || text === '' ? undefined : Number(text);
}
