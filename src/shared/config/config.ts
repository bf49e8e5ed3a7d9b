/**
 * Every configuration key, declared once. The type Config, the defaults, the names in the environment, the printed JSON
 * Schema, the commented example (systemd/lineside.toml) and the reference come from this schema. Pure.
 */
import {
  automatic,
  choice,
  file,
  fileOnly,
  GIB,
  hub,
  hubSection,
  integer,
  integers,
  type Key,
  KIB,
  keysOf,
  list,
  listen,
  live,
  liveAndHub,
  MIB,
  path,
  type Resolved,
  section,
  text,
  toggle,
} from './key.ts';

/** Largest SerialConfig.packet_size that the contract's decision table allows. */
const MAX_PACKET_SIZE = 65_536;
/** Kafka's limit for a topic's name is 249; the longest name is the prefix and ".restricted". */
const MAX_TOPIC_PREFIX = 238;

export const configSchema = section({
  device: section({
    id: text(
      '',
      'Name of this box in its events and facts; empty: made from /etc/machine-id (which it does not reveal), or the host name.',
      {
        pattern: '^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$',
        errorMessage: 'must be 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", beginning with a letter or digit',
        ...hub,
      },
    ),
    inventory: toggle(
      true,
      'Keeps the ports and the line as dictionaries device.ports and device.line (scope INTERNAL).',
      hub,
    ),
    time_sync_file: path(
      '/run/systemd/timesync/synchronized',
      'File whose presence means that the clock is synchronized (systemd-timesyncd makes it); empty: not known.',
    ),
  }),
  data: section({
    dir: path(
      '/var/lib/lineside',
      'Directory of the serial log and of all state that survives a restart; default: STATE_DIRECTORY if systemd sets it.',
      { 'x-systemd': 'STATE_DIRECTORY' },
    ),
    runtime_dir: path(
      '/run/lineside',
      'Directory of the Unix socket; emptied by a reboot; default: RUNTIME_DIRECTORY if systemd sets it.',
      { 'x-systemd': 'RUNTIME_DIRECTORY' },
    ),
  }),
  serial: section({
    extra_ports: list(
      [],
      'Globs of ports to list beside the real ones, such as "/dev/pts/7": for PTYs and simulators.',
    ),
    simulate: toggle(false, 'Also lists a simulated line: a device that sends data, to try lineside without hardware.'),
    at_start: choice(
      'resume',
      ['resume', 'closed', 'open'],
      'Port at start: "resume" reopens the port that was open when the service last ran, "open" opens [serial.line].',
    ),
    max_payload_bytes: integer(
      64 * KIB,
      [1, MIB],
      'Bytes: largest payload of SendPacket; 64 KiB is 5.7 s of line at 115,200 baud.',
      live,
    ),
    rx_buffer_bytes: integer(
      MIB,
      [4 * KIB, 256 * MIB],
      'Bytes kept for ReceivePacket; when full the oldest packet is dropped (the log still has it).',
    ),
    rx_buffer_packets: integer(
      65_536,
      [1, 16_777_216],
      'Packets kept for ReceivePacket: bounds the overhead of many tiny packets.',
    ),
    rx_gap_ms: automatic(
      [0, 1_000],
      'Milliseconds of silence that end a chunk; "auto": 3.5 character times, at least 2; 0: each read is a chunk. A change applies from the next Open.',
      live,
    ),
    tx_queue_packets: integer(
      256,
      [1, 65_536],
      'Packets that may wait to be written; SendPacket beyond that answers INTERNAL_ERROR at once.',
    ),
    tx_queue_bytes: integer(
      MIB,
      [1, 256 * MIB],
      'Bytes that may wait to be written; at least serial.max_payload_bytes.',
    ),
    write_timeout_ms: integer(
      10_000,
      [100, 600_000],
      'Milliseconds that a packet may take beyond its time on the wire before it fails: flow control may hold a line so long.',
      live,
    ),
    line: section({
      port: text(
        '',
        'Port that at_start = "open" opens: a listed port or a stable link to one (/dev/serial/by-id/...).',
      ),
      baud_rate: integer(115_200, [1, 12_000_000], 'Speed in baud; any that the hardware supports.'),
      data_bits: integer(8, [5, 8], 'Data bits, 5 to 8.'),
      parity: choice(
        'none',
        ['none', 'even', 'odd', 'mark', 'space'],
        'Parity; not every driver supports mark and space.',
      ),
      stop_bits: choice('1', ['1', '1.5', '2'], 'Stop bits; 1.5 exists with 5 data bits only.'),
      flow_control: choice(
        'none',
        ['none', 'rtscts', 'xonxoff'],
        'Flow control: by the lines RTS and CTS, or by XON and XOFF in the data, which are never received then.',
      ),
      packet_size: integer(0, [0, MAX_PACKET_SIZE], 'Bytes in every packet, both ways; 0: any size.'),
    }),
  }),
  log: section({
    commit_ms: integer(
      1_000,
      [10, 60_000],
      'Milliseconds of traffic in one commit, which a power failure may lose; shorter wears the card faster.',
      live,
    ),
    max_bytes: integer(GIB, [MIB, 1_024 * GIB], 'Bytes the log may hold; the oldest entries are removed first.', live),
    max_age_days: integer(30, [1, 36_500], 'Days an entry is kept at most; log.max_bytes may remove it earlier.', live),
    queue_bytes: integer(
      16 * MIB,
      [64 * KIB, GIB],
      'Bytes that may wait for the card: 14 s of a line at 12 Mbaud; beyond that, entries are lost and counted.',
    ),
    tail_bytes: integer(
      MIB,
      [64 * KIB, 256 * MIB],
      'Bytes of the newest entries kept in memory for live readers; a slower reader continues from the card.',
    ),
  }),
  grpc: section({
    listen: listen(
      ['127.0.0.1:50051', 'unix:grpc.sock'],
      'Addresses to listen on: "host:port", "[v6]:port", "unix:PATH" (relative paths: below data.runtime_dir).',
    ),
    insecure: toggle(
      false,
      'true: addresses beyond this machine need neither TLS nor credentials; every caller there is operator.',
      fileOnly,
    ),
    max_streams_per_connection: integer(128, [1, 10_000], 'Calls that one connection may have open at a time.'),
    max_subscribers: integer(
      256,
      [1, 10_000],
      'Log streams (StreamLog, ReadLog, Session) open at a time; beyond that RESOURCE_EXHAUSTED.',
      live,
    ),
    keepalive_s: integer(
      30,
      [1, 3_600],
      'Seconds between pings to a client; a client that then stays silent as long again (10 s at most) is disconnected.',
    ),
  }),
  http: hubSection({
    listen: listen(
      ['127.0.0.1:8080', 'unix:http.sock'],
      'Addresses to listen on, as grpc.listen; every address but the Unix socket needs a bearer token.',
    ),
    insecure: toggle(
      false,
      'true: addresses beyond this machine need no TLS; tokens are still required and travel unencrypted.',
      fileOnly,
    ),
    max_body_bytes: integer(MIB, [KIB, 64 * MIB], 'Bytes: largest body of a request, imports aside.'),
    max_import_bytes: integer(
      64 * MIB,
      [KIB, GIB],
      'Bytes: largest bundle of POST /imports; 50,000 records of 1 KiB are 50 MiB.',
    ),
    max_connections: integer(256, [1, 65_536], 'Connections open at a time on each address; more are refused.'),
    request_timeout_ms: integer(
      60_000,
      [1_000, 3_600_000],
      'Milliseconds within which a request must have arrived whole: 64 MiB need about 9 Mbit/s.',
    ),
    admin_socket: path(
      '/run/lineside-admin.sock',
      'Unix socket of the helper that administration goes through; systemd opens it. If there is none, the interface offers no administration.',
    ),
  }),
  kafka: hubSection({
    bootstrap: text(
      '',
      'First brokers to contact, "host:port,host:port"; empty: no broker, changes wait in the outbox.',
      {
        pattern: String.raw`^$|^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}(,(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5})*$`,
        errorMessage: 'must be "host:port" or a list of them with commas between',
      },
    ),
    security_protocol: choice(
      'plaintext',
      ['plaintext', 'ssl', 'sasl_plaintext', 'sasl_ssl'],
      'Protocol to the brokers; sasl_*: with SCRAM-SHA-512, *ssl: over TLS.',
    ),
    username: text('', 'User of SCRAM-SHA-512; needed by sasl_*.'),
    password_file: file(
      'File that holds its password and nothing else, or "credential:NAME" (a systemd credential); read at start.',
    ),
    ca_file: file(
      "Certificate authorities (PEM) of the brokers; empty: the system's. The broker's name is always checked.",
    ),
    topic_prefix: text('refdata.cuod.events', 'Topics are this and ".public", ".internal", ".restricted".', {
      pattern: `^[A-Za-z0-9._-]{1,${MAX_TOPIC_PREFIX}}$`,
      errorMessage: `must be 1 to ${MAX_TOPIC_PREFIX} of A-Z, a-z, 0-9, ".", "_", "-"`,
    }),
    create_topics: toggle(
      true,
      'Creates missing topics (7 days of retention); an existing topic is never changed; a setting that it lacks is reported.',
    ),
    partitions: integer(3, [3, 1_000], 'Partitions of a topic that is created.'),
    replication_factor: integer(-1, [-1, 100], "Replicas of a topic that is created; -1: the broker's default."),
    compression: choice(
      'zstd',
      ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
      'Compression of messages to the broker; zstd is the smallest, for links that are paid by the byte.',
    ),
    message_timeout_ms: integer(
      30_000,
      [1_000, 900_000],
      'Milliseconds that a message may wait for its acknowledgement; then it is sent again, which costs no attempt.',
    ),
    max_message_bytes: integer(
      1_000_000,
      [1_000, 100_000_000],
      "Bytes: largest message sent; not above the broker's message.max.bytes (1,048,588 by default).",
    ),
  }),
  outbox: hubSection({
    max_attempts: integer(
      1_000,
      [1, 1_000_000],
      'Refusals by a reachable broker before a change is dead-lettered; being offline costs no attempt.',
    ),
    max_bytes: integer(
      2 * GIB,
      [MIB, 1_024 * GIB],
      'Bytes that refdata.db may hold: records, history, outbox; beyond that, changes are refused or, without a broker, the oldest events are pruned.',
    ),
    min_free_bytes: integer(
      64 * MIB,
      [0, 1_024 * GIB],
      'Bytes to leave free on the disk: below that, changes are refused, so that the serial log and the queue have room.',
    ),
    in_flight_bytes: integer(
      4 * MIB,
      [64 * KIB, GIB],
      'Bytes in flight to the broker, unacknowledged; at least kafka.max_message_bytes.',
    ),
    keep_published_days: integer(7, [0, 3_650], 'Days that a published change stays in the outbox.'),
    stop_grace_ms: integer(5_000, [0, 60_000], 'Milliseconds that a stop waits for messages in flight to the broker.', {
      'x-old-path': 'outbox.drain_ms',
    }),
  }),
  webhooks: hubSection({
    schedule_s: integers(
      [0, 30, 120, 600, 3_600, 21_600, 21_600, 21_600, 21_600, 21_600],
      [0, 604_800],
      [1, 100],
      'Seconds before each attempt, from the end of the previous one; after the last attempt the delivery waits for review.',
    ),
    timeout_ms: integer(
      10_000,
      [100, 60_000],
      "Milliseconds within which a subscriber must have answered, its name's resolution included.",
    ),
    ca_file: file(
      'Certificate authorities (PEM) of subscribers, besides the public ones; certificates are always checked.',
    ),
    allow_cidrs: list(
      [],
      'Ranges ("192.168.7.0/24") that may be called although they are not public: subscribers on the site\'s own network.',
    ),
    allow_ports: integers(
      [443],
      [1, 65_535],
      [0, 100],
      'Ports that may be called at public addresses; in webhooks.allow_cidrs any may.',
    ),
    key_file: file(
      'File (made if missing) or "credential:NAME" of the key that seals subscribers\' secrets; empty: webhooks.key in data.dir.',
    ),
    keep_delivered_days: integer(7, [0, 3_650], 'Days of running that a completed delivery stays listed.'),
    keep_failed_days: integer(30, [0, 3_650], 'Days of running that a failed or rejected delivery stays for review.'),
  }),
  upstream: hubSection({
    to: choice(
      'off',
      ['off', 'kafka', 'collector'],
      'Destination of the serial log, oldest entries first: the brokers of [kafka], or a central collector.',
    ),
    topic: text('lineside.serial-log', 'Topic of the serial log; created if kafka.create_topics is true.', {
      pattern: '^[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}$',
      errorMessage: 'must be 1 to 249 of A-Z, a-z, 0-9, ".", "_", "-", and not begin with a dot',
    }),
    max_kbit_per_s: integer(
      0,
      [0, 10_000_000],
      'Kilobits a second that the serial log may take of the link, both directions together; 0: no limit.',
    ),
    max_bytes_per_day: integer(
      0,
      [0, 1_024 * GIB],
      'Bytes on the link that the serial log may take in any 24 h of running, for links that are paid by the byte; 0: no limit.',
    ),
    batch_bytes: integer(
      256 * KIB,
      [4 * KIB, 3 * MIB],
      'Bytes of a batch before compression, at most; on a slow link a batch is what the link carries in a second.',
    ),
    linger_ms: integer(5_000, [0, 3_600_000], 'Milliseconds that an entry waits for others: fewer, larger requests.'),
    compression: choice('zstd', ['none', 'gzip', 'zstd'], 'Compression of batches upstream; zstd is the smallest.'),
    collector: text('', 'Address of the collector, "host:port".', {
      pattern: String.raw`^$|^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$`,
      errorMessage: 'must be "host:port"',
    }),
    collector_token_file: file(
      'File that holds the token for the collector and nothing else, or "credential:NAME"; read again for each batch.',
    ),
    collector_ca_file: file(
      "Certificate authorities (PEM) of the collector; empty: the public ones. The collector's name is always checked.",
    ),
    collector_insecure: toggle(
      false,
      'true: no TLS to a collector on another machine; log and token travel unencrypted.',
      fileOnly,
    ),
  }),
  tls: section({
    cert_file: file(
      'Certificate chain (PEM) for addresses beyond this machine; read at start and at a reload if there are any.',
      liveAndHub,
    ),
    key_file: file(
      'Its private key (PEM), or "credential:NAME"; read with the chain, but a credential changes only with a restart.',
      liveAndHub,
    ),
    client_ca_file: file(
      'Certificate authorities (PEM) whose client certificates are accepted; read with the chain.',
      liveAndHub,
    ),
  }),
  auth: section({
    tokens_file: path(
      '/etc/lineside/tokens.json',
      'Hashes of the bearer tokens, kept by "lineside token"; changes take effect within a second.',
    ),
    operator_certs: list(
      [],
      'Common names of client certificates with role operator (may do everything); "*": any.',
      live,
    ),
    viewer_certs: list(
      [],
      'Common names of client certificates with role viewer (may read, not change); "*": any.',
      live,
    ),
  }),
});

/** The complete, checked configuration: no default is left to apply. */
export type Config = Resolved<typeof configSchema>;

export const keys: readonly Key[] = keysOf(configSchema);

/** LINESIDE_SERIAL_RX_BUFFER_BYTES for serial.rx_buffer_bytes. */
export function variableOf(path: string): string {
  return `LINESIDE_${path.replaceAll('.', '_').toUpperCase()}`;
}

export const knownVariables: ReadonlySet<string> = new Set([
  ...keys.flatMap(({ path, schema }) => [path, schema['x-old-path'] ?? path].map(variableOf)),
  // No keys: the file's name, more in the log, and the command line's own.
  'LINESIDE_CONFIG',
  'LINESIDE_DEBUG',
  'LINESIDE_SOCKET',
  'LINESIDE_HTTP_SOCKET',
  'LINESIDE_HOST',
  'LINESIDE_PROFILE',
  'LINESIDE_TOKEN_FILE',
  'LINESIDE_CA',
  'LINESIDE_FINGERPRINT',
]);
