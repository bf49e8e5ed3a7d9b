/** CollectorService: checks each batch, stores it, and says that it is stored once it is on the disk. */
import {
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServiceError,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import Long from 'long';
import type { AuthFailureLog } from '../shared/base/auth-failure-log.ts';
import type { Clock } from '../shared/base/clock.ts';
import { asLinesideError, errorCatalogue, LinesideError } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { CollectorServiceDefinition, lineside } from '../shared/proto/services.ts';
import { type Authenticator, DEVICE, Received } from './auth-interceptor.ts';
import { batchFault, idFault, sizeFault } from './batch-check.ts';
import { MAX_DETAILS_CHARS } from './limits.ts';
import { PushEnded, type Pushes, type PushTurn, type SharedIds } from './pushes.ts';
import type { Store } from './store.ts';
import { AheadOfPosition } from './stored-log.ts';

const { getPosition, push } = CollectorServiceDefinition;

/** For grpc-js, which wants Buffers. The batches of a push are counted before they are decoded, and kept as they came. */
export const collectorDefinition = {
  getPosition: {
    ...getPosition,
    requestSerialize: (value: lineside.v1.PositionRequest.$Properties) =>
      Buffer.from(getPosition.requestSerialize(value)),
    responseSerialize: (value: lineside.v1.Position.$Properties) => Buffer.from(getPosition.responseSerialize(value)),
  },
  push: {
    ...push,
    requestSerialize: ({ bytes }: Received): Buffer => Buffer.from(bytes),
    requestDeserialize: (bytes: Uint8Array): Received => new Received(bytes),
    responseSerialize: (value: lineside.v1.PushResult.$Properties) => Buffer.from(push.responseSerialize(value)),
  },
} as const;

export interface ServiceContext {
  readonly store: Store;
  readonly pushes: Pushes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly sharedIds: SharedIds;
  /** Batches and questions that are not taken. */
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
    const fault = idFault('device_id', deviceId) || idFault('log_id', logId);
    if (fault !== '') throw new LinesideError('INVALID_ARGUMENT', fault);
    checkOwner(call, deviceId);
    sharedIds.seen(deviceId, call.getPeer());
    return { throughId: await store.position(deviceId, logId) };
  };
  return {
    getPosition: (call: PositionCall, callback: Answer<lineside.v1.Position.$Properties>) =>
      void answered(position(call), callback, (error) => refusal(getPosition.path, call, error)),
    push: (call: PushCall, callback: Answer<lineside.v1.PushResult.$Properties>) =>
      void answered(new Push(parts, call).run(), callback, (error) => refusal(push.path, call, error)),
  };
}

async function answered<T>(work: Promise<T>, callback: Answer<T>, refusal: (error: unknown) => Outcome): Promise<void> {
  let value: T;
  try {
    value = await work;
  } catch (error) {
    callback(refusal(error));
    return;
  }
  callback(null, value);
}

/** Logged for the collector's operator; the box itself handles the others. */
const noted: ReadonlySet<status> = new Set([
  status.INVALID_ARGUMENT,
  status.PERMISSION_DENIED,
  status.RESOURCE_EXHAUSTED,
  status.UNAVAILABLE,
]);

/** One call of Push. */
class Push {
  readonly #parts: ServiceContext;
  readonly #call: PushCall;
  /** Device and log of what was stored. */
  readonly #touched = new Map<string, { readonly deviceId: string; readonly logId: string }>();
  #deviceId = '';
  #logId = '';

  constructor(parts: ServiceContext, call: PushCall) {
    this.#parts = parts;
    this.#call = call;
  }

  async run(): Promise<lineside.v1.PushResult.$Properties> {
    const { pushes } = this.#parts;
    const turn = pushes.begin(() => this.#authenticateAgain());
    const owner = ownerOf(this.#call);
    if (owner !== undefined) pushes.claim(turn, owner);
    this.#call.once('cancelled', () => turn.end(new PushEnded('cancelled', 'the box went away')));
    try {
      await this.#store(turn, this.#call.iterator({ destroyOnReturn: false }));
      return { throughId: await this.#flush() };
    } catch (error) {
      // The batches before the failure are kept, and soon on the disk: the next push begins behind them.
      await this.#flush().catch(() => undefined);
      throw error;
    } finally {
      pushes.release(turn);
    }
  }

  async #store(turn: PushTurn, iterator: AsyncIterator<Received>): Promise<void> {
    for (;;) {
      const next = await turn.next(iterator);
      if (next.done === true) return;
      const received = next.value;
      const batch = decoded(received.bytes);
      const { deviceId, logId } = batch;
      checkOwner(this.#call, deviceId);
      this.#parts.sharedIds.seen(deviceId, this.#call.getPeer());
      if (this.#deviceId !== '' && deviceId !== this.#deviceId) {
        throw new LinesideError('INVALID_ARGUMENT', 'device_id: is another one than in the batch before');
      }
      this.#parts.pushes.claim(turn, deviceId);
      this.#deviceId = deviceId;
      await this.#parts.store.append(received.bytes, batch);
      this.#logId = logId;
      this.#touched.set(logId, { deviceId, logId });
      received.done();
    }
  }

  /** Everything of this push is on the disk; up to where its last log is. */
  async #flush(): Promise<Long> {
    let throughId = Long.UZERO;
    for (const { deviceId, logId } of this.#touched.values()) {
      const position = await this.#parts.store.position(deviceId, logId);
      if (logId === this.#logId) throughId = position;
    }
    return throughId;
  }

  async #authenticateAgain(): Promise<void> {
    const { authenticate } = this.#parts;
    if (authenticate === undefined) return;
    const owner = await authenticate(this.#call.metadata.get('authorization').map(String));
    if (owner !== ownerOf(this.#call)) throw new PushEnded('revoked', "the token is another one's now");
  }
}

function decoded(bytes: Uint8Array): lineside.v1.UpstreamBatch {
  let fault: string;
  let batch: lineside.v1.UpstreamBatch | undefined;
  try {
    fault = sizeFault(bytes);
    if (fault === '') {
      batch = lineside.v1.UpstreamBatch.decode(bytes);
      fault = batchFault(batch);
    }
  } catch (error) {
    throw new LinesideError('INVALID_ARGUMENT', 'the batch is no UpstreamBatch: its encoding is broken', {
      cause: error,
    });
  }
  if (fault !== '' || batch === undefined) throw new LinesideError('INVALID_ARGUMENT', fault);
  return batch;
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
  const error = asLinesideError(thrown);
  if (error.code === 'INTERNAL') {
    const cause = error.cause instanceof Error ? error.cause : error;
    logger.error('a call failed unforeseen', { error: cause.stack ?? cause.message });
    return { code: status.INTERNAL, details: 'internal failure; the collector has logged it' };
  }
  const text = error.hint === '' ? error.message : `${error.message} (${error.hint})`;
  // encodeURI, which grpc-js runs on it, throws on half a surrogate pair.
  return { code: status[errorCatalogue[error.code].grpc], details: text.slice(0, MAX_DETAILS_CHARS).toWellFormed() };
}
