/** The administrator of a test broker, over its plain listener: topics and ACLs, through librdkafka. */

import {
  call,
  ERROR_BYTES,
  type Handle,
  LibrdkafkaError,
  OUT,
  openHandle,
  P,
  type Pointer,
  pointers,
  textIn,
} from '../../src/hub/kafka/librdkafka.ts';
import { createTopic as create } from '../../src/hub/kafka/tend-topics.ts';
import { type Clock, systemClock } from '../../src/shared/base/clock.ts';

// rd_kafka_admin_op_t, rd_kafka_ResourceType_t, rd_kafka_ResourcePatternType_t, rd_kafka_AclOperation_t, rd_kafka_AclPermissionType_t
const DELETE_TOPICS = 2;
const CREATE_PARTITIONS = 3;
const CREATE_ACLS = 8;
const DELETE_ACLS = 10;
const RESOURCE = { topic: 2, group: 3 } as const;
const PATTERN = { literal: 3, prefixed: 4 } as const;
const OPERATION = { read: 3, write: 4, create: 5, describe: 8, describeConfigs: 10 } as const;
const ALLOW = 3;
const LIMIT_MS = 10_000;

const bindingArguments = ['int', 'str', 'int', 'str', 'str', 'int', 'int', P, 'size_t'];
type BindingArguments = [number, string, number, string, string, number, number, Uint8Array, number];
const bindingNew = call<BindingArguments, Pointer | null>('AclBinding_new', P, bindingArguments);
const filterNew = call<BindingArguments, Pointer | null>('AclBindingFilter_new', P, bindingArguments);
const bindingDestroy = call<[Pointer], void>('AclBinding_destroy', 'void', [P]);
const many = [P, 'void **', 'size_t', P, P];
type Many = [Pointer, Pointer[], number, Pointer, Pointer];
const createAcls = call<Many, void>('CreateAcls', 'void', many);
const deleteAcls = call<Many, void>('DeleteAcls', 'void', many);
const createdAcls = call<[Pointer, number[]], Pointer | null>('CreateAcls_result_acls', P, [P, OUT]);
const aclError = call<[Pointer], Pointer | null>('acl_result_error', P, [P]);
const errorString = call<[Pointer], string>('error_string', 'str', [P]);
const newPartitionsNew = call<[string, number, Uint8Array, number], Pointer | null>('NewPartitions_new', P, [
  'str',
  'size_t',
  P,
  'size_t',
]);
const newPartitionsDestroy = call<[Pointer], void>('NewPartitions_destroy', 'void', [P]);
const createPartitions = call<Many, void>('CreatePartitions', 'void', many);
const deleteTopicNew = call<[string], Pointer>('DeleteTopic_new', P, ['str']);
const deleteTopicDestroy = call<[Pointer], void>('DeleteTopic_destroy', 'void', [P]);
const deleteTopics = call<Many, void>('DeleteTopics', 'void', many);

export interface Acl {
  readonly user: string;
  readonly resource: keyof typeof RESOURCE;
  readonly pattern: keyof typeof PATTERN;
  readonly name: string;
  readonly operation: keyof typeof OPERATION;
}

export interface Admin {
  createTopic(name: string, partitions: number, config?: Readonly<Record<string, string>>): Promise<void>;
  deleteTopic(name: string): Promise<void>;
  /** More than it has. */
  setPartitions(name: string, partitions: number): Promise<void>;
  allow(acls: readonly Acl[]): Promise<void>;
  forbid(acls: readonly Acl[]): Promise<void>;
  close(): Promise<void>;
}

export function administrator(bootstrap: string, clock: Clock = systemClock): Admin {
  const handle = openHandle({ 'bootstrap.servers': bootstrap }, clock, LIMIT_MS);
  return {
    createTopic: (name, partitions, config = {}) => create(handle, { name, partitions, replicationFactor: 1, config }),
    async deleteTopic(name) {
      const topic = deleteTopicNew(name);
      await handle
        .request(
          DELETE_TOPICS,
          (options, queue) => deleteTopics(handle.pointer, [topic], 1, options, queue),
          () => {},
        )
        .finally(() => deleteTopicDestroy(topic));
    },
    async setPartitions(name, partitions) {
      const said = Buffer.alloc(ERROR_BYTES);
      const wish = newPartitionsNew(name, partitions, said, said.length);
      if (wish === null) throw new LibrdkafkaError(textIn(said));
      await handle
        .request(
          CREATE_PARTITIONS,
          (options, queue) => createPartitions(handle.pointer, [wish], 1, options, queue),
          () => {},
        )
        .finally(() => newPartitionsDestroy(wish));
    },
    allow: (acls) =>
      withBindings(
        handle,
        CREATE_ACLS,
        acls.map((acl) => made(bindingNew, acl)),
        createAcls,
        (event) => {
          for (const result of pointers(createdAcls, event)) {
            const error = aclError(result);
            if (error !== null) throw new LibrdkafkaError(errorString(error));
          }
        },
      ),
    forbid: (acls) =>
      withBindings(
        handle,
        DELETE_ACLS,
        acls.map((acl) => made(filterNew, acl)),
        deleteAcls,
        () => {},
      ),
    close: () => handle.close(),
  };
}

function made(make: (...given: BindingArguments) => Pointer | null, acl: Acl): Pointer {
  const said = Buffer.alloc(ERROR_BYTES);
  const binding = make(
    RESOURCE[acl.resource],
    acl.name,
    PATTERN[acl.pattern],
    `User:${acl.user}`,
    '*',
    OPERATION[acl.operation],
    ALLOW,
    said,
    said.length,
  );
  if (binding === null) throw new LibrdkafkaError(textIn(said));
  return binding;
}

async function withBindings(
  handle: Handle,
  operation: number,
  bindings: Pointer[],
  start: (...given: Many) => void,
  read: (event: Pointer) => void,
): Promise<void> {
  try {
    await handle.request(
      operation,
      (options, queue) => start(handle.pointer, bindings, bindings.length, options, queue),
      read,
    );
  } finally {
    for (const binding of bindings) bindingDestroy(binding);
  }
}
