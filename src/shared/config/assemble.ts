/** The settings of all keys as the Config that the parts are given. Pure. */
import type { Config, ListenAddress } from './config.ts';
import { credentialPath } from './credential.ts';
import type { Value } from './key.ts';
import type { LineConfig } from './line-config.ts';
import { parseListen, showListen } from './listen.ts';
import type { Fault, Settings } from './settings.ts';

/** Reads one setting each; what a key's schema has been held to already is only narrowed here. */
interface Read {
  readonly at: (path: string) => Value;
  readonly text: (path: string) => string;
  readonly number: (path: string) => number;
  readonly on: (path: string) => boolean;
  readonly list: (path: string) => readonly string[];
  readonly numbers: (path: string) => readonly number[];
  readonly file: (path: string) => string;
}

/** Listen addresses that are none are added to `faults`, and left out. `credentials`: where systemd put those, if it did. */
export function assemble(settings: Settings, faults: Fault[], credentials: string | undefined): Config {
  const at = (path: string): Value => settings.get(path)?.value ?? '';
  const read: Read = {
    at,
    text: (path) => String(at(path)),
    file: (path) => credentialPath(String(at(path)), credentials),
    number: (path) => Number(at(path)),
    on: (path) => at(path) === true,
    list(path) {
      const value = at(path);
      return typeof value === 'object' ? value.map(String) : [];
    },
    numbers(path) {
      const value = at(path);
      return typeof value === 'object' ? value.map(Number) : [];
    },
  };
  const { text, list, on, file } = read;
  return {
    device: { id: text('device.id'), inventory: on('device.inventory'), timeSyncFile: text('device.time_sync_file') },
    data: { dir: text('data.dir'), runtimeDir: text('data.runtime_dir') },
    ...assembleLine(read, faults),
    ...assembleHub(read, faults),
    tls: {
      certFile: file('tls.cert_file'),
      keyFile: file('tls.key_file'),
      clientCaFile: file('tls.client_ca_file'),
    },
    auth: {
      tokensFile: text('auth.tokens_file'),
      operatorCerts: list('auth.operator_certs'),
      viewerCerts: list('auth.viewer_certs'),
    },
  };
}

function assembleLine(read: Read, faults: Fault[]): Pick<Config, 'serial' | 'log' | 'grpc'> {
  const { at, text, number, on, list } = read;
  return {
    serial: {
      extraPorts: list('serial.extra_ports'),
      simulate: on('serial.simulate'),
      atStart: oneOf(text('serial.at_start'), ['resume', 'closed', 'open']),
      line: lineAtStart(read),
      maxPayloadBytes: number('serial.max_payload_bytes'),
      rxBufferBytes: number('serial.rx_buffer_bytes'),
      rxBufferPackets: number('serial.rx_buffer_packets'),
      rxGapMs: at('serial.rx_gap_ms') === 'auto' ? undefined : number('serial.rx_gap_ms'),
      txQueuePackets: number('serial.tx_queue_packets'),
      txQueueBytes: number('serial.tx_queue_bytes'),
      writeTimeoutMs: number('serial.write_timeout_ms'),
    },
    log: {
      commitMs: number('log.commit_ms'),
      maxBytes: number('log.max_bytes'),
      maxAgeDays: number('log.max_age_days'),
      queueBytes: number('log.queue_bytes'),
      tailBytes: number('log.tail_bytes'),
    },
    grpc: {
      listen: addresses('grpc.listen', read, faults),
      insecure: on('grpc.insecure'),
      maxStreamsPerConnection: number('grpc.max_streams_per_connection'),
      maxSubscribers: number('grpc.max_subscribers'),
      keepaliveS: number('grpc.keepalive_s'),
    },
  };
}

function assembleHub(read: Read, faults: Fault[]): Pick<Config, 'http' | 'kafka' | 'outbox' | 'webhooks' | 'upstream'> {
  const { text, number, on, file } = read;
  return {
    http: {
      listen: addresses('http.listen', read, faults),
      insecure: on('http.insecure'),
      maxBodyBytes: number('http.max_body_bytes'),
      maxImportBytes: number('http.max_import_bytes'),
      maxConnections: number('http.max_connections'),
      requestTimeoutMs: number('http.request_timeout_ms'),
    },
    kafka: {
      bootstrap: text('kafka.bootstrap'),
      securityProtocol: oneOf(text('kafka.security_protocol'), ['plaintext', 'ssl', 'sasl_plaintext', 'sasl_ssl']),
      username: text('kafka.username'),
      passwordFile: file('kafka.password_file'),
      caFile: file('kafka.ca_file'),
      topicPrefix: text('kafka.topic_prefix'),
      createTopics: on('kafka.create_topics'),
      partitions: number('kafka.partitions'),
      replicationFactor: number('kafka.replication_factor'),
      compression: oneOf(text('kafka.compression'), ['none', 'gzip', 'snappy', 'lz4', 'zstd']),
      messageTimeoutMs: number('kafka.message_timeout_ms'),
      maxMessageBytes: number('kafka.max_message_bytes'),
    },
    outbox: {
      maxAttempts: number('outbox.max_attempts'),
      maxBytes: number('outbox.max_bytes'),
      minFreeBytes: number('outbox.min_free_bytes'),
      inFlightBytes: number('outbox.in_flight_bytes'),
      keepPublishedDays: number('outbox.keep_published_days'),
      drainMs: number('outbox.drain_ms'),
    },
    webhooks: assembleWebhooks(read),
    upstream: assembleUpstream(read),
  };
}

function assembleUpstream({ text, file, number, on }: Read): Config['upstream'] {
  return {
    to: oneOf(text('upstream.to'), ['off', 'kafka', 'collector']),
    topic: text('upstream.topic'),
    maxKbitPerS: number('upstream.max_kbit_per_s'),
    maxBytesPerDay: number('upstream.max_bytes_per_day'),
    batchBytes: number('upstream.batch_bytes'),
    lingerMs: number('upstream.linger_ms'),
    compression: oneOf(text('upstream.compression'), ['none', 'gzip', 'zstd']),
    collector: text('upstream.collector'),
    collectorTokenFile: file('upstream.collector_token_file'),
    collectorCaFile: file('upstream.collector_ca_file'),
    collectorInsecure: on('upstream.collector_insecure'),
  };
}

function assembleWebhooks({ text, file, number, list, numbers }: Read): Config['webhooks'] {
  return {
    scheduleS: numbers('webhooks.schedule_s'),
    timeoutMs: number('webhooks.timeout_ms'),
    caFile: file('webhooks.ca_file'),
    allowCidrs: list('webhooks.allow_cidrs'),
    allowPorts: numbers('webhooks.allow_ports'),
    keyFile: file('webhooks.key_file') || `${text('data.dir')}/webhooks.key`,
    keepDeliveredDays: number('webhooks.keep_delivered_days'),
    keepFailedDays: number('webhooks.keep_failed_days'),
  };
}

function lineAtStart({ text, number }: Read): LineConfig | undefined {
  const portName = text('serial.line.port');
  if (portName === '') return undefined;
  const parities = ['none', 'even', 'odd', 'mark', 'space'];
  const stops = ['1', '1.5', '2'];
  return {
    portName,
    baudRate: number('serial.line.baud_rate'),
    dataBits: oneOf(number('serial.line.data_bits'), [5, 6, 7, 8]),
    parity: oneOf(parities.indexOf(text('serial.line.parity')), [0, 1, 2, 3, 4]),
    stopBits: oneOf(stops.indexOf(text('serial.line.stop_bits')), [0, 1, 2]),
    packetSize: number('serial.line.packet_size'),
  };
}

/** Narrows a value that its key's limits have already been held to. */
function oneOf<const T extends string | number>(value: string | number, choices: readonly [T, ...T[]]): T {
  return choices.find((choice) => choice === value) ?? choices[0];
}

function addresses(path: string, { list, text }: Read, faults: Fault[]): ListenAddress[] {
  const found: ListenAddress[] = [];
  for (const written of list(path)) {
    const address = parseListen(written, text('data.runtime_dir'));
    if (typeof address === 'string') faults.push({ path, message: address });
    else if (found.some((other) => showListen(other) === showListen(address) && !written.endsWith(':0')))
      faults.push({ path, message: `${showListen(address)} is listed twice` });
    else found.push(address);
  }
  return found;
}
