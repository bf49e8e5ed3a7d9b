/** One LineService.Session kept alive: sends packets, hands over the live log, and connects again after a loss. */
import { PassThrough } from 'node:stream';
import Long from 'long';
import type { lineside, serial } from '../../shared/proto/services.ts';
import type { Service } from '../connection/service.ts';
import type { Position } from './log-query.ts';
import { Link, type LinkSettings, positionAfter } from './reader.ts';

export interface SessionEvents {
  log(batch: lineside.v1.LogBatch): Promise<void>;
  answered(answer: serial.SendResponse): Promise<void>;
}

type Request = lineside.v1.SessionRequest.$Properties;

/** Packets in flight without an answer: beyond it the keys wait, so that a stuck line holds no heap of them. */
const windowPackets = 64;

export class LiveSession {
  readonly #service: Service;
  readonly #stop: AbortSignal;
  readonly #link: Link;
  readonly #events: SessionEvents;
  /** Requests of the session; undefined: there is none. */
  #outgoing: PassThrough | undefined;
  readonly #standing = Promise.withResolvers<void>();
  #seq = 0;
  #waiting = 0;
  #position: Position;
  #roomy: (() => void)[] = [];

  /** `position`: the head of the log at the start; what comes while the connection is lost is shown after it. */
  constructor(
    service: Service,
    position: Position,
    settings: Omit<LinkSettings, 'retries' | 'follow'>,
    events: SessionEvents,
  ) {
    this.#service = service;
    this.#position = position;
    this.#stop = settings.stop;
    this.#link = new Link(service, { ...settings, retries: Number.POSITIVE_INFINITY, follow: true });
    this.#events = events;
  }

  /** Packets without an answer. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves when the live log stands: what is sent from then on is shown. */
  get standing(): Promise<void> {
    return this.#standing.promise;
  }

  /** False: there is no connection, and nothing was sent. Resolves when there is room for the next. */
  async send(payload: Uint8Array): Promise<boolean> {
    while (this.#outgoing !== undefined && this.#waiting >= windowPackets) {
      await new Promise<void>((resolve) => this.#roomy.push(resolve));
    }
    if (this.#outgoing === undefined || this.#link.isBroken) return false;
    this.#seq += 1;
    this.#waiting += 1;
    this.#outgoing.write({ send: { seqId: Long.fromNumber(this.#seq, true), payload } } satisfies Request);
    return true;
  }

  /** Runs until the signal fires (it throws the signal's reason) or the service refuses. */
  async run(): Promise<never> {
    for (;;) {
      try {
        await this.#attempt().finally(() => this.#drop());
        await this.#link.pause();
      } catch (error) {
        this.#position = await this.#link.recover(error, this.#position);
      }
    }
  }

  async #attempt(): Promise<void> {
    const { line } = await this.#service.channel();
    const outgoing = new PassThrough({ objectMode: true });
    this.#outgoing = outgoing;
    outgoing.write({ log: { ...this.#position, follow: true } } satisfies Request);
    const requests = outgoing as AsyncIterable<Request>;
    const onHeader = (): void => void this.#stands();
    for await (const { sent, log } of line.session(requests, { signal: this.#stop, onHeader })) {
      this.#link.progress();
      await this.#stands();
      if (log != null) {
        await this.#events.log(log);
        this.#position = positionAfter(this.#position, log);
      }
      if (sent != null) {
        this.#waiting -= 1;
        this.#release();
        await this.#events.answered(sent);
      }
    }
  }

  async #stands(): Promise<void> {
    this.#standing.resolve();
    await this.#link.stands();
  }

  #drop(): void {
    this.#outgoing?.end();
    this.#outgoing = undefined;
    this.#waiting = 0;
    this.#release();
  }

  #release(): void {
    for (const resolve of this.#roomy.splice(0)) resolve();
  }
}
