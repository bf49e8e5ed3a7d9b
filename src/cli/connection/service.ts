/** The line as the commands see it: calls with a time limit, and what a call throws as a failure people can act on. */
import { CliFailure } from '../failure.ts';
import { OutputClosed } from '../output/output.ts';
import type { OpenedChannel } from './channel.ts';
import { unreachable } from './diagnose.ts';
import type { Place } from './secrets.ts';
import { grpcFailure, grpcUnavailable } from './service-errors.ts';

/** With the signal that ends the call. */
export type Send<T> = (channel: OpenedChannel, options: { readonly signal: AbortSignal }) => Promise<T>;

/** Channels to the line, opened again after a loss. */
export class Service {
  readonly #place: Place;
  #channel: OpenedChannel | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  async channel(): Promise<OpenedChannel> {
    const { openChannel } = await import('./channel.ts');
    this.#channel ??= openChannel(this.#place);
    return this.#channel;
  }

  /** Closes the channel; the next call opens a new one, at once and not after gRPC's own delay. */
  drop(): void {
    this.#channel?.close();
    this.#channel = undefined;
  }

  /** One call with a time limit; `stop` ends it earlier. Failures come out as CliFailure. */
  async call<T>(limitMs: number, stop: AbortSignal, send: Send<T>): Promise<T> {
    const channel = await this.channel();
    const limit = AbortSignal.timeout(limitMs);
    try {
      return await send(channel, { signal: AbortSignal.any([limit, stop]) });
    } catch (error) {
      if (limit.aborted && !stop.aborted) throw tooSlow(limitMs);
      stop.throwIfAborted();
      throw await this.failure(error);
    }
  }

  async failure(error: unknown): Promise<unknown> {
    if (error instanceof CliFailure || error instanceof OutputClosed) return error;
    const { grpcStatus } = await import('./channel.ts');
    const status = grpcStatus(error);
    if (status === undefined) return error;
    if (status.code === grpcUnavailable) return unreachable(this.#place, status.details);
    return grpcFailure(status.code, status.details, error);
  }
}

export function tooSlow(limitMs: number): CliFailure {
  return new CliFailure('unreachable', 'TIMEOUT', `no answer within ${limitMs / 1000} s`, {
    next: 'Look at lineside status; give more time with --timeout SECONDS.',
  });
}
