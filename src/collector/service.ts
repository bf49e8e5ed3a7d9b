/** CollectorService: who may call it; it checks each batch, stores it, and says that it is stored once it is on the disk. */
import {
  type ServerInterceptor,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServiceError,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import Long from 'long';
import type { AuthFailureLog } from '../shared/auth/auth-failure-log.ts';
import { failureOf, GatedCall } from '../shared/auth/gated-call.ts';
import type { Clock } from '../shared/base/clock.ts';
import { errorCatalogue, LinesideError, messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { CollectorServiceDefinition, lineside } from '../shared/proto/services.ts';
import { batchFault, idFault, sizeFault } from './batch-check.ts';
import { PushEnded, type Pushes, type SharedIds } from './pushes.ts';
import type { Store } from './store.ts';
import { AheadOfPosition } from './stored-log.ts';

const { getPosition, push: pushMethod } = CollectorServiceDefinition;

/** For grpc-js, which wants Buffers. The batches of a push are counted before they are decoded, and kept as they came. */
export const collectorDefinition = {
  getPosition: {
    ...getPosition,
    requestSerialize: (value: lineside.v1.PositionRequest.$Properties) =>
      Buffer.from(getPosition.requestSerialize(value)),
    responseSerialize: (value: lineside.v1.Position.$Properties) => Buffer.from(getPosition.responseSerialize(value)),
  },
  push: {
    ...pushMethod,
    requestSerialize: ({ bytes }: Received): Buffer => Buffer.from(bytes),
    requestDeserialize: (bytes: Uint8Array): Received => new Received(bytes),
    responseSerialize: (value: lineside.v1.PushResult.$Properties) => Buffer.from(pushMethod.responseSerialize(value)),
  },
} as const;

export interface ServiceContext {
  readonly store: Store;
  readonly pushes: Pushes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly sharedIds: SharedIds;
  /** Refused calls. */
  readonly refused: AuthFailureLog;
  /** undefined: every machine that reaches the address may push for any device. */
  readonly authenticate: Authenticator | undefined;
}

type Answer<T> = sendUnaryData<T>;
type PositionCall = ServerUnaryCall<lineside.v1.PositionRequest, lineside.v1.Position.$Properties>;
type PushCall = ServerReadableStream<Received, lineside.v1.PushResult.$Properties>;

export function collectorService(parts: ServiceContext) {
  const { store, logger, refused, sharedIds } = parts;
  const refusal = (path: string, call: PositionCall | PushCall, error: unknown): Outcome => {
    const outcome = statusOf(error, logger);
    if (noted.has(outcome.code)) refused.note(path, call.getPeer(), outcome.details);
    return outcome;
  };
  const position = async (call: PositionCall): Promise<lineside.v1.Position.$Properties> => {
    const { deviceId, logId } = call.request;
    check(idFault('device_id', deviceId) || idFault('log_id', logId));
    checkOwner(call, deviceId);
    sharedIds.seen(deviceId, call.getPeer());
    return { throughId: await store.position(deviceId, logId) };
  };
  return {
    getPosition: (call: PositionCall, callback: Answer<lineside.v1.Position.$Properties>) =>
      void answered(position(call), callback, (error) => refusal(getPosition.path, call, error)),
    push: (call: PushCall, callback: Answer<lineside.v1.PushResult.$Properties>) =>
      void answered(push(parts, call), callback, (error) => refusal(pushMethod.path, call, error)),
  };
}

async function answered<T>(work: Promise<T>, callback: Answer<T>, refusal: (error: unknown) => Outcome): Promise<void> {
  const { error, value } = await work.then(
    (value) => ({ error: null, value }),
    (thrown: unknown) => ({ error: refusal(thrown), value: null }),
  );
  callback(error, value);
}

/** Refusals that are logged for the operator of the collector; the box handles the others. */
const noted: ReadonlySet<status> = new Set([
  status.INVALID_ARGUMENT,
  status.PERMISSION_DENIED,
  status.RESOURCE_EXHAUSTED,
  status.UNAVAILABLE,
]);

/** One call of Push. Answers the position up to which its last log is on the disk. */
async function push(parts: ServiceContext, call: PushCall): Promise<lineside.v1.PushResult.$Properties> {
  const { pushes, store, sharedIds } = parts;
  const owner = ownerOf(call);
  const turn = pushes.begin(() => authenticateAgain(parts, call));
  if (owner !== undefined) pushes.claim(turn, owner);
  call.once('cancelled', () => turn.end(new PushEnded('cancelled', 'the box disconnected')));
  const iterator = call.iterator({ destroyOnReturn: false });
  let deviceId = '';
  /** What was stored, by its log; the last one is the last key. */
  const logs = new Set<string>();
  /** Everything of this push is on the disk. */
  const flush = async (): Promise<Long> => {
    let throughId = Long.UZERO;
    for (const logId of logs) throughId = await store.position(deviceId, logId);
    return throughId;
  };
  try {
    for (let next = await turn.next(iterator); next.done !== true; next = await turn.next(iterator)) {
      const received = next.value;
      const batch = decoded(received.bytes);
      checkOwner(call, batch.deviceId);
      sharedIds.seen(batch.deviceId, call.getPeer());
      if (deviceId !== '' && batch.deviceId !== deviceId) {
        throw new LinesideError('INVALID_ARGUMENT', 'device_id: is another one than in the batch before');
      }
      pushes.claim(turn, batch.deviceId);
      deviceId = batch.deviceId;
      await store.append(received.bytes, batch);
      logs.delete(batch.logId);
      logs.add(batch.logId);
      received.done();
    }
    return { throughId: await flush() };
  } catch (error) {
    // The batches before the failure are kept and flushed: the next push begins after them.
    await flush().catch(() => undefined);
    throw error;
  } finally {
    pushes.release(turn);
  }
}

async function authenticateAgain({ authenticate }: ServiceContext, call: PushCall): Promise<void> {
  if (authenticate === undefined) return;
  const owner = await authenticate(call.metadata.get('authorization').map(String));
  if (owner !== ownerOf(call)) throw new PushEnded('revoked', "the token is another one's now");
}

function decoded(bytes: Uint8Array): lineside.v1.UpstreamBatch {
  try {
    check(sizeFault(bytes));
    const batch = lineside.v1.UpstreamBatch.decode(bytes);
    check(batchFault(batch));
    return batch;
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    const fault = 'the batch is no UpstreamBatch: its encoding is broken';
    throw new LinesideError('INVALID_ARGUMENT', fault, { cause: error });
  }
}

function check(fault: string): void {
  if (fault !== '') throw new LinesideError('INVALID_ARGUMENT', fault);
}

const endedAs = {
  cancelled: status.CANCELLED,
  displaced: status.ABORTED,
  idle: status.DEADLINE_EXCEEDED,
  stopping: status.UNAVAILABLE,
  revoked: status.UNAUTHENTICATED,
} as const;

type Outcome = Pick<ServiceError, 'code' | 'details'>;

function statusOf(thrown: unknown, logger: Logger): Outcome {
  if (thrown instanceof PushEnded) return { code: endedAs[thrown.kind], details: thrown.message };
  if (thrown instanceof AheadOfPosition) return { code: status.OUT_OF_RANGE, details: thrown.message };
  const { error, details } = failureOf(thrown, logger, 'collector');
  return { code: status[errorCatalogue[error.code].grpc], details };
}

// Before every call: identifies the caller, or refuses before a byte of a message is read; and gives a push its batches one by
// one: grpc-js would read sixteen of 4 MiB ahead.

/** Whose token it is. Rejects with UNAUTHENTICATED. */
export type Authenticator = (authorization: readonly string[]) => Promise<string>;

/** Removed from what a client sends, then set here: the device whose token it is, encoded. Absent: this address asks for none. */
const DEVICE = 'lineside-internal-device';

/** A batch as it came. */
export class Received {
  readonly bytes: Uint8Array;
  /** Lets the next batch be read. */
  done: () => void = () => undefined;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export function createAuthInterceptor(
  authenticate: Authenticator | undefined,
  refused: AuthFailureLog,
): ServerInterceptor {
  return (method, call) =>
    new GatedPush(call, async (metadata) => {
      metadata.remove(DEVICE);
      if (authenticate === undefined) return;
      try {
        metadata.set(DEVICE, encodeURIComponent(await authenticate(metadata.get('authorization').map(String))));
      } catch (error) {
        refused.note(method.path, call.getPeer(), messageOf(error));
        throw error;
      }
    });
}

class GatedPush extends GatedCall {
  #isInFlight = false;
  #isAwaited = false;

  protected override onMessage(message: unknown): void {
    if (!(message instanceof Received)) return;
    this.#isInFlight = true;
    message.done = () => {
      this.#isInFlight = false;
      if (!this.#isAwaited) return;
      this.#isAwaited = false;
      this.call.startRead();
    };
  }

  override startRead(): void {
    if (this.#isInFlight) this.#isAwaited = true;
    else this.call.startRead();
  }
}

type AnyCall = Pick<PositionCall, 'metadata'>;

function ownerOf({ metadata }: AnyCall): string | undefined {
  const [encoded] = metadata.get(DEVICE);
  return encoded === undefined ? undefined : decodeURIComponent(String(encoded));
}

function checkOwner(call: AnyCall, deviceId: string): void {
  const owner = ownerOf(call);
  if (owner !== undefined && owner !== deviceId) {
    throw new LinesideError('PERMISSION_DENIED', 'device_id: the token is that of another device');
  }
}
