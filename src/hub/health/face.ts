/** The hub's watch on the line, the certificates, the sockets and the configuration, as other rooms see it. Pure. */
import type { Alert } from '../../shared/base/alerts.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';

/** The line's latest answer, or the reason why there was none. */
export interface LineView {
  /** undefined: the line did not answer the last call. */
  readonly status: LineNumbers | undefined;
  /** Why the line did not answer; '' if it did. */
  readonly reason: string;
}

/** By the key of the configuration that names the file, never by its path: this is shown to everyone. */
export interface CertificateEnd {
  /** "tls.cert_file" */
  readonly key: string;
  /** notAfter, in seconds since the Unix epoch. */
  readonly endsAtSeconds: number;
}

/** What a process of the service reports about its configuration and its addresses: fields of LineStatus. */
export interface ServiceFaults {
  /** The keys or lines that the last reload refused; '': the file was taken. */
  readonly configurationRefused: string;
  /** Addresses that it should serve and does not, each with the reason; '': all are served. */
  readonly listenerFault: string;
}

/** What the HTTP interface shows of it. */
export interface WatchAdmin {
  /** Asks the line, unless it was asked less than a second ago; never rejects. undefined: no address of the line is known. */
  askLine(): Promise<LineView | undefined>;
  certificates(): readonly CertificateEnd[];
  /** Units of sockets that should be open and are not. */
  closedSockets(): readonly string[];
  /** Of the hub itself; those of the line are in its status. */
  hubFaults(): ServiceFaults;
  /** Of the line, the certificates, the sockets, the configuration and the addresses of both processes. */
  alerts(): readonly Alert[];
}
