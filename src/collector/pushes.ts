/** The pushes that are open: so many at a time, one a device. A newer one ends the older, which may long be dead. */
import type { Clock, Timer } from '../shared/base/clock.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { MAX_PUSHES, PUSH_IDLE_MS, REJUDGE_MS } from './limits.ts';

/** Why a push was ended by this side. */
export class PushEnded extends Error {
  readonly kind: 'cancelled' | 'displaced' | 'idle' | 'stopping' | 'revoked';

  constructor(kind: PushEnded['kind'], message: string) {
    super(message);
    this.kind = kind;
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

  /** `judge`: rejects when the caller may no longer push. */
  begin(authenticate: () => Promise<void>): PushTurn {
    if (this.#isClosed) throw new LinesideError('SHUTTING_DOWN', 'the collector is stopping');
    if (this.#open.size >= MAX_PUSHES) {
      throw new LinesideError('TOO_MANY', `there are ${MAX_PUSHES} pushes at this moment: try again`);
    }
    const turn = new PushTurn(this.#clock, authenticate);
    this.#open.add(turn);
    return turn;
  }

  /** The push is this device's, from now on the only one. */
  claim(turn: PushTurn, deviceId: string): void {
    const older = this.#byDevice.get(deviceId);
    if (older === turn) return;
    older?.end(new PushEnded('displaced', 'a newer push of this device took the place of this one'));
    this.#byDevice.set(deviceId, turn);
    turn.deviceId = deviceId;
  }

  release(turn: PushTurn): void {
    turn.release();
    this.#open.delete(turn);
    if (this.#byDevice.get(turn.deviceId) === turn) this.#byDevice.delete(turn.deviceId);
  }

  /** Ends them all. */
  close(): void {
    this.#isClosed = true;
    for (const turn of this.#open) turn.end(new PushEnded('stopping', 'the collector is stopping'));
  }
}

/** One push: waits for its batches, and for whatever ends it from this side. */
export class PushTurn {
  deviceId = '';
  readonly #clock: Clock;
  readonly #authenticate: () => Promise<void>;
  #ended: unknown;
  #wake: ((reason: unknown) => void) | undefined;
  #judging: Timer;

  constructor(clock: Clock, authenticate: () => Promise<void>) {
    this.#clock = clock;
    this.#authenticate = authenticate;
    this.#judging = clock.timer(REJUDGE_MS, () => this.#rejudge());
  }

  end(reason: unknown): void {
    this.#ended ??= reason;
    this.#wake?.(this.#ended);
  }

  /** The next batch; rejects with what ended the push instead. */
  next<T>(iterator: AsyncIterator<T>): Promise<IteratorResult<T, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      const idle = this.#clock.timer(PUSH_IDLE_MS, () =>
        this.end(new PushEnded('idle', `no batch came for ${PUSH_IDLE_MS / 60_000} minutes`)),
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
    this.#judging.cancel();
    this.#ended ??= new Error('the push is over');
  }

  #rejudge(): void {
    this.#authenticate().then(
      () => {
        if (this.#ended === undefined) this.#judging = this.#clock.timer(REJUDGE_MS, () => this.#rejudge());
      },
      (error: unknown) => this.end(error),
    );
  }
}
