/** The administrator of a test broker, over its plain listener: topics and ACLs, through librdkafka. */
import {
  call,
  type Handle,
  LibrdkafkaError,
  made,
  openHandle,
  type Pointer,
  pointers,
  type Start,
} from '../../src/hub/kafka/librdkafka.ts';
import { type Clock, systemClock } from '../../src/shared/base/clock.ts';
import { users } from './kafka.ts';

// rd_kafka_admin_op_t, rd_kafka_ResourceType_t, rd_kafka_ResourcePatternType_t, rd_kafka_AclOperation_t, rd_kafka_AclPermissionType_t
const DELETE_TOPICS = 2;
const CREATE_PARTITIONS = 3;
const CREATE_ACLS = 8;
const DELETE_ACLS = 10;
const INCREMENTAL_ALTER_CONFIGS = 16;
/** rd_kafka_AlterConfigOpType_t */
const SET = 0;
const RESOURCE = { topic: 2, group: 3 } as const;
const PATTERN = { literal: 3, prefixed: 4 } as const;
const OPERATION = { read: 3, write: 4, create: 5, describe: 8, describeConfigs: 10 } as const;
const ALLOW = 3;
/** A broker that has just started on two busy cores took more than 10 s to say who its controller is. */
const LIMIT_MS = 60_000;

type BindingArguments = [number, string, number, string, string, number, number, Uint8Array, number];
const bindingArguments = 'int, str, int, str, str, int, int, void *, size_t';
const start = 'void *, void **, size_t, void *, void *';
const bindingNew = call<BindingArguments, Pointer | null>(`void *AclBinding_new(${bindingArguments})`);
const filterNew = call<BindingArguments, Pointer | null>(`void *AclBindingFilter_new(${bindingArguments})`);
const bindingDestroy = call<[Pointer], void>('void AclBinding_destroy(void *)');
const createAcls = call<Start, void>(`void CreateAcls(${start})`);
const deleteAcls = call<Start, void>(`void DeleteAcls(${start})`);
const createdAcls = call<[Pointer, number[]], Pointer | null>('void *CreateAcls_result_acls(void *, _Out_ size_t *)');
const aclError = call<[Pointer], Pointer | null>('void *acl_result_error(void *)');
const errorString = call<[Pointer], string>('str error_string(void *)');
const newPartitionsNew = call<[string, number, Uint8Array, number], Pointer | null>(
  'void *NewPartitions_new(str, size_t, void *, size_t)',
);
const newPartitionsDestroy = call<[Pointer], void>('void NewPartitions_destroy(void *)');
const createPartitions = call<Start, void>(`void CreatePartitions(${start})`);
const deleteTopicNew = call<[string], Pointer>('void *DeleteTopic_new(str)');
const deleteTopicDestroy = call<[Pointer], void>('void DeleteTopic_destroy(void *)');
const deleteTopics = call<Start, void>(`void DeleteTopics(${start})`);
const resourceNew = call<[number, string], Pointer>('void *ConfigResource_new(int, str)');
const resourceDestroy = call<[Pointer], void>('void ConfigResource_destroy(void *)');
const resourceAdd = call<[Pointer, string, number, string], Pointer | null>(
  'void *ConfigResource_add_incremental_config(void *, str, int, str)',
);
const alterConfigs = call<Start, void>(`void IncrementalAlterConfigs(${start})`);

export interface Acl {
  readonly user: string;
  readonly resource: keyof typeof RESOURCE;
  readonly pattern: keyof typeof PATTERN;
  readonly name: string;
  readonly operation: keyof typeof OPERATION;
}

export type Admin = ReturnType<typeof administrator>;

export function administrator(bootstrap: string, clock: Clock = systemClock) {
  const handle = openHandle({ 'bootstrap.servers': bootstrap }, clock, LIMIT_MS);
  return {
    createTopic: (name: string, partitions: number, config: Readonly<Record<string, string>> = {}) =>
      handle.createTopic({ name, partitions, replicationFactor: 1, config }),
    deleteTopic: (name: string) =>
      using(handle, DELETE_TOPICS, deleteTopics, [deleteTopicNew(name)], deleteTopicDestroy),
    /** More than it has. */
    setPartitions: (name: string, partitions: number) => {
      const wanted = made((...text) => newPartitionsNew(name, partitions, ...text));
      return using(handle, CREATE_PARTITIONS, createPartitions, [wanted], newPartitionsDestroy);
    },
    /** One key of a topic's configuration. */
    configure: (name: string, key: string, value: string) => {
      const resource = resourceNew(RESOURCE.topic, name);
      resourceAdd(resource, key, SET, value);
      return using(handle, INCREMENTAL_ALTER_CONFIGS, alterConfigs, [resource], resourceDestroy);
    },
    allow: (acls: readonly Acl[]) =>
      using(handle, CREATE_ACLS, createAcls, bindings(bindingNew, acls), bindingDestroy, (event) => {
        for (const result of pointers(createdAcls, event)) {
          const error = aclError(result);
          if (error !== null) throw new LibrdkafkaError(errorString(error));
        }
      }),
    forbid: (acls: readonly Acl[]) => using(handle, DELETE_ACLS, deleteAcls, bindings(filterNew, acls), bindingDestroy),
    close: () => handle.close(),
  };
}

/** A request about things that are freed after it. */
async function using(
  handle: Handle,
  operation: number,
  begin: (...given: Start) => void,
  subjects: Pointer[],
  destroy: (subject: Pointer) => void,
  read: (event: Pointer) => void = () => {},
): Promise<void> {
  try {
    await handle.request(operation, begin, subjects, read);
  } finally {
    for (const subject of subjects) destroy(subject);
  }
}

function bindings(make: (...given: BindingArguments) => Pointer | null, acls: readonly Acl[]): Pointer[] {
  return acls.map(({ resource, name, pattern, user, operation }) =>
    made((...text) =>
      make(RESOURCE[resource], name, PATTERN[pattern], `User:${user}`, '*', OPERATION[operation], ALLOW, ...text),
    ),
  );
}

/** Topics that begin with this are the device's to write. */
export const TOPIC_PREFIX = 'refdata.cuod.events';

/** The device may write, create and describe below the prefix; the consumer reads the public topic, by its literal name. */
export function standardAcls(prefix = TOPIC_PREFIX): Acl[] {
  const device = { user: users.device.name, resource: 'topic', pattern: 'prefixed', name: prefix } as const;
  const consumer = {
    user: users.consumer.name,
    resource: 'topic',
    pattern: 'literal',
    name: `${prefix}.public`,
  } as const;
  return [
    ...(['write', 'create', 'describe', 'describeConfigs'] as const).map((operation) => ({ ...device, operation })),
    ...(['read', 'describe'] as const).map((operation) => ({ ...consumer, operation })),
    {
      user: users.consumer.name,
      resource: 'group',
      pattern: 'prefixed',
      name: `${users.consumer.name}.`,
      operation: 'read',
    },
  ];
}
