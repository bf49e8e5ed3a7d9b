/**
 * librdkafka, by two ways: a producer of node-rdkafka, and the functions of the C interface that node-rdkafka lacks (metadata,
 * creation and configuration of topics). Loads native modules, so it is itself loaded only when a broker is configured. Calls
 * that may wait run in libuv's threads.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import koffi from 'koffi';
import kafka, { type LibrdKafkaError, type Metadata, type MetadataOptions } from 'node-rdkafka';
import { type Clock, pause, type Timer } from '../../shared/base/clock.ts';
import type { KafkaOptions, OutgoingMessage, TopicSpec } from './face.ts';
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
  logLine(line: string): void;
}

/** node-rdkafka destroys a client whose first request is not answered; this one sends its requests itself. */
class PatientProducer extends kafka.Producer {
  /** With what scripts/kafka-client.cc adds. */
  declare readonly _client: {
    send(topic: string, key: string, value: string | Uint8Array, headers: readonly string[], id: number): number;
    reports(reasons: string[]): Float64Array;
  };
  override getMetadata(options?: MetadataOptions, done?: (error: LibrdKafkaError, data: Metadata) => unknown): void {
    if (this.opened) super.getMetadata(options, done);
    else done?.(undefined as never, undefined as never);
  }
  opened = false;
}

/** One producer: single use. */
export class Session {
  readonly #clock: Clock;
  readonly #listener: SessionListener;
  readonly #producer: PatientProducer;
  #closed = false;
  #opening: Promise<Fault | undefined> = Promise.resolve({ code: 0, text: 'never opened' });
  #unreported = 0;
  #poll: Timer | undefined;
  #pollAtMs = Number.POSITIVE_INFINITY;

  constructor(options: KafkaOptions, clock: Clock, listener: SessionListener) {
    this.#clock = clock;
    this.#listener = listener;
    this.#producer = new PatientProducer({ ...producerSettings(options), event_cb: true }, topicSettings(options));
    this.#producer.on('event.error', (error) => {
      if (!this.#closed) listener.error(faultOf(error));
    });
    this.#producer.on('event.log', (event: { fac?: string; message?: string }) => {
      if (!this.#closed && FAULT_FACILITIES.has(event.fac ?? '')) listener.logLine(event.message ?? '');
    });
  }

  /** The client connects in the background and keeps trying. Rejects when the settings are refused. */
  async open(): Promise<void> {
    if (!('send' in this.#producer._client))
      throw new Error('node-rdkafka is not the one that scripts/kafka-client compiles: run scripts/bootstrap');
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

  /** undefined: it was taken, and will be reported. */
  produce({ topic, key, value, headers, id }: OutgoingMessage): Fault | undefined {
    const flat: string[] = [];
    for (const name in headers) flat.push(name, headers[name] ?? '');
    const code = this.#producer._client.send(topic, key, value, flat, id);
    if (code !== 0) return { code, text: errorText(code).toLowerCase() };
    if (this.#unreported++ === 0) this.#pollWithin(POLL_BUSY_MS);
    return undefined;
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

  #report(): void {
    const reasons: string[] = [];
    const ids = this.#producer._client.reports(reasons);
    this.#unreported -= ids.length;
    let failed = 0;
    for (const id of ids) {
      if (id >= 0) this.#listener.report(id, undefined);
      else this.#listener.report(-1 - id, { code: -1, text: (reasons[failed++] ?? '').toLowerCase() });
    }
  }

  #pollWithin(ms: number): void {
    const atMs = this.#clock.monoMs() + ms;
    if (this.#closed || atMs >= this.#pollAtMs) return;
    this.#poll?.cancel();
    this.#pollAtMs = atMs;
    this.#poll = this.#clock.timer(ms, () => {
      this.#pollAtMs = Number.POSITIVE_INFINITY;
      this.#report();
      this.#pollWithin(this.#unreported > 0 ? POLL_BUSY_MS : POLL_IDLE_MS);
    });
  }
}

function answered(ask: (done: (error: unknown) => void) => void): Promise<Fault | undefined> {
  return new Promise((resolve) => ask((error) => resolve(error == null ? undefined : faultOf(error))));
}

// The C interface, of the library that node-rdkafka runs on: compiled beside it, else the system's.
const beside = dirname(createRequire(import.meta.url).resolve('node-rdkafka/package.json'));
const compiled = join(beside, 'build/deps/librdkafka.so.1');
const library = koffi.load(existsSync(compiled) ? compiled : 'librdkafka.so.1');

export type Pointer = bigint | object;
type Call<A extends readonly unknown[], R> = (...parameters: A) => R;

/** A function by its prototype in rdkafka.h, without the prefix rd_kafka_; koffi calls a C string `str`. */
export function call<A extends readonly unknown[], R>(prototype: string): Call<A, R> {
  return library.func(prototype.replace(/\w+\(/, 'rd_kafka_$&'));
}

/** The same, but it runs in a thread of its own. */
function waiting<A extends readonly unknown[], R>(prototype: string): Call<A, Promise<R>> {
  const func = library.func(prototype.replace(/\w+\(/, 'rd_kafka_$&'));
  return (...given) =>
    new Promise((resolve, reject) => {
      func.async(...given, (error: unknown, value: R) => (error == null ? resolve(value) : reject(error)));
    });
}

const ERROR_BYTES = 512;
/** rd_kafka_type_t: a consumer, because a producer's requests create topics on brokers that are set so. */
const CONSUMER = 1;
const POLL_MS = 20;
/** rd_kafka_admin_op_t */
const CREATE_TOPICS = 1;
const DESCRIBE_CONFIGS = 5;
/** rd_kafka_ResourceType_t */
const TOPIC = 2;
/** rd_kafka_resp_err_t: created by another client meanwhile. */
const TOPIC_ALREADY_EXISTS = 36;

type ErrorText = [text: Uint8Array, size: number];
/** handle, array, its length, options, queue */
export type Start = [Pointer, Pointer[], number, Pointer, Pointer];
type List = [Pointer, number[]];

const confNew = call<[], Pointer>('void *conf_new()');
const confSet = call<[Pointer, string, string, ...ErrorText], number>('int conf_set(void *, str, str, void *, size_t)');
const confSetLogCb = call<[Pointer, null], void>('void conf_set_log_cb(void *, void *)');
const confDestroy = call<[Pointer], void>('void conf_destroy(void *)');
const create = call<[number, Pointer, ...ErrorText], Pointer | null>('void *new(int, void *, void *, size_t)');
const destroy = waiting<[Pointer], void>('void destroy(void *)');
const queueNew = call<[Pointer], Pointer>('void *queue_new(void *)');
const queueDestroy = call<[Pointer], void>('void queue_destroy(void *)');
const queuePoll = call<[Pointer, number], Pointer | null>('void *queue_poll(void *, int)');
const eventError = call<[Pointer], number>('int event_error(void *)');
const eventErrorString = call<[Pointer], string>('str event_error_string(void *)');
const eventDestroy = call<[Pointer], void>('void event_destroy(void *)');
const errorText = call<[number], string>('str err2str(int)');
const optionsNew = call<[Pointer, number], Pointer>('void *AdminOptions_new(void *, int)');
const optionsTimeout = call<[Pointer, number, ...ErrorText], number>(
  'int AdminOptions_set_request_timeout(void *, int, void *, size_t)',
);
const optionsDestroy = call<[Pointer], void>('void AdminOptions_destroy(void *)');
const topicNew = call<[Pointer, string, null], Pointer>('void *topic_new(void *, str, void *)');
const topicDestroy = call<[Pointer], void>('void topic_destroy(void *)');
const metadata = waiting<[Pointer, number, Pointer, (Pointer | null)[], number], number>(
  'int metadata(void *, int, void *, _Out_ void **, int)',
);
const metadataDestroy = call<[Pointer], void>('void metadata_destroy(void *)');
const newTopicNew = call<[string, number, number, ...ErrorText], Pointer | null>(
  'void *NewTopic_new(str, int, int, void *, size_t)',
);
const newTopicSet = call<[Pointer, string, string], number>('int NewTopic_set_config(void *, str, str)');
const newTopicDestroy = call<[Pointer], void>('void NewTopic_destroy(void *)');
const createTopics = call<Start, void>('void CreateTopics(void *, void **, size_t, void *, void *)');
const createdTopics = call<List, Pointer | null>('void *CreateTopics_result_topics(void *, _Out_ size_t *)');
const topicError = call<[Pointer], number>('int topic_result_error(void *)');
const topicErrorString = call<[Pointer], string | null>('str topic_result_error_string(void *)');
const resourceNew = call<[number, string], Pointer>('void *ConfigResource_new(int, str)');
const resourceDestroy = call<[Pointer], void>('void ConfigResource_destroy(void *)');
const describeConfigs = call<Start, void>('void DescribeConfigs(void *, void **, size_t, void *, void *)');
const describedResources = call<List, Pointer | null>('void *DescribeConfigs_result_resources(void *, _Out_ size_t *)');
const resourceError = call<[Pointer], number>('int ConfigResource_error(void *)');
const resourceErrorString = call<[Pointer], string | null>('str ConfigResource_error_string(void *)');
const resourceConfigs = call<List, Pointer | null>('void *ConfigResource_configs(void *, _Out_ size_t *)');
const entryName = call<[Pointer], string>('str ConfigEntry_name(void *)');
const entryValue = call<[Pointer], string | null>('str ConfigEntry_value(void *)');

// struct rd_kafka_metadata and its parts (rdkafka.h), as far as they are read.
const TopicStruct = koffi.struct({ topic: 'str', partition_cnt: 'int', partitions: 'void *', err: 'int' });
const MetadataStruct = koffi.struct({ broker_cnt: 'int', brokers: 'void *', topic_cnt: 'int', topics: 'void *' });

/**
 * Of a new topic: messages have the time at which the broker takes them. By the time of a box whose clock is not set (years ago)
 * the broker would delete them with its next check of the retention, and refuse those of a clock that is an hour fast.
 */
const BROKER_TIME = { 'message.timestamp.type': 'LogAppendTime' };

export class LibrdkafkaError extends Error {
  override readonly name = 'LibrdkafkaError';
}

/** A client for a few requests. What librdkafka or a broker refuses is thrown as LibrdkafkaError, with their text. */
export class Handle {
  readonly pointer: Pointer;
  readonly #clock: Clock;
  readonly #limitMs: number;

  constructor(pointer: Pointer, clock: Clock, limitMs: number) {
    this.pointer = pointer;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** 0: there is no such topic. */
  async partitionsOf(name: string): Promise<number> {
    const topic = topicNew(this.pointer, name, null);
    const found: (Pointer | null)[] = [null];
    try {
      const error = await metadata(this.pointer, 0, topic, found, this.#limitMs);
      const list = found[0] ?? null;
      if (error !== 0 || list === null) throw new LibrdkafkaError(errorText(error));
      try {
        return partitionsIn(list);
      } finally {
        metadataDestroy(list);
      }
    } finally {
      topicDestroy(topic);
    }
  }

  async createTopic(spec: TopicSpec): Promise<void> {
    const topic = made((...text) => newTopicNew(spec.name, spec.partitions, spec.replicationFactor, ...text));
    try {
      for (const [name, value] of Object.entries({ ...BROKER_TIME, ...spec.config })) newTopicSet(topic, name, value);
      await this.request(CREATE_TOPICS, createTopics, [topic], (event) => {
        for (const result of pointers(createdTopics, event)) {
          const error = topicError(result);
          if (error !== 0 && error !== TOPIC_ALREADY_EXISTS) {
            throw new LibrdkafkaError(topicErrorString(result) ?? errorText(error));
          }
        }
      });
    } finally {
      newTopicDestroy(topic);
    }
  }

  /** Every setting of a topic, defaults included. */
  async configOf(name: string): Promise<ReadonlyMap<string, string>> {
    const resource = resourceNew(TOPIC, name);
    try {
      return await this.request(DESCRIBE_CONFIGS, describeConfigs, [resource], (event) => {
        const settings = new Map<string, string>();
        for (const result of pointers(describedResources, event)) {
          const error = resourceError(result);
          if (error !== 0) throw new LibrdkafkaError(resourceErrorString(result) ?? errorText(error));
          for (const entry of pointers(resourceConfigs, result))
            settings.set(entryName(entry), entryValue(entry) ?? '');
        }
        return settings;
      });
    } finally {
      resourceDestroy(resource);
    }
  }

  /** Starts a request of the admin interface (its number in rd_kafka_admin_op_t) and reads its result before that is freed. */
  async request<T>(
    operation: number,
    start: Call<Start, void>,
    subjects: Pointer[],
    read: (event: Pointer) => T,
  ): Promise<T> {
    const text = Buffer.alloc(ERROR_BYTES);
    const queue = queueNew(this.pointer);
    const options = optionsNew(this.pointer, operation);
    try {
      optionsTimeout(options, this.#limitMs, text, text.length);
      start(this.pointer, subjects, subjects.length, options, queue);
      const event = await this.#event(queue);
      try {
        if (eventError(event) !== 0) throw new LibrdkafkaError(eventErrorString(event));
        return read(event);
      } finally {
        eventDestroy(event);
      }
    } finally {
      optionsDestroy(options);
      queueDestroy(queue);
    }
  }

  /** librdkafka answers each request by its own time-out at the latest; twice that is for a machine that stalled. */
  async #event(queue: Pointer): Promise<Pointer> {
    const end = this.#clock.monoMs() + 2 * this.#limitMs;
    for (;;) {
      const event = queuePoll(queue, 0);
      if (event !== null) return event;
      if (this.#clock.monoMs() > end) throw new LibrdkafkaError('the broker does not answer');
      await pause(this.#clock, POLL_MS);
    }
  }

  close(): Promise<void> {
    return destroy(this.pointer);
  }
}

/** Throws LibrdkafkaError if the settings are refused. `limitMs`: of each request. */
export function openHandle(settings: Readonly<Record<string, string>>, clock: Clock, limitMs: number): Handle {
  const conf = confNew();
  // Why a connection fails is logged by the producer; this one would write to standard error.
  confSetLogCb(conf, null);
  try {
    for (const [name, value] of Object.entries(settings)) {
      made((...text) => (confSet(conf, name, value, ...text) === 0 ? conf : null));
    }
    return new Handle(
      made((...text) => create(CONSUMER, conf, ...text)),
      clock,
      limitMs,
    );
  } catch (error) {
    confDestroy(conf);
    throw error;
  }
}

/** Throws the text of a function that returns null when it refuses. */
export function made(make: (...text: ErrorText) => Pointer | null): Pointer {
  const text = Buffer.alloc(ERROR_BYTES);
  const pointer = make(text, text.length);
  if (pointer === null) throw new LibrdkafkaError(text.toString('utf8', 0, Math.max(0, text.indexOf(0))));
  return pointer;
}

/** An array of pointers that a function returns beside its length. */
export function pointers(list: Call<List, Pointer | null>, of: Pointer): Pointer[] {
  const length = [0];
  const array = list(of, length);
  return array === null ? [] : (koffi.decode(array, 'void *', length[0] ?? 0) as Pointer[]);
}

function partitionsIn(list: Pointer): number {
  const { topic_cnt, topics } = koffi.decode(list, MetadataStruct) as { topic_cnt: number; topics: Pointer };
  if (topic_cnt === 0) return 0;
  const { partition_cnt, err } = koffi.decode(topics, TopicStruct) as { partition_cnt: number; err: number };
  if (err === 0) return partition_cnt;
  if (/unknown topic/i.test(errorText(err))) return 0;
  throw new LibrdkafkaError(errorText(err));
}
