/**
 * The open pushes: a limited number, one for each device. A newer push ends the older one, whose box may be gone. And the gate
 * before every call: who calls, and one batch of a push after the other.
 */
import { type ServerInterceptor, type ServerUnaryCall, status } from '@grpc/grpc-js';
import { GatedCall } from '../shared/auth/gated-call.ts';
import type { AuthFailureLog } from '../shared/base/burst-log.ts';
import type { Clock } from '../shared/base/clock.ts';
import { LinesideError, messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { Loop } from '../shared/base/loop.ts';
import { MAX_DEVICES, MAX_PUSHES, PUSH_IDLE_MS, REAUTHENTICATE_MS } from './limits.ts';

export class PushEnded extends Error {
  readonly code: status;

  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}

export class Pushes {
  readonly #clock: Clock;
  readonly #open = new Set<PushTurn>();
  readonly #byDevice = new Map<string, PushTurn>();
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get count(): number {
    return this.#open.size;
  }

  /** `authenticate`: rejects when the caller may no longer push. */
  begin(authenticate: () => Promise<void>): PushTurn {
    if (this.#isClosed) throw new LinesideError('SHUTTING_DOWN', 'the collector is stopping');
    if (this.#open.size >= MAX_PUSHES) {
      throw new LinesideError('TOO_MANY', `there are ${MAX_PUSHES} pushes at this moment: try again`);
    }
    const turn = new PushTurn(this.#clock, authenticate);
    this.#open.add(turn);
    return turn;
  }

  claim(turn: PushTurn, deviceId: string): void {
    const older = this.#byDevice.get(deviceId);
    if (older === turn) return;
    older?.end(new PushEnded(status.ABORTED, 'a newer push of this device took the place of this one'));
    this.#byDevice.set(deviceId, turn);
    turn.deviceId = deviceId;
  }

  release(turn: PushTurn): void {
    turn.release();
    this.#open.delete(turn);
    if (this.#byDevice.get(turn.deviceId) === turn) this.#byDevice.delete(turn.deviceId);
  }

  close(): void {
    this.#isClosed = true;
    for (const turn of this.#open) turn.end(new PushEnded(status.UNAVAILABLE, 'the collector is stopping'));
  }
}

/** One push: waits for its batches, and for the collector's reason to end it. */
export class PushTurn {
  deviceId = '';
  readonly #clock: Clock;
  readonly #check: Loop;
  #ended: unknown;
  #wake: ((reason: unknown) => void) | undefined;

  constructor(clock: Clock, authenticate: () => Promise<void>) {
    this.#clock = clock;
    const pass = async (): Promise<number> => {
      await authenticate().catch((error: unknown) => this.end(error));
      return REAUTHENTICATE_MS;
    };
    this.#check = new Loop({ pass, clock });
    this.#check.start(REAUTHENTICATE_MS);
  }

  end(reason: unknown): void {
    this.#ended ??= reason;
    this.#wake?.(this.#ended);
  }

  /** The next batch; rejects with the reason if the push was ended. */
  next<T>(iterator: AsyncIterator<T>): Promise<IteratorResult<T, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      const idle = this.#clock.timer(PUSH_IDLE_MS, () =>
        this.end(new PushEnded(status.DEADLINE_EXCEEDED, `no batch came for ${PUSH_IDLE_MS / 60_000} minutes`)),
      );
      const settled = <V>(call: (value: V) => void) => {
        return (value: V): void => {
          idle.cancel();
          this.#wake = undefined;
          call(value);
        };
      };
      this.#wake = settled(reject);
      iterator.next().then(settled(resolve), settled(reject));
    });
  }

  release(): void {
    void this.#check.stop();
    this.#ended ??= new Error('the push is over');
  }
}

// Two running boxes with one device.id, as after a backup of one was restored on the other: their logs would be mixed. A box has
// one connection at a time and never returns to an earlier one; two boxes alternate between two.

/** A port number that NAT assigns twice is no second box: each of the two connections has to return. */
const RETURNS = 2;
const REPORT_EVERY_MS = 3_600_000;

interface Seen {
  latest: string;
  former: string;
  /** How often the former one came back since a third was seen. */
  returns: number;
  reportedMs: number;
}

/** To be called for each call of a device, with its connection ("address:port"). */
export function noteSharedIds(clock: Clock, logger: Logger): (device: string, peer: string) => void {
  const devices = new Map<string, Seen>();
  return (device, peer) => {
    const one = devices.get(device);
    if (one === undefined) {
      const [oldest] = devices.keys();
      if (devices.size >= MAX_DEVICES && oldest !== undefined) devices.delete(oldest);
      devices.set(device, { latest: peer, former: '', returns: 0, reportedMs: Number.NEGATIVE_INFINITY });
      return;
    }
    if (peer === one.latest) return;
    one.returns = peer === one.former ? one.returns + 1 : 0;
    one.former = one.latest;
    one.latest = peer;
    const nowMs = clock.monoMs();
    if (one.returns < RETURNS || nowMs - one.reportedMs < REPORT_EVERY_MS) return;
    one.reportedMs = nowMs;
    logger.error('two boxes use one device.id: give one of them another', {
      device,
      first: one.former,
      second: one.latest,
    });
  };
}

// Before every call: identifies the caller, or refuses before a byte of a message is read; and gives a push its batches one by
// one: grpc-js would read sixteen of 4 MiB ahead.

/** Whose token it is. Rejects with UNAUTHENTICATED. */
export type Authenticator = (authorization: readonly string[]) => Promise<string>;

/** Removed from what a client sends, then set here: the device whose token it is, encoded. Absent: this address asks for none. */
const DEVICE = 'lineside-internal-device';

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

type AnyCall = Pick<ServerUnaryCall<unknown, unknown>, 'metadata'>;

export function ownerOf({ metadata }: AnyCall): string | undefined {
  const [encoded] = metadata.get(DEVICE);
  return encoded === undefined ? undefined : decodeURIComponent(String(encoded));
}

export function checkOwner(call: AnyCall, deviceId: string): void {
  const owner = ownerOf(call);
  if (owner !== undefined && owner !== deviceId) {
    throw new LinesideError('PERMISSION_DENIED', 'device_id: the token is that of another device');
  }
}
