/** Looks after the topics: creates what is missing, and says what the others lack. */
import { type Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { configOf, createTopic, partitionsOf } from './describe-topics.ts';
import type { KafkaOptions, TopicReport, TopicWish } from './face.ts';
import { type Handle, openHandle } from './librdkafka.ts';
import { clientSettings } from './settings.ts';
import { type FoundTopic, lacksOf, limitOf } from './topic-wish.ts';

/** Each question to the broker waits this long at most. */
const ANSWER_LIMIT_MS = 5_000;

export interface TendedTopic extends TopicReport {
  readonly created: boolean;
  /** Bytes of the largest message that it takes; undefined: not known. */
  readonly limitBytes: number | undefined;
}

/** One report for each wish; a topic that could not be looked at has its reason among what it lacks. Never rejects for a broker. */
export async function tendTopics(options: KafkaOptions, clock: Clock): Promise<TendedTopic[]> {
  const handle = openHandle(clientSettings(options), clock, ANSWER_LIMIT_MS);
  try {
    const tended: TendedTopic[] = [];
    for (const wish of options.topics) tended.push(await tend(handle, wish, options));
    return tended;
  } finally {
    await handle.close();
  }
}

async function tend(handle: Handle, wish: TopicWish, options: KafkaOptions): Promise<TendedTopic> {
  const report = (found: FoundTopic, lacks: readonly string[], created = false): TendedTopic => ({
    name: wish.name,
    partitions: found.partitions,
    lacks,
    created,
    limitBytes: limitOf(found),
  });
  const none: FoundTopic = { partitions: 0, config: '' };
  try {
    const partitions = await partitionsOf(handle, wish.name, ANSWER_LIMIT_MS);
    if (partitions === 0 && !options.createTopics) {
      return report(none, ['does not exist, and kafka.create_topics is false']);
    }
    if (partitions === 0) await createTopic(handle, wish);
    const found: FoundTopic = {
      partitions: partitions === 0 ? wish.partitions : partitions,
      config: await configOf(handle, wish.name).catch((error: unknown) =>
        // The broker that is asked may not know of it yet; it is looked at again soon.
        partitions === 0 && /unknown topic/i.test(messageOf(error))
          ? new Map(Object.entries(wish.config))
          : messageOf(error),
      ),
    };
    return report(found, lacksOf(wish, found, options.maxMessageBytes), partitions === 0);
  } catch (error) {
    const said = messageOf(error);
    const why = /authorization failed/i.test(said)
      ? `this user may not describe or create it, it lacks the ACL (${said})`
      : said;
    return report(none, [`could not be looked at or created: ${why}`]);
  }
}
