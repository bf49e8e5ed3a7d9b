/** The keys of the hub: reference data over HTTP, its outbox, the broker, webhooks. */
import { choice, file, GIB, integer, integers, type Key, KIB, list, MIB, reloaded, text, toggle } from './key.ts';

/** Kafka's limit for a topic's name is 249; the longest name is the prefix and ".restricted". */
const MAX_TOPIC_PREFIX = 238;

const http: readonly Key[] = [
  list(
    'http.listen',
    ['127.0.0.1:8080', 'unix:http.sock'],
    'Addresses to listen on, as grpc.listen; a bearer token is needed everywhere but on the Unix socket.',
  ),
  toggle(
    'http.insecure',
    false,
    'true: addresses beyond this machine need no TLS, and tokens travel for all to read; they are still asked for.',
    { fileOnly: true },
  ),
  integer('http.max_body_bytes', MIB, [KIB, 64 * MIB], 'Bytes: largest body of a request, imports aside.'),
  integer(
    'http.max_import_bytes',
    64 * MIB,
    [KIB, GIB],
    'Bytes: largest bundle of POST /imports; 50,000 records of 1 KiB are 50 MiB.',
  ),
  integer('http.max_connections', 256, [1, 65_536], 'Connections open at a time on each address; more are refused.'),
  integer(
    'http.request_timeout_ms',
    60_000,
    [1_000, 3_600_000],
    'Milliseconds within which a request must have arrived whole: 64 MiB need about 9 Mbit/s.',
  ),
];

const kafka: readonly Key[] = [
  text(
    'kafka.bootstrap',
    '',
    'Brokers to begin with, "host:port,host:port"; empty: no broker, changes wait in the outbox.',
    {
      pattern: String.raw`^$|^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}(,(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5})*$`,
      errorMessage: 'must be "host:port" or a list of them with commas between',
    },
  ),
  choice(
    'kafka.security_protocol',
    'plaintext',
    ['plaintext', 'ssl', 'sasl_plaintext', 'sasl_ssl'],
    'How to talk to the brokers; sasl_*: with SCRAM-SHA-512, *ssl: over TLS.',
  ),
  text('kafka.username', '', 'User of SCRAM-SHA-512; needed by sasl_*.'),
  file(
    'kafka.password_file',
    'File that holds its password and nothing else, or "credential:NAME" (a systemd credential); read at start.',
  ),
  file(
    'kafka.ca_file',
    "Certificate authorities (PEM) of the brokers; empty: the system's. The broker's name is always checked.",
  ),
  text('kafka.topic_prefix', 'refdata.cuod.events', 'Topics are this and ".public", ".internal", ".restricted".', {
    pattern: `^[A-Za-z0-9._-]{1,${MAX_TOPIC_PREFIX}}$`,
    errorMessage: `must be 1 to ${MAX_TOPIC_PREFIX} of A-Z, a-z, 0-9, ".", "_", "-"`,
  }),
  toggle(
    'kafka.create_topics',
    true,
    'Creates missing topics (7 days of retention); an existing one is never changed, what it lacks is reported.',
  ),
  integer('kafka.partitions', 3, [3, 1_000], 'Partitions of a topic that is created.'),
  integer('kafka.replication_factor', -1, [-1, 100], "Replicas of a topic that is created; -1: the broker's default."),
  choice(
    'kafka.compression',
    'zstd',
    ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
    'Compression of what goes to the broker; zstd is the smallest, for links that are paid by the byte.',
  ),
  integer(
    'kafka.message_timeout_ms',
    30_000,
    [1_000, 900_000],
    'Milliseconds that a message may wait for its acknowledgement; then it is offered again, which costs no attempt.',
  ),
  integer(
    'kafka.max_message_bytes',
    1_000_000,
    [1_000, 100_000_000],
    "Bytes: largest message offered; not above the broker's message.max.bytes (1,048,588 by default).",
  ),
];

const outbox: readonly Key[] = [
  integer(
    'outbox.max_attempts',
    1_000,
    [1, 1_000_000],
    'Refusals by a broker that was reached until a change is a dead letter; being offline costs none.',
  ),
  integer(
    'outbox.max_bytes',
    2 * GIB,
    [MIB, 1_024 * GIB],
    'Bytes that refdata.db may hold: records, history, outbox; beyond that changes are refused, or, without a broker, the oldest events pruned.',
  ),
  integer(
    'outbox.min_free_bytes',
    64 * MIB,
    [0, 1_024 * GIB],
    'Bytes to leave free on the disk: below it changes are refused, so that the serial log and what waits have room.',
  ),
  integer(
    'outbox.in_flight_bytes',
    4 * MIB,
    [64 * KIB, GIB],
    'Bytes that may be on their way to the broker, unacknowledged; at least kafka.max_message_bytes.',
  ),
  integer('outbox.keep_published_days', 7, [0, 3_650], 'Days that a published change stays in the outbox.'),
  integer(
    'outbox.drain_ms',
    5_000,
    [0, 60_000],
    'Milliseconds that a stop waits for what is on its way to the broker.',
  ),
];

const webhooks: readonly Key[] = [
  integers(
    'webhooks.schedule_s',
    [0, 30, 120, 600, 3_600, 21_600, 21_600, 21_600, 21_600, 21_600],
    [0, 604_800],
    [1, 100],
    'Seconds before each attempt, from the end of the one before; as many attempts, then the delivery is for review.',
  ),
  integer(
    'webhooks.timeout_ms',
    10_000,
    [100, 60_000],
    "Milliseconds within which a subscriber must have answered, its name's resolution included.",
  ),
  file(
    'webhooks.ca_file',
    'Certificate authorities (PEM) of subscribers, besides the public ones; certificates are always checked.',
  ),
  list(
    'webhooks.allow_cidrs',
    [],
    'Ranges ("192.168.7.0/24") that may be called although they are not public: subscribers on the site\'s own network.',
  ),
  integers(
    'webhooks.allow_ports',
    [443],
    [1, 65_535],
    [0, 100],
    'Ports that may be called at public addresses; in webhooks.allow_cidrs any may.',
  ),
  file(
    'webhooks.key_file',
    'File (made if missing) or "credential:NAME" of the key that seals subscribers\' secrets; empty: webhooks.key in data.dir.',
  ),
  integer(
    'webhooks.keep_delivered_days',
    7,
    [0, 3_650],
    'Days of running that a delivery stays listed once delivered.',
  ),
  integer(
    'webhooks.keep_failed_days',
    30,
    [0, 3_650],
    'Days of running that one that failed or was rejected stays for review.',
  ),
];

const upstream: readonly Key[] = [
  choice(
    'upstream.to',
    'off',
    ['off', 'kafka', 'collector'],
    'Where the serial log is copied to, oldest first: the brokers of [kafka], or a collector of the central side.',
  ),
  text('upstream.topic', 'lineside.serial-log', 'Topic of the serial log; created as kafka.create_topics has it.', {
    pattern: '^[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}$',
    errorMessage: 'must be 1 to 249 of A-Z, a-z, 0-9, ".", "_", "-", and not begin with a dot',
  }),
  integer(
    'upstream.max_kbit_per_s',
    0,
    [0, 10_000_000],
    'Kilobits a second that the serial log may take of the link, both directions together; 0: no limit.',
  ),
  integer(
    'upstream.max_bytes_per_day',
    0,
    [0, 1_024 * GIB],
    'Bytes on the link that it may take in any 24 h of running, for links that are paid by the byte; 0: no limit.',
  ),
  integer(
    'upstream.batch_bytes',
    256 * KIB,
    [4 * KIB, 3 * MIB],
    'Bytes of a batch before compression, at most; on a slow link batches are what it carries in a second.',
  ),
  integer(
    'upstream.linger_ms',
    5_000,
    [0, 3_600_000],
    'Milliseconds that an entry waits for company: fewer, larger requests.',
  ),
  choice(
    'upstream.compression',
    'zstd',
    ['none', 'gzip', 'zstd'],
    'Compression of what goes upstream; zstd is the smallest.',
  ),
  text('upstream.collector', '', 'Where the collector listens, "host:port".', {
    pattern: String.raw`^$|^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$`,
    errorMessage: 'must be "host:port"',
  }),
  file(
    'upstream.collector_token_file',
    'File that holds the token for the collector and nothing else, or "credential:NAME"; read again for each batch.',
  ),
  file(
    'upstream.collector_ca_file',
    "Certificate authorities (PEM) of the collector; empty: the public ones. The collector's name is always checked.",
  ),
  toggle(
    'upstream.collector_insecure',
    false,
    'true: no TLS to a collector on another machine, and log and token travel for all to read.',
    { fileOnly: true },
  ),
];

export const hubKeys: readonly Key[] = reloaded('hub', ...http, ...kafka, ...outbox, ...webhooks, ...upstream);
