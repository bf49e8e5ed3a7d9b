/** The face of the line room: the port owner (owner.ts) as the API sees it. */

import type { Counters } from './counters.ts';
import type { Port } from './ports.ts';
import type { EffectiveSettings, KernelCounters, LineConfig, ModemLines, OutgoingLines } from './settings.ts';

/** The arguments of Open as they came in: any numbers at all. */
export interface OpenRequest {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: number;
  readonly stopBits: number;
  readonly packetSize: number;
}

export interface ReceivedPacket {
  /** Counts received packets from 1 since Open. */
  readonly seqId: number;
  readonly payload: Uint8Array;
  /** Wall clock at the arrival of the chunk that completed it. */
  readonly receivedAtMs: number;
  /** Packets the full buffer dropped just before this one. */
  readonly droppedBefore: number;
}

export interface SendRequest {
  readonly payload: Uint8Array;
  /** Who sends: the queue is fair between callers, and first come first served for each. */
  readonly caller: string;
  /** Fires when the caller goes away: a packet that has not reached the port is not sent. */
  readonly signal: AbortSignal;
  /** Monotonic time (Clock.monoMs) by which the caller wants its answer; undefined: serial.write_timeout_ms alone. */
  readonly deadlineMs: number | undefined;
}

export type LineState = 'closed' | 'opening' | 'open' | 'lost' | 'reopening' | 'closing';

export interface LineSnapshot {
  readonly state: LineState;
  /** Milliseconds, monotonic, since the state changed. */
  readonly stateAgeMs: number;
  readonly requested: LineConfig | undefined;
  readonly effective: EffectiveSettings | undefined;
  readonly devicePath: string;
  /** Why it is lost or was not reopened; '' otherwise. */
  readonly error: string;
  readonly kernel: KernelCounters | undefined;
  readonly counters: LineCounters;
}

/** What the line counted since the service started, and what waits now. */
export interface LineCounters extends Readonly<Counters> {
  readonly rxBufferedPackets: number;
  readonly rxBufferedBytes: number;
  readonly txQueuedPackets: number;
  readonly txQueuedBytes: number;
}

/** Failures are LinesideErrors; their codes are named at each method. */
export interface Line {
  ports(): Promise<readonly Port[]>;
  /** INVALID_ARGUMENT, SETTING_REFUSED, PORT_NOT_FOUND, PORT_BUSY, PORT_PERMISSION, PORT_IO, NOT_SENT (Close came meanwhile), QUEUE_FULL. */
  open(request: OpenRequest): Promise<void>;
  /** Idempotent; ends within 2 s whatever the line does; never fails. */
  close(): Promise<void>;
  /** undefined unless the port is open now. */
  currentConfig(): LineConfig | undefined;
  /** Resolves when the kernel has accepted every byte. NOT_CONNECTED, INVALID_ARGUMENT, QUEUE_FULL, WRITE_TIMEOUT, NOT_SENT, PORT_IO. */
  send(request: SendRequest): Promise<void>;
  /** Takes the oldest packet. NOT_CONNECTED, BUFFER_EMPTY. */
  receive(): ReceivedPacket;
  /** These three: NOT_CONNECTED, UNSUPPORTED, PORT_IO. */
  modemLines(): ModemLines;
  setModemLines(lines: OutgoingLines): ModemLines;
  /** durationMs 1 to 5000, else INVALID_ARGUMENT. */
  sendBreak(durationMs: number): Promise<void>;
  snapshot(): LineSnapshot;
}
