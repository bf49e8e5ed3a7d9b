/** The requests of the API to the line, and the line's state and counters. */
import { type FieldOf, lineside } from '../../shared/proto/services.ts';
import type { EffectiveSettings, LineConfig } from './line-config.ts';

export interface ReceivedPacket {
  /** Counts received packets from 1 since Open. */
  readonly seqId: number;
  readonly payload: Uint8Array;
  /** Wall clock at the arrival of the chunk that completed it. */
  readonly receivedAtMs: number;
  /** Packets the full buffer dropped just before this one. */
  readonly droppedBefore: number;
}

/** Something that takes its turn on the line. */
export interface Turn {
  /** The queue is fair between callers, and first come first served for each. */
  readonly caller: string;
  /** Fires when the caller cancels or disconnects: what has not reached the port is not done. */
  readonly signal: AbortSignal;
  /** Monotonic time (Clock.monoMs) by which the caller wants its answer; undefined: serial.write_timeout_ms alone. */
  readonly deadlineMs: number | undefined;
}

export interface SendRequest extends Turn {
  readonly payload: Uint8Array;
}

/** Who takes the received bytes as they are read, and what happens to the line, in order. */
export interface LineListener {
  /** Shared with others: not to be changed. `errors`: while any listener wants them (watchErrors). */
  received(bytes: Uint8Array, errors?: readonly LineError[]): void;
  state(state: LineState): void;
  settings(effective: EffectiveSettings): void;
}

// The messages of lineside.proto, which declares and documents their fields.

export type ModemLines = { readonly [K in FieldOf<lineside.v1.ModemLines.$Properties>]: boolean };
/** How often each incoming line changed. */
export type ModemChanges = { readonly [K in FieldOf<lineside.v1.ModemChanges.$Properties>]: number };
/** struct serial_icounter_struct of the kernel (TIOCGICOUNT). */
export type KernelCounters = { readonly [K in FieldOf<lineside.v1.KernelCounters.$Properties>]: number };
export type LineError = Required<Omit<lineside.v1.LineError.$Properties, '$unknowns'>>;
/** What the line counted since the service started, and what waits now. */
export type LineCounters = { [K in FieldOf<lineside.v1.LineCounters.$Properties>]: number };

export function newCounters(): LineCounters {
  const { LineCounters } = lineside.v1;
  const names = Object.keys(LineCounters.toObject(new LineCounters(), { defaults: true }));
  return Object.fromEntries(names.map((name) => [name, 0])) as LineCounters;
}

/** Monotonic times (Clock.monoMs) of the last byte each way. */
export interface LastBytes {
  receivedMs: number;
  sentMs: number;
}

export type LineState = 'closed' | 'opening' | 'open' | 'lost' | 'reopening' | 'closing';

export interface LineSnapshot {
  readonly state: LineState;
  /** Milliseconds, monotonic, since the state changed. */
  readonly stateAgeMs: number;
  readonly requested: LineConfig | undefined;
  readonly effective: EffectiveSettings | undefined;
  /** The silence that ends a chunk now; 0 too while no port is open. */
  readonly rxGapMs: number;
  /** Bytes. */
  readonly maxPayloadBytes: number;
  readonly devicePath: string;
  /** Why it is lost or was not reopened; '' otherwise. */
  readonly error: string;
  readonly kernel: KernelCounters | undefined;
  readonly counters: Readonly<LineCounters>;
  /** Milliseconds, monotonic, since the last byte; 0: none yet. */
  readonly receivedAgeMs: number;
  readonly sentAgeMs: number;
  /** How often a port may have appeared, gone or become accessible. */
  readonly portListChanges: number;
}
