/**
 * In front of every call: identifies the caller, or refuses before a byte of a message is read; and hands a push its batches one
 * by one, where grpc-js would read sixteen of 4 MiB ahead.
 */
import type { ServerInterceptor } from '@grpc/grpc-js';
import { GatedCall } from '../shared/auth/gated-call.ts';
import type { AuthFailureLog } from '../shared/base/auth-failure-log.ts';
import { messageOf } from '../shared/base/errors.ts';

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
  return (method, call) =>
    new PushCall(call, async (metadata) => {
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

class PushCall extends GatedCall {
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
