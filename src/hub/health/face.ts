/** What the hub watches that is none of its own rooms: the line, and the certificates that end. Pure. */
import type { Alert } from '../../shared/base/alerts.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';

/** The latest answer, or why there was none. */
export interface LineView {
  /** undefined: it did not answer when it was asked last. */
  readonly status: LineNumbers | undefined;
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
  /** Asks the line, unless it was asked less than a second ago; never rejects. undefined: where the line is is not known. */
  askLine(): Promise<LineView | undefined>;
  certificates(): readonly CertificateEnd[];
  /** Units of sockets that should be open and are not. */
  closedSockets(): readonly string[];
  /** Of the line, the certificates and the sockets. */
  alerts(): readonly Alert[];
}
