/**
 * The complete, checked configuration: every key present, no default left to apply. Built by parse.ts from
 * keys.ts, which says each key's default, limits and meaning. The file's and the environment's names are snake_case.
 */
import type { LineConfig } from './line-config.ts';

export interface Config {
  readonly data: {
    /** Holds log.db and line-state.json. */
    readonly dir: string;
    /** Holds the Unix socket and the simulated line's link; emptied by a reboot. */
    readonly runtimeDir: string;
  };
  readonly serial: {
    readonly extraPorts: readonly string[];
    readonly simulate: boolean;
    readonly atStart: 'resume' | 'closed' | 'open';
    /** [serial.line]: what at_start = "open" opens; undefined when it names no port. */
    readonly line: LineConfig | undefined;
    readonly maxPayloadBytes: number;
    readonly rxBufferBytes: number;
    readonly rxBufferPackets: number;
    /** undefined: 3.5 character times, at least 2 ms. 0: every read is a chunk of its own. */
    readonly rxGapMs: number | undefined;
    readonly txQueuePackets: number;
    readonly txQueueBytes: number;
    readonly writeTimeoutMs: number;
  };
  readonly log: {
    readonly commitMs: number;
    readonly maxBytes: number;
    readonly maxAgeDays: number;
    readonly queueBytes: number;
    readonly tailBytes: number;
  };
  readonly grpc: {
    readonly listen: readonly ListenAddress[];
    readonly insecure: boolean;
    readonly maxStreamsPerConnection: number;
    readonly maxSubscribers: number;
    readonly keepaliveS: number;
  };
  readonly tls: {
    /** Paths; '' when not set. */
    readonly certFile: string;
    readonly keyFile: string;
    readonly clientCaFile: string;
  };
  readonly auth: {
    readonly tokensFile: string;
    /** Common names of client certificates, "*" for any that tls.client_ca_file signed. */
    readonly operatorCerts: readonly string[];
    readonly viewerCerts: readonly string[];
  };
}

export type ListenAddress =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly loopback: boolean };
