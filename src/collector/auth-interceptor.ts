/**
 * In front of every call: says who calls, or refuses before a byte of a message is read; and hands a push its batches one by
 * one, where grpc-js would read sixteen of 4 MiB ahead.
 */
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';
import type { AuthFailureLog } from '../shared/base/auth-failure-log.ts';
import { errorCatalogue, LinesideError } from '../shared/base/errors.ts';

/** Whose token it is. Rejects with UNAUTHENTICATED. */
export type Authenticator = (authorization: readonly string[]) => Promise<string>;

/** Removed from what a client sends, then set here: the device whose token it is, encoded. Absent: this address asks for none. */
export const DEVICE = 'lineside-internal-device';

/** A batch as it came. */
export class Received {
  readonly bytes: Uint8Array;
  /** The next one may come. */
  done: () => void = () => undefined;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export function createAuthInterceptor(
  authenticate: Authenticator | undefined,
  refused: AuthFailureLog,
): ServerInterceptor {
  return (method, call) => {
    const admit = async (metadata: Metadata): Promise<void> => {
      metadata.remove(DEVICE);
      if (authenticate === undefined) return;
      try {
        metadata.set(DEVICE, encodeURIComponent(await authenticate(metadata.get('authorization').map(String))));
      } catch (error) {
        refused.note(method.path, call.getPeer(), error instanceof LinesideError ? error.message : 'cannot be judged');
        throw error;
      }
    };
    return new GatedCall(call, admit);
  };
}

type InterceptingServerListener = Parameters<ServerInterceptingCallInterface['start']>[0];

class GatedCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface;
  readonly #admit: (metadata: Metadata) => Promise<void>;
  #isInHand = false;
  #isAwaited = false;

  constructor(call: ServerInterceptingCallInterface, admit: (metadata: Metadata) => Promise<void>) {
    super(call);
    this.#call = call;
    this.#admit = admit;
  }

  override start(listener: InterceptingServerListener): void {
    let isAdmitted = false;
    let isCancelled = false;
    this.#call.start({
      onReceiveMetadata: (metadata) => {
        this.#admit(metadata).then(
          () => {
            if (isCancelled) return;
            isAdmitted = true;
            listener.onReceiveMetadata(metadata);
          },
          (error: unknown) => {
            if (!isCancelled) this.#refuse(error);
          },
        );
      },
      onReceiveMessage: (message: unknown) => {
        if (message instanceof Received) this.#hold(message);
        listener.onReceiveMessage(message);
      },
      onReceiveHalfClose: () => listener.onReceiveHalfClose(),
      onCancel: () => {
        isCancelled = true;
        // A call that was never handed on has nothing to cancel.
        if (isAdmitted) listener.onCancel();
      },
    });
  }

  override startRead(): void {
    if (this.#isInHand) this.#isAwaited = true;
    else this.#call.startRead();
  }

  #hold(message: Received): void {
    this.#isInHand = true;
    message.done = () => {
      this.#isInHand = false;
      if (!this.#isAwaited) return;
      this.#isAwaited = false;
      this.#call.startRead();
    };
  }

  #refuse(error: unknown): void {
    const known =
      error instanceof LinesideError ? error : new LinesideError('INTERNAL', 'the caller could not be judged');
    const details = known.hint === '' ? known.message : `${known.message} (${known.hint})`;
    this.#call.sendStatus({ code: status[errorCatalogue[known.code].grpc], details });
  }
}
