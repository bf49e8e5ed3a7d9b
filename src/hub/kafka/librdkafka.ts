/**
 * The few functions of librdkafka's C interface that node-rdkafka does not pass on: what a topic is like, and what it
 * is configured to be. Loading it takes about 12 ms, so it is loaded when a broker was reached. Calls that may wait
 * run in libuv's threads.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import koffi from 'koffi';
import { type Clock, pause } from '../../shared/base/clock.ts';

// The one that node-rdkafka runs on: compiled beside it, else the system's.
const beside = dirname(createRequire(import.meta.url).resolve('node-rdkafka/package.json'));
const compiled = join(beside, 'build/deps/librdkafka.so.1');
const library = koffi.load(existsSync(compiled) ? compiled : 'librdkafka.so.1');

type Pointer = bigint | object;
type Call<A extends readonly unknown[], R> = (...parameters: A) => R;

function call<A extends readonly unknown[], R>(name: string, result: string, parameters: string[]): Call<A, R> {
  return library.func(`rd_kafka_${name}`, result, parameters);
}

/** The same, but waiting in a thread of its own. */
function waiting<A extends readonly unknown[], R>(
  name: string,
  result: string,
  parameters: string[],
): Call<A, Promise<R>> {
  const func = library.func(`rd_kafka_${name}`, result, parameters);
  return (...given) =>
    new Promise((resolve, reject) => {
      func.async(...given, (error: unknown, value: R) => (error == null ? resolve(value) : reject(error)));
    });
}

const P = 'void *';
const OUT = '_Out_ size_t *';
const ERROR_BYTES = 512;
/** rd_kafka_type_t: a consumer, because a producer's questions create topics on brokers that are set so. */
const CONSUMER = 1;
/** rd_kafka_event_type() of a finished request looks at the result, whose kind the caller knows. */
const POLL_MS = 20;

const confNew = call<[], Pointer>('conf_new', P, []);
const confSet = call<[Pointer, string, string, Uint8Array, number], number>('conf_set', 'int', [
  P,
  'str',
  'str',
  P,
  'size_t',
]);
const confSetLogCb = call<[Pointer, null], void>('conf_set_log_cb', 'void', [P, P]);
const confDestroy = call<[Pointer], void>('conf_destroy', 'void', [P]);
const create = call<[number, Pointer, Uint8Array, number], Pointer | null>('new', P, ['int', P, P, 'size_t']);
const destroy = waiting<[Pointer], void>('destroy', 'void', [P]);
const queueNew = call<[Pointer], Pointer>('queue_new', P, [P]);
const queueDestroy = call<[Pointer], void>('queue_destroy', 'void', [P]);
const queuePoll = call<[Pointer, number], Pointer | null>('queue_poll', P, [P, 'int']);
const eventError = call<[Pointer], number>('event_error', 'int', [P]);
const eventErrorString = call<[Pointer], string>('event_error_string', 'str', [P]);
const eventDestroy = call<[Pointer], void>('event_destroy', 'void', [P]);
const errorText = call<[number], string>('err2str', 'str', ['int']);
const optionsNew = call<[Pointer, number], Pointer>('AdminOptions_new', P, [P, 'int']);
const optionsTimeout = call<[Pointer, number, Uint8Array, number], number>('AdminOptions_set_request_timeout', 'int', [
  P,
  'int',
  P,
  'size_t',
]);
const optionsDestroy = call<[Pointer], void>('AdminOptions_destroy', 'void', [P]);

export { errorText, type Pointer };

export class LibrdkafkaError extends Error {
  override readonly name = 'LibrdkafkaError';
}

export interface Handle {
  readonly pointer: Pointer;
  /** Starts a request of the admin interface (its number in rd_kafka_admin_op_t) and reads its result before that is freed. */
  request<T>(
    operation: number,
    start: (options: Pointer, queue: Pointer) => void,
    read: (event: Pointer) => T,
  ): Promise<T>;
  close(): Promise<void>;
}

/** A client that asks and goes. Throws LibrdkafkaError when the settings are refused. */
export function openHandle(settings: Readonly<Record<string, string>>, clock: Clock, limitMs: number): Handle {
  const said = Buffer.alloc(ERROR_BYTES);
  const conf = confNew();
  // Why a connection fails is logged by the producer; this one would write to standard error.
  confSetLogCb(conf, null);
  for (const [name, value] of Object.entries(settings)) {
    if (confSet(conf, name, value, said, said.length) === 0) continue;
    confDestroy(conf);
    throw new LibrdkafkaError(textIn(said));
  }
  const pointer = create(CONSUMER, conf, said, said.length);
  if (pointer === null) {
    confDestroy(conf);
    throw new LibrdkafkaError(textIn(said));
  }
  return {
    pointer,
    request: (operation, start, read) => request(pointer, clock, limitMs, operation, start, read),
    close: () => destroy(pointer),
  };
}

async function request<T>(
  handle: Pointer,
  clock: Clock,
  limitMs: number,
  operation: number,
  start: (options: Pointer, queue: Pointer) => void,
  read: (event: Pointer) => T,
): Promise<T> {
  const said = Buffer.alloc(ERROR_BYTES);
  const queue = queueNew(handle);
  const options = optionsNew(handle, operation);
  try {
    optionsTimeout(options, limitMs, said, said.length);
    start(options, queue);
    // librdkafka answers each request by its own time-out at the latest; twice that is for a machine that stalled.
    const end = clock.monoMs() + 2 * limitMs;
    for (;;) {
      const event = queuePoll(queue, 0);
      if (event === null) {
        if (clock.monoMs() > end) throw new LibrdkafkaError('the broker does not answer');
        await pause(clock, POLL_MS);
        continue;
      }
      try {
        if (eventError(event) !== 0) throw new LibrdkafkaError(eventErrorString(event));
        return read(event);
      } finally {
        eventDestroy(event);
      }
    }
  } finally {
    optionsDestroy(options);
    queueDestroy(queue);
  }
}

/** An array of pointers that a function returns beside its length. */
export function pointers(list: Call<[Pointer, number[]], Pointer | null>, of: Pointer): Pointer[] {
  const length = [0];
  const array = list(of, length);
  return array === null ? [] : (koffi.decode(array, P, length[0] ?? 0) as Pointer[]);
}

function textIn(buffer: Buffer): string {
  return buffer.toString('utf8', 0, Math.max(0, buffer.indexOf(0)));
}

export { call, ERROR_BYTES, OUT, P, textIn, waiting };
