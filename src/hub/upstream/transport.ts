/** Sending the serial log to the central side: its settings, and the interface of a transport (Kafka, a collector). */
import type { Config } from '../../shared/config/config.ts';
import type { Packed } from './packer.ts';

/** The configuration's section [upstream]. */
export type UpstreamSettings = Config['upstream'];

/** It cost on the link what cost() had announced, or a little less. */
export type SendOutcome =
  /** The remote has it durably. */
  | { readonly kind: 'stored' }
  /** The remote was reached and refused it. `permanent`: it can never be sent unchanged (too large, malformed). */
  | { readonly kind: 'refused'; readonly reason: string; readonly permanent: boolean }
  /** It may or may not have arrived. `unsent`: nothing of it was sent, so that it cost nothing. */
  | { readonly kind: 'unreached'; readonly reason: string; readonly unsent?: boolean };

export interface TransportState {
  readonly connected: boolean;
  /** Why not, or the last fault; '' if there is none. */
  readonly reason: string;
}

/**
 * Batches are sent in order, and more than one at a time only if hasRoom() allows it. If one of several is not stored, the caller
 * aborts the others and sends them again behind it.
 */
export interface Transport {
  readonly name: 'kafka' | 'collector';
  /**
   * Up to which id the remote has this log, durably: where to resume; undefined: it does not say (Kafka). Asked before
   * the first batch, and again after each that was not stored. Rejects with a LinesideError whose message says why it
   * could not be asked; never hangs for longer than its own time limit.
   */
  position(logId: string, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Resolves once the encoded UpstreamBatch is durably with the remote, or could not be delivered. Never rejects;
   * has a time limit of its own. When the signal fires: 'unreached', at once.
   */
  send(batch: Uint8Array, range: Pick<Packed, 'throughId'>, signal: AbortSignal): Promise<SendOutcome>;
  /** Whether a batch of so many bytes may be sent beside those in flight: none of them can be refused while the others are stored. */
  hasRoom(bytes: number): boolean;
  /**
   * What sending this batch will cost on the link, as it is charged to the cap and the budget before it is sent: never
   * less than it turns out to be. Without a cap and a budget it may be an estimate.
   */
  cost(batch: Uint8Array): number;
  /** What a connection costs to make, at most: nothing is tried while the budget has less. Counted in takeOverhead() when it is made. */
  readonly connectBytes: number;
  /** Bytes on the link beside the batches (connections made, signs of life) since the last call. */
  takeOverhead(): number;
  readonly maxBytes: number;
  /** Nothing is sent for a while: closes a connection that costs by being kept. position() and send() connect again. */
  rest(): void;
  state(): TransportState;
  /** Begins to connect, and retries. The caller is notified when state() has changed. */
  start(changed: () => void): void;
  /** Disconnects; called when no call is in flight. Always resolves within a second. */
  stop(): Promise<void>;
}
