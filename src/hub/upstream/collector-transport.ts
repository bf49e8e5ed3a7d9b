/**
 * The serial log to a collector (lineside.v1.CollectorService): a push for each batch, since only the end of a push says what is
 * stored. Reconnects automatically; the collector gives the position to resume at after every disconnection.
 */
import { connectivityState } from '@grpc/grpc-js';
import { ClientError, Status } from 'nice-grpc';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import {
  ATTEMPT_BYTES,
  CALL_BYTES,
  type CollectorChannel,
  type CollectorSettings,
  callCost,
  connectionCost,
  gzippedBytes,
  isPlainLink,
  MAX_BATCH_BYTES,
  openCollector,
  PING_BYTES,
  PING_MS,
  readCollectorSecrets,
} from './collector-channel.ts';
import type { Packed } from './packer.ts';
import type { SendOutcome, Transport, TransportState } from './transport.ts';

const POSITION_LIMIT_MS = 30_000;
/** Time limit of a push, beside the time that the batch takes at the slowest rate: keepalive notices a dead link long before. */
const SEND_LIMIT_MS = 60_000;
const SLOWEST_BYTES_PER_S = 1_000;
/** Of a reason that the collector gives; it is logged. */
const MAX_REASON_CHARS = 300;

export class CollectorTransport implements Transport {
  readonly name = 'collector';
  readonly maxBytes = MAX_BATCH_BYTES;
  readonly connectBytes: number;
  readonly #settings: CollectorSettings;
  readonly #deviceId: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  #changed: () => void = () => undefined;
  #channel: CollectorChannel | undefined;
  #state: TransportState = { connected: false, reason: '' };
  /** False once the collector has reported that it cannot decompress. */
  #compresses: boolean;
  #token = '';
  #overheadBytes = 0;
  #connections = 0;
  #isOpen = false;
  #pingsFromMs = 0;

  constructor(settings: CollectorSettings, deviceId: string, clock: Clock, logger: Logger) {
    this.#settings = settings;
    this.#deviceId = deviceId;
    this.#clock = clock;
    this.#logger = logger;
    this.#compresses = settings.compression !== 'none';
    // With the call for the position.
    this.connectBytes = connectionCost(isPlainLink(settings)) + CALL_BYTES;
  }

  start(changed: () => void): void {
    this.#changed = changed;
    this.#connect().then(
      (channel) => channel.begin(),
      (error: unknown) => this.#set({ connected: false, reason: this.#reasonOf(error) }),
    );
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#channel?.close();
    this.#channel = undefined;
    this.#set({ connected: false, reason: '' });
  }

  /** The next call makes another. */
  rest(): void {
    this.#closed();
    this.#channel?.close();
    this.#channel = undefined;
  }

  state(): TransportState {
    return this.#state;
  }

  /** Its answer to a push is the position that it has. */
  hasRoom(): boolean {
    return false;
  }

  cost(batch: Uint8Array): number {
    return callCost(this.#compresses ? gzippedBytes(batch) : batch.length);
  }

  takeOverhead(): number {
    this.#countPings();
    const bytes = this.#overheadBytes;
    this.#overheadBytes = 0;
    return bytes;
  }

  async position(logId: string, signal: AbortSignal): Promise<number> {
    const mayHaveSent = this.#watchLink();
    try {
      const { throughId } = await this.#call(POSITION_LIMIT_MS, signal, ({ client }, options) =>
        client.getPosition({ deviceId: this.#deviceId, logId }, options),
      );
      this.#set({ connected: true, reason: '' });
      return throughId.toNumber();
    } catch (error) {
      const { reason, isReached } = this.#failed(error);
      throw new LinesideError(isReached ? 'CONFLICT' : 'NOT_READY', reason, { cause: error });
    } finally {
      if (mayHaveSent()) this.#overheadBytes += CALL_BYTES;
    }
  }

  async send(batch: Uint8Array, range: Pick<Packed, 'throughId'>, signal: AbortSignal): Promise<SendOutcome> {
    const limitMs = SEND_LIMIT_MS + (batch.length / SLOWEST_BYTES_PER_S) * 1_000;
    const mayHaveSent = this.#watchLink();
    try {
      const { throughId } = await this.#call(limitMs, signal, ({ client }, options) =>
        client.push(single(batch), options),
      );
      this.#set({ connected: true, reason: '' });
      if (throughId.greaterThanOrEqual(range.throughId)) return { kind: 'stored' };
      const reason = `the collector took it, and says that it has the log only up to ${String(throughId)}`;
      return { kind: 'unreached', reason };
    } catch (error) {
      const { reason, isReached, isPermanent } = this.#failed(error);
      if (!isReached) return { kind: 'unreached', reason, unsent: !mayHaveSent() };
      return { kind: 'refused', reason, permanent: isPermanent };
    }
  }

  /** Whether anything can have been sent since: not if there was no connection at any time. */
  #watchLink(): () => boolean {
    const before = this.#isOpen ? -1 : this.#connections;
    return () => before !== this.#connections;
  }

  /** Each call reads the files of the secrets again: a replaced token needs no restart. */
  async #call<T>(
    limitMs: number,
    signal: AbortSignal,
    work: (channel: CollectorChannel, options: { signal: AbortSignal; metadata: Headers }) => Promise<T>,
  ): Promise<T> {
    return withLimit(this.#clock, limitMs, AbortSignal.any([signal, this.#stopping.signal]), async (limit) => {
      limit.throwIfAborted();
      const channel = await this.#connect();
      limit.throwIfAborted();
      return work(channel, { signal: limit, metadata: channel.metadata(this.#token) });
    });
  }

  /** The channel; a new one if its secrets have changed. */
  async #connect(): Promise<CollectorChannel> {
    const secrets = await readCollectorSecrets(this.#settings);
    this.#stopping.signal.throwIfAborted();
    this.#token = secrets.token;
    if (this.#channel?.fits(secrets, this.#compresses) !== true) {
      this.#channel?.close();
      this.#closed();
      const channel = openCollector(this.#settings.collector, secrets, this.#compresses);
      this.#channel = channel;
      channel.watch((state) => {
        if (this.#channel === channel) this.#onState(state, secrets.isPlain);
      });
    }
    return this.#channel;
  }

  #onState(state: connectivityState, isPlain: boolean): void {
    if (state === connectivityState.READY) {
      this.#connections += 1;
      this.#overheadBytes += connectionCost(isPlain);
      this.#isOpen = true;
      this.#pingsFromMs = this.#clock.monoMs();
      this.#set({ connected: true, reason: '' });
      return;
    }
    this.#closed();
    if (state !== connectivityState.TRANSIENT_FAILURE) return;
    this.#overheadBytes += ATTEMPT_BYTES;
    this.#set({ connected: false, reason: this.#state.reason || 'the collector is unreachable' });
  }

  #closed(): void {
    this.#countPings();
    this.#isOpen = false;
  }

  #countPings(): void {
    if (!this.#isOpen) return;
    const pings = Math.floor((this.#clock.monoMs() - this.#pingsFromMs) / PING_MS);
    this.#pingsFromMs += pings * PING_MS;
    this.#overheadBytes += pings * PING_BYTES;
  }

  #failed(error: unknown): { reason: string; isReached: boolean; isPermanent: boolean } {
    const code = error instanceof ClientError ? error.code : undefined;
    // Go's servers unpack only what they were built with.
    if (code === Status.UNIMPLEMENTED && this.#compresses) {
      this.#compresses = false;
      this.#logger.info('upstream goes uncompressed: the collector may not unpack gzip', {
        collector: this.#settings.collector,
      });
      return { reason: this.#reasonOf(error), isReached: false, isPermanent: false };
    }
    const isReached = code !== undefined && !unreached.has(code);
    const reason = this.#reasonOf(error);
    // A failed handshake costs as much as a successful one.
    if (/certificate|tls|ssl|handshake/i.test(reason)) this.#overheadBytes += connectionCost(false);
    this.#set({ connected: isReached, reason });
    return { reason, isReached, isPermanent: code !== undefined && isTooLarge(code, reason) };
  }

  /** Never with the token in it. */
  #reasonOf(error: unknown): string {
    const text = error instanceof ClientError ? inWords(error) : messageOf(error);
    const shown = this.#token === '' ? text : text.replaceAll(this.#token, '(the token)');
    return shown.slice(0, MAX_REASON_CHARS).toWellFormed();
  }

  #set(state: TransportState): void {
    const { connected, reason } = this.#state;
    if (connected === state.connected && reason === state.reason) return;
    this.#state = state;
    this.#changed();
  }
}

type Headers = ReturnType<CollectorChannel['metadata']>;

/** Why there is no connection, by the error text of grpc-js. */
const troubles: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, 'nothing listens there (connection refused): the collector is down, or upstream.collector is wrong'],
  [/ENETUNREACH|EHOSTUNREACH/, 'there is no route to the collector: check the network'],
  [
    /ENOTFOUND|EAI_AGAIN|Name resolution failed/,
    'the name of the collector cannot be resolved (DNS): check upstream.collector and the network',
  ],
];

function inWords({ code, details }: ClientError): string {
  const known = code === Status.UNAVAILABLE ? troubles.find(([pattern]) => pattern.test(details)) : undefined;
  return known?.[1] ?? `${Status[code]}: ${details.replace(/ Resolution note: $/, '')}`;
}

/** The collector did not receive the call, or it is unknown whether it did. */
const unreached: ReadonlySet<Status> = new Set([
  Status.UNAVAILABLE,
  Status.DEADLINE_EXCEEDED,
  Status.CANCELLED,
  Status.ABORTED,
  Status.UNKNOWN,
]);

/**
 * It can never be taken as it is, and smaller it can. Any other refusal is retried without end: a collector that errs about a
 * batch must not cost the entries in it.
 */
function isTooLarge(code: Status, reason: string): boolean {
  // As the libraries have it: "Received message larger than max (5 vs. 4)" of Node, Go and C (Python), "gRPC message exceeds
  // maximum size 4" of Java, "Received message exceeds the maximum configured message size" of .NET.
  const pattern = /\bmessage\b.*\b(?:larger than|exceeds (?:the )?maximum)\b/i;
  return code === Status.RESOURCE_EXHAUSTED && pattern.test(reason);
}

async function* single(batch: Uint8Array): AsyncGenerator<Uint8Array> {
  yield batch;
}
