/** Looks after the topics: creates what is missing, and says what the others lack. */

import koffi from 'koffi';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { KafkaOptions, TopicReport, TopicSpec } from './face.ts';
import {
  call,
  ERROR_BYTES,
  errorText,
  type Handle,
  LibrdkafkaError,
  OUT,
  openHandle,
  P,
  type Pointer,
  pointers,
  textIn,
  waiting,
} from './librdkafka.ts';
import { clientSettings } from './settings.ts';
import { type FoundTopic, lacksOf, limitOf } from './topic-spec.ts';

/** Each question to the broker waits this long at most. */
const ANSWER_LIMIT_MS = 5_000;

export interface CheckedTopic extends TopicReport {
  readonly created: boolean;
  /** Bytes of the largest message that it takes; undefined: not known. */
  readonly limitBytes: number | undefined;
}

/** One report for each wish; a topic that could not be looked at has its reason among what it lacks. Never rejects for a broker. */
export async function checkTopics(options: KafkaOptions, clock: Clock): Promise<CheckedTopic[]> {
  const handle = openHandle(clientSettings(options), clock, ANSWER_LIMIT_MS);
  try {
    const tended: CheckedTopic[] = [];
    for (const wish of options.topics) tended.push(await checkTopic(handle, wish, options));
    return tended;
  } finally {
    await handle.close();
  }
}

async function checkTopic(handle: Handle, wish: TopicSpec, options: KafkaOptions): Promise<CheckedTopic> {
  const report = (found: FoundTopic, lacks: readonly string[], created = false): CheckedTopic => ({
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

// Topics as the broker has them: read, and created, through librdkafka's admin interface.

/** rd_kafka_admin_op_t */
const CREATE_TOPICS = 1;
const DESCRIBE_CONFIGS = 5;
/** rd_kafka_ResourceType_t */
const TOPIC = 2;
/** rd_kafka_resp_err_t: created by another client meanwhile. */
const TOPIC_ALREADY_EXISTS = 36;

const topicNew = call<[Pointer, string, null], Pointer>('topic_new', P, [P, 'str', P]);
const topicDestroy = call<[Pointer], void>('topic_destroy', 'void', [P]);
const metadata = waiting<[Pointer, number, Pointer, (Pointer | null)[], number], number>('metadata', 'int', [
  P,
  'int',
  P,
  '_Out_ void **',
  'int',
]);
const metadataDestroy = call<[Pointer], void>('metadata_destroy', 'void', [P]);
const newTopicNew = call<[string, number, number, Uint8Array, number], Pointer | null>('NewTopic_new', P, [
  'str',
  'int',
  'int',
  P,
  'size_t',
]);
const newTopicSet = call<[Pointer, string, string], number>('NewTopic_set_config', 'int', [P, 'str', 'str']);
const newTopicDestroy = call<[Pointer], void>('NewTopic_destroy', 'void', [P]);
const createTopics = call<[Pointer, Pointer[], number, Pointer, Pointer], void>('CreateTopics', 'void', [
  P,
  'void **',
  'size_t',
  P,
  P,
]);
const createdTopics = call<[Pointer, number[]], Pointer | null>('CreateTopics_result_topics', P, [P, OUT]);
const topicError = call<[Pointer], number>('topic_result_error', 'int', [P]);
const topicErrorString = call<[Pointer], string | null>('topic_result_error_string', 'str', [P]);
const resourceNew = call<[number, string], Pointer>('ConfigResource_new', P, ['int', 'str']);
const resourceDestroy = call<[Pointer], void>('ConfigResource_destroy', 'void', [P]);
const describeConfigs = call<[Pointer, Pointer[], number, Pointer, Pointer], void>('DescribeConfigs', 'void', [
  P,
  'void **',
  'size_t',
  P,
  P,
]);
const describedResources = call<[Pointer, number[]], Pointer | null>('DescribeConfigs_result_resources', P, [P, OUT]);
const resourceError = call<[Pointer], number>('ConfigResource_error', 'int', [P]);
const resourceErrorString = call<[Pointer], string | null>('ConfigResource_error_string', 'str', [P]);
const resourceConfigs = call<[Pointer, number[]], Pointer | null>('ConfigResource_configs', P, [P, OUT]);
const entryName = call<[Pointer], string>('ConfigEntry_name', 'str', [P]);
const entryValue = call<[Pointer], string | null>('ConfigEntry_value', 'str', [P]);

// struct rd_kafka_metadata and its parts (rdkafka.h), as far as they are read.
const MetadataTopic = koffi.struct({ topic: 'str', partition_cnt: 'int', partitions: P, err: 'int' });
const Metadata = koffi.struct({ broker_cnt: 'int', brokers: P, topic_cnt: 'int', topics: P });

/** 0: there is no such topic. Throws LibrdkafkaError where the broker does not say. */
async function partitionsOf(handle: Handle, name: string, limitMs: number): Promise<number> {
  const topic = topicNew(handle.pointer, name, null);
  const found: (Pointer | null)[] = [null];
  try {
    const error = await metadata(handle.pointer, 0, topic, found, limitMs);
    const list = found[0] ?? null;
    if (error !== 0 || list === null) throw new LibrdkafkaError(errorText(error));
    try {
      const { topic_cnt, topics } = koffi.decode(list, Metadata) as { topic_cnt: number; topics: Pointer };
      if (topic_cnt === 0) return 0;
      const one = koffi.decode(topics, MetadataTopic) as { partition_cnt: number; err: number };
      if (one.err !== 0 && !/unknown topic/i.test(errorText(one.err))) throw new LibrdkafkaError(errorText(one.err));
      return one.err === 0 ? one.partition_cnt : 0;
    } finally {
      metadataDestroy(list);
    }
  } finally {
    topicDestroy(topic);
  }
}

/** Throws LibrdkafkaError with the broker's own words when it refuses. */
export async function createTopic(handle: Handle, wish: TopicSpec): Promise<void> {
  const said = Buffer.alloc(ERROR_BYTES);
  const topic = newTopicNew(wish.name, wish.partitions, wish.replicationFactor, said, said.length);
  if (topic === null) throw new LibrdkafkaError(textIn(said));
  try {
    for (const [name, value] of Object.entries(wish.config)) newTopicSet(topic, name, value);
    await handle.request(
      CREATE_TOPICS,
      (options, queue) => createTopics(handle.pointer, [topic], 1, options, queue),
      (event) => {
        for (const result of pointers(createdTopics, event)) {
          const error = topicError(result);
          if (error !== 0 && error !== TOPIC_ALREADY_EXISTS) {
            throw new LibrdkafkaError(topicErrorString(result) ?? errorText(error));
          }
        }
      },
    );
  } finally {
    newTopicDestroy(topic);
  }
}

/** Every setting of a topic, defaults included. Throws LibrdkafkaError where the user may not see them. */
async function configOf(handle: Handle, name: string): Promise<ReadonlyMap<string, string>> {
  const resource = resourceNew(TOPIC, name);
  try {
    return await handle.request(
      DESCRIBE_CONFIGS,
      (options, queue) => describeConfigs(handle.pointer, [resource], 1, options, queue),
      (event) => {
        const settings = new Map<string, string>();
        for (const result of pointers(describedResources, event)) {
          const error = resourceError(result);
          if (error !== 0) throw new LibrdkafkaError(resourceErrorString(result) ?? errorText(error));
          for (const entry of pointers(resourceConfigs, result))
            settings.set(entryName(entry), entryValue(entry) ?? '');
        }
        return settings;
      },
    );
  } finally {
    resourceDestroy(resource);
  }
}
