/** What the hub watches that is none of its own rooms: the line, and the certificates that end. Pure. */
import type { Alert } from '../../shared/base/alerts.ts';

export type PortState = 'closed' | 'opening' | 'open' | 'lost' | 'reopening' | 'closing' | 'unknown';

/** Errors that the kernel's driver counts, since it was loaded. */
export interface KernelErrors {
  readonly frame: number;
  readonly overrun: number;
  readonly parity: number;
  readonly break: number;
  readonly buffer_overrun: number;
}

/** What the line says of itself, as plain numbers. Counters are since its start. */
export interface LineFigures {
  readonly portState: PortState;
  readonly portError: string;
  readonly rxBytes: number;
  readonly txBytes: number;
  readonly rxChunks: number;
  readonly txPackets: number;
  readonly rxDroppedPackets: number;
  readonly rxDroppedBytes: number;
  readonly txFailedPackets: number;
  readonly rxBufferedPackets: number;
  readonly rxBufferedBytes: number;
  readonly txQueuedPackets: number;
  readonly txQueuedBytes: number;
  readonly losses: number;
  readonly reopens: number;
  readonly rxPauses: number;
  /** By ReceivePacket. */
  readonly rxFetchedPackets: number;
  /** null: the driver counts none (a PTY), or the port is closed. */
  readonly kernel: KernelErrors | null;
  readonly log: LogFigures;
  readonly subscribers: number;
  readonly residentBytes: number;
  readonly uptimeSeconds: number;
  readonly clock: 'set' | 'notSet' | 'unknown';
  /** Keys with a fault that the last reload found; '': none. */
  readonly configurationRefused: string;
}

export interface LogFigures {
  readonly failing: boolean;
  readonly error: string;
  readonly firstId: number;
  readonly lastId: number;
  readonly headId: number;
  readonly usedBytes: number;
  readonly fileBytes: number;
  readonly maxBytes: number;
  readonly pendingEntries: number;
  readonly pendingBytes: number;
  readonly lostEntries: number;
  readonly lostBytes: number;
  readonly prunedEntries: number;
  readonly commits: number;
  readonly readBudgetUsedBytes: number;
  readonly waitingReaders: number;
}

/** The latest answer, or why there was none. */
export interface LineView {
  /** undefined: it did not answer when it was asked last. */
  readonly figures: LineFigures | undefined;
  /** Why it did not answer; '' when it did. */
  readonly reason: string;
}

/** By the key of the configuration that names the file, never by its path: this is shown to everyone. */
export interface CertificateEnd {
  /** "tls.cert_file" */
  readonly key: string;
  /** By its own word, seconds since the Unix epoch. */
  readonly endsAtSeconds: number;
}

/** What the HTTP interface shows of it. */
export interface WatchAdmin {
  /** Asks the line, unless it was asked less than a second ago; never rejects. undefined: nobody knows where the line is. */
  askLine(): Promise<LineView | undefined>;
  certificates(): readonly CertificateEnd[];
  /** Units of sockets that should be open and are not. */
  closedSockets(): readonly string[];
  /** Of the line, the certificates and the sockets. */
  alerts(): readonly Alert[];
}
