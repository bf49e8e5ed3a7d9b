/** Tickets for terminals: a browser cannot put its token on a WebSocket, and a token in an address would stand in logs. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import { MAX_TERMINAL_TICKETS, TERMINAL_TICKET_MS } from '../limits.ts';

export const TERMINAL_PATH = '/api/v1/line/terminal';

export function isTerminalUpgrade({ url = '' }: Pick<IncomingMessage, 'url'>): boolean {
  return url.split('?', 1)[0] === TERMINAL_PATH;
}

/** Who a ticket was made for. */
export interface TicketOwner {
  readonly name: string;
  /** Rejects if the owner may no longer use the line. */
  readonly authenticate: () => Promise<unknown>;
}

interface Ticket {
  readonly owner: TicketOwner;
  readonly madeMs: number;
}

export class TerminalTickets {
  readonly #clock: Clock;
  readonly #refused: (peer: string, why: string) => void;
  /** In the order of their ages. */
  readonly #waiting = new Map<string, Ticket>();

  /** `refused`: called for each ticket that is not valid. */
  constructor(clock: Clock, refused: (peer: string, why: string) => void) {
    this.#clock = clock;
    this.#refused = refused;
  }

  /** TOO_MANY if so many wait to be used. */
  issue(owner: TicketOwner): string {
    for (const [ticket, { madeMs }] of this.#waiting) if (this.#isOld(madeMs)) this.#waiting.delete(ticket);
    if (this.#waiting.size >= MAX_TERMINAL_TICKETS)
      throw new LinesideError('TOO_MANY', `${MAX_TERMINAL_TICKETS} tickets for terminals wait to be used`, {
        hint: `each expires after ${TERMINAL_TICKET_MS / 1_000} s`,
      });
    const ticket = randomBytes(24).toString('base64url');
    this.#waiting.set(ticket, { owner, madeMs: this.#clock.monoMs() });
    return ticket;
  }

  /** Uses it up. UNAUTHENTICATED: there is none, or it was used, or has expired. */
  redeem(ticket: unknown, peer: string): TicketOwner {
    const found = this.#take(ticket);
    if (found !== undefined && !this.#isOld(found.madeMs)) return found.owner;
    const why = found === undefined ? 'no such ticket, or it was used' : 'the ticket has expired';
    this.#refused(peer, why);
    throw new LinesideError('UNAUTHENTICATED', why, { hint: `POST ${TERMINAL_PATH}/tickets makes one` });
  }

  /** For a request that cannot become a terminal. */
  discard(ticket: unknown): void {
    this.#take(ticket);
  }

  #take(ticket: unknown): Ticket | undefined {
    if (typeof ticket !== 'string') return undefined;
    const found = this.#waiting.get(ticket);
    this.#waiting.delete(ticket);
    return found;
  }

  #isOld(madeMs: number): boolean {
    return this.#clock.monoMs() - madeMs >= TERMINAL_TICKET_MS;
  }
}
