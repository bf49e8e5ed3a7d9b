/**
 * The complete, checked configuration: every key present, no default left to apply. Built by parse.ts from
 * keys.ts, which says each key's default, limits and meaning. The file's and the environment's names are snake_case.
 */
import type { LineConfig } from './line-config.ts';

export interface Config {
  readonly device: {
    /** Names the box in event headers and in its own facts; made from the machine id where the file names none. */
    readonly id: string;
    /** Whether the box keeps its own facts as dictionaries (device.ports, device.line). */
    readonly inventory: boolean;
    /** Its presence says that the wall clock is right; '': not known. */
    readonly timeSyncFile: string;
  };
  readonly data: {
    /** Holds log.db, line-state.json and refdata.db. */
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
  readonly http: {
    readonly listen: readonly ListenAddress[];
    readonly insecure: boolean;
    /** Largest body of a request but an import's. */
    readonly maxBodyBytes: number;
    /** Largest bundle of POST /imports. */
    readonly maxImportBytes: number;
    readonly maxConnections: number;
    /** A request that has not arrived whole by then is ended. */
    readonly requestTimeoutMs: number;
  };
  readonly kafka: {
    /** "host:port,host:port"; '': no broker, rows wait. */
    readonly bootstrap: string;
    readonly securityProtocol: 'plaintext' | 'ssl' | 'sasl_plaintext' | 'sasl_ssl';
    readonly username: string;
    /** Path of the file that holds the password; '' when not set. */
    readonly passwordFile: string;
    readonly caFile: string;
    readonly topicPrefix: string;
    readonly createTopics: boolean;
    readonly partitions: number;
    /** -1: the broker's default. */
    readonly replicationFactor: number;
    readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
    readonly messageTimeoutMs: number;
    readonly maxMessageBytes: number;
  };
  readonly outbox: {
    /** Refusals by a broker that was reached until a row is a dead letter. */
    readonly maxAttempts: number;
    /** Bytes refdata.db may hold. */
    readonly maxBytes: number;
    /** Free bytes on the disk below which changes are refused. */
    readonly minFreeBytes: number;
    /** Bytes that may be on their way to the broker, unacknowledged. */
    readonly inFlightBytes: number;
    readonly keepPublishedDays: number;
    /** How long a stop waits for what is on its way. */
    readonly drainMs: number;
  };
  readonly webhooks: {
    /** Seconds before attempt 1, 2, ...: their number is that of the attempts. */
    readonly scheduleS: readonly number[];
    /** For an attempt in all, from the name's resolution to the answer's last byte. */
    readonly timeoutMs: number;
    /** '': Node's own authorities alone. */
    readonly caFile: string;
    /** Ranges in canonical form that may be called although they are not public. */
    readonly allowCidrs: readonly string[];
    /** Of public addresses. */
    readonly allowPorts: readonly number[];
    /** Holds the key that seals the subscriptions' secrets; made where it is missing. */
    readonly keyFile: string;
    readonly keepDeliveredDays: number;
    readonly keepFailedDays: number;
  };
  readonly upstream: {
    /** Where the serial log goes. */
    readonly to: 'off' | 'kafka' | 'collector';
    readonly topic: string;
    /** Both for the serial log alone; 0: none. */
    readonly maxKbitPerS: number;
    readonly maxBytesPerDay: number;
    /** Of a batch, before it is compressed. */
    readonly batchBytes: number;
    readonly lingerMs: number;
    readonly compression: 'none' | 'gzip' | 'zstd';
    /** "host:port" */
    readonly collector: string;
    /** Paths; '' when not set. */
    readonly collectorTokenFile: string;
    readonly collectorCaFile: string;
    readonly collectorInsecure: boolean;
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

export type ListenAddress = (
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly loopback: boolean }
) & {
  /** The socket that systemd opened there: nothing is bound then, and its file is not ours. */
  readonly fd?: number;
};
