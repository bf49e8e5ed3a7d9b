/**
 * A terminal's connection to the line, over the WebSocket that its page opens: states, bytes both ways, commands and their answers. What
 * is typed waits here while the line has not answered what was sent before. Pure.
 */
import type { Clock, Timer } from '../../shared/base/clock.ts';
import type { TerminalCommand, TerminalNotice } from '../../shared/gen/http.ts';
import { localProblem, type Problem, problemFrom, problemOf } from '../problem.ts';
import { text } from '../text.ts';

export type LinkState =
  | { readonly is: 'connecting' }
  /** Received bytes come from the log until it is live. */
  | { readonly is: 'filling' }
  | { readonly is: 'live' }
  | { readonly is: 'ended'; readonly problem: Problem };

type Of<K extends TerminalNotice['type']> = Extract<TerminalNotice, { readonly type: K }>;

export interface Wire {
  send(message: Uint8Array<ArrayBuffer> | string): void;
  close(): void;
}

export interface WireEvents {
  opened(): void;
  received(message: Uint8Array | string): void;
  closed(): void;
}

export interface LinkOptions {
  /** Rejects with a ProblemError if there is none. */
  ticket(): Promise<string>;
  open(ticket: string, events: WireEvents): Wire;
  readonly clock: Clock;
  onState(state: LinkState): void;
  onBytes(bytes: Uint8Array): void;
  onPort(state: Of<'port'>['state']): void;
  onLines(lines: Of<'lines'>): void;
  onDone(done: Of<'done'>): void;
  onRefused(refused: Of<'refused'>): void;
  /** Bytes that have no answer yet. */
  onWaiting(bytes: number): void;
}

/** The box sends something every 5 s: two signs are missing. */
const SILENT_MS = 15_000;
/** Sent at a time: a line of 9,600 baud takes a second for it, and a stop is soon. */
const PIECE_BYTES = 1_024;
const MAX_UNANSWERED_BYTES = 4 * PIECE_BYTES;
/** Typed or pasted bytes that wait for the line. */
export const MAX_WAITING_BYTES = 128 * 1_024;

export class TerminalLink {
  readonly #o: LinkOptions;
  #wire: Wire | undefined;
  #state: LinkState = { is: 'connecting' };
  #silence: Timer | undefined;
  /** Not sent yet. */
  #queue: Uint8Array<ArrayBuffer>[] = [];
  #queuedBytes = 0;
  #unansweredBytes = 0;

  constructor(options: LinkOptions) {
    this.#o = options;
  }

  get isLive(): boolean {
    return this.#state.is === 'live';
  }

  async start(): Promise<void> {
    this.#set({ is: 'connecting' });
    try {
      const ticket = await this.#o.ticket();
      if (this.#state.is !== 'connecting') return;
      this.#listen();
      const wire: Wire = this.#o.open(ticket, {
        opened: () => this.#from(wire, () => this.#set({ is: 'filling' })),
        received: (message) => this.#from(wire, () => this.#take(message)),
        closed: () => this.#from(wire, () => this.end(localProblem(text.terminal.lost, text.terminal.lostDetail))),
      });
      this.#wire = wire;
    } catch (error) {
      this.end({ ...problemFrom(error), hint: '' });
    }
  }

  /** `problem`: why, for the page. */
  end(problem: Problem): void {
    if (this.#state.is === 'ended') return;
    this.#silence?.cancel();
    const wire = this.#wire;
    this.#wire = undefined;
    wire?.close();
    this.drop();
    this.#unansweredBytes = 0;
    this.#set({ is: 'ended', problem });
  }

  /** false: too much waits, or it is not live. */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (!this.isLive || this.#queuedBytes + bytes.length > MAX_WAITING_BYTES) return false;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) this.#queue.push(bytes.slice(at, at + PIECE_BYTES));
    this.#queuedBytes += bytes.length;
    this.#pump();
    return true;
  }

  command(command: TerminalCommand): void {
    if (this.isLive) this.#wire?.send(JSON.stringify(command));
  }

  /** What was not sent yet is not sent. */
  drop(): void {
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#o.onWaiting(this.#unansweredBytes);
  }

  /** Of an earlier wire nothing counts. */
  #from(wire: Wire, act: () => void): void {
    if (wire === this.#wire) act();
  }

  #set(state: LinkState): void {
    this.#state = state;
    this.#o.onState(state);
  }

  #listen(): void {
    this.#silence?.cancel();
    this.#silence = this.#o.clock.timer(SILENT_MS, () =>
      this.end(localProblem(text.terminal.lost, text.terminal.silent(SILENT_MS / 1_000))),
    );
  }

  #pump(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      if (this.#unansweredBytes > 0 && this.#unansweredBytes + next.length > MAX_UNANSWERED_BYTES) break;
      this.#queue.shift();
      this.#queuedBytes -= next.length;
      this.#unansweredBytes += next.length;
      this.#wire?.send(next);
    }
    this.#o.onWaiting(this.#queuedBytes + this.#unansweredBytes);
  }

  #take(message: Uint8Array | string): void {
    this.#listen();
    if (typeof message !== 'string') return this.#o.onBytes(message);
    const notice = JSON.parse(message) as TerminalNotice;
    switch (notice.type) {
      case 'port':
        if (!this.isLive) this.#set({ is: 'live' });
        return this.#o.onPort(notice.state);
      case 'lines':
        return this.#o.onLines(notice);
      case 'done':
        return this.#o.onDone(notice);
      case 'sent':
        this.#unansweredBytes -= notice.bytes;
        return this.#pump();
      case 'refused':
        this.#unansweredBytes -= notice.bytes;
        // The bytes behind would arrive without those before.
        if (notice.what === 'bytes') this.drop();
        return this.#o.onRefused(notice);
      case 'end':
        return this.end(
          problemOf(0, JSON.stringify({ code: notice.code, title: text.terminal.ended, detail: notice.message })),
        );
      // alive, and what a later box may say.
      default:
        return undefined;
    }
  }
}
