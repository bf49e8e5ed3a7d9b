/** Exclusive use of the line: one stream has it, everybody else is refused with the holder's name (see Hold in lineside.proto). */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { LineRecorder } from '../log/log-api.ts';

const { HOLD_BEGUN, HOLD_ENDED } = lineside.v1.RecordedEvent.Kind;

/** A laptop that changes its network is back within this. */
const LOST_MS = 30_000;
/** A working day: what was forgotten does not keep others out the next morning. */
const LONGEST_MS = 8 * 60 * 60_000;
const TICKET_BYTES = 16;

export interface Holder {
  readonly name: string;
  /** By the wall clock, for people. */
  readonly sinceMs: number;
  readonly ageMs: number;
}

interface Held {
  readonly name: string;
  readonly ticket: string;
  readonly sinceMs: number;
  readonly beganMs: number;
  readonly longest: Timer;
  /** The stream that has it; undefined: its connection was lost. */
  stream: string | undefined;
  lost: Timer | undefined;
}

export class LineHold {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #log: Pick<LineRecorder, 'event'>;
  readonly #onEnd: () => void;
  #held: Held | undefined;

  /** `onEnd`: the line is free again. */
  constructor(clock: Clock, logger: Logger, log: Pick<LineRecorder, 'event'>, onEnd: () => void) {
    this.#clock = clock;
    this.#logger = logger;
    this.#log = log;
    this.#onEnd = onEnd;
  }

  holder(): Holder | undefined {
    if (this.#held === undefined) return undefined;
    const { name, sinceMs, beganMs } = this.#held;
    return { name, sinceMs, ageMs: this.#clock.monoMs() - beganMs };
  }

  /** Throws CONFLICT with the holder's name if another one than this stream holds the line. `stream`: undefined for other calls. */
  check(stream?: string): void {
    if (this.#held === undefined || (stream !== undefined && this.#held.stream === stream)) return;
    const { name, sinceMs } = this.#held;
    const since = instantOfMs(sinceMs).slice(11, 16);
    throw new LinesideError('CONFLICT', `the line is held by ${name} since ${since} UTC`, {
      hint: 'ask its holder, or with the role admin: lineside release',
    });
  }

  /** Begins a hold, or takes one up again with its ticket; answers the ticket. CONFLICT: another one holds it, or it has ended. */
  take(stream: string, name: string, ticket: string): string {
    const held = this.#held;
    if (held?.stream === stream) return held.ticket;
    if (ticket !== '') {
      if (held === undefined || held.name !== name || !isEqual(held.ticket, ticket))
        throw new LinesideError('CONFLICT', 'the hold of this ticket has ended', { hint: 'take a new one' });
      held.lost?.cancel();
      held.lost = undefined;
      held.stream = stream;
      return held.ticket;
    }
    this.check(stream);
    const longest = this.#clock.timer(LONGEST_MS, () => this.#end('after 8 hours'));
    const [sinceMs, beganMs] = [this.#clock.wallMs(), this.#clock.monoMs()];
    const fresh = randomBytes(TICKET_BYTES).toString('hex');
    this.#held = { name, ticket: fresh, sinceMs, beganMs, longest, stream, lost: undefined };
    this.#logger.info('line held', { by: name });
    this.#log.event(HOLD_BEGUN, '', name);
    return fresh;
  }

  /** Nothing happens unless this stream has it. */
  release(stream: string): void {
    if (this.#held?.stream === stream) this.#end('released', this.#held.name);
  }

  releaseBy(admin: string): void {
    this.#end(`released by ${admin}`, admin);
  }

  /** The stream has ended without releasing it. */
  left(stream: string): void {
    const held = this.#held;
    if (held?.stream !== stream) return;
    held.stream = undefined;
    held.lost = this.#clock.timer(LOST_MS, () => this.#end('its connection was lost'));
  }

  /** The service stops. */
  stop(): void {
    this.#end('the service stops');
  }

  #end(why: string, by = ''): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    held.longest.cancel();
    held.lost?.cancel();
    this.#logger.info('line no longer held', { by: held.name, why });
    this.#log.event(HOLD_ENDED, `of ${held.name}: ${why}`, by);
    this.#onEnd();
  }
}

function isEqual(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
