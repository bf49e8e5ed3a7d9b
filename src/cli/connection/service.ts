/** From a command's options to a service it can call, and from what a call throws to a failure people can act on. */

import { CliFailure, exitStatus } from '../failure.ts';
import { OutputClosed } from '../output/output.ts';
import type { OpenedChannel } from './channel.ts';
import { unreachable } from './diagnose.ts';
import { type ConnectionOptions, chosenEndpoint, type Endpoint, lineFace } from './endpoint.ts';
import { readSecrets, type Secrets } from './secrets.ts';
import { grpcFailure, grpcUnavailable } from './service-errors.ts';

export interface ConnectSettings {
  readonly options: ConnectionOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The Unix socket of the service that the configuration file (undefined: the usual one) describes. */
  readonly localSocket: (configFile: string | undefined) => string | Promise<string>;
}

/** A service: where it is, and channels to it, opened again after a loss. */
export class Service {
  readonly endpoint: Endpoint;
  readonly #secrets: Secrets;
  #channel: OpenedChannel | undefined;

  private constructor(endpoint: Endpoint, secrets: Secrets) {
    this.endpoint = endpoint;
    this.#secrets = secrets;
  }

  static async find(settings: ConnectSettings): Promise<Service> {
    const endpoint = chosenEndpoint(settings.options, settings.env, lineFace) ?? (await ownSocket(settings));
    return new Service(endpoint, await readSecrets(endpoint, lineFace));
  }

  async channel(): Promise<OpenedChannel> {
    const { openChannel } = await import('./channel.ts');
    this.#channel ??= openChannel(this.endpoint, this.#secrets);
    return this.#channel;
  }

  /** Closes the channel; the next call opens a new one, at once and not after gRPC's own delay. */
  drop(): void {
    this.#channel?.close();
    this.#channel = undefined;
  }

  /** One call with a time limit; `stop` ends it earlier. Failures come out as CliFailure. */
  async call<T>(
    limitMs: number,
    stop: AbortSignal,
    send: (channel: OpenedChannel, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const channel = await this.channel();
    const limit = AbortSignal.timeout(limitMs);
    try {
      return await send(channel, AbortSignal.any([limit, stop]));
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
    if (status.code === grpcUnavailable) return unreachable(this.endpoint, this.#secrets.tls, status.details, lineFace);
    return grpcFailure(status.code, status.details, error);
  }
}

async function ownSocket(settings: ConnectSettings): Promise<Endpoint> {
  return { kind: 'unix', path: await settings.localSocket(settings.options.config) };
}

export function tooSlow(limitMs: number): CliFailure {
  return new CliFailure({
    status: exitStatus.unreachable,
    code: 'TIMEOUT',
    why: `no answer within ${limitMs / 1000} s`,
    next: 'Look at lineside status; give more time with --timeout SECONDS.',
  });
}
