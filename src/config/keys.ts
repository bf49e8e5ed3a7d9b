/**
 * Every configuration key, once: its path in the TOML file, type, default, limits and meaning. The parser, the
 * commented example (systemd/lineside.toml), the environment's names and the documentation are all held to this table.
 */
export type Value = string | number | boolean | readonly string[];

interface Common {
  /** Dotted path in the file: section, [subsection,] key. */
  readonly path: string;
  /** One line: what it is for, its unit, and why the default is what it is. */
  readonly meaning: string;
}

interface TextKey extends Common {
  readonly kind: 'text';
  readonly default: string;
  /** A variable that systemd sets (StateDirectory=, RuntimeDirectory=), which goes before the default. */
  readonly systemd?: string;
  /** True where the value must be an absolute path (or empty, where the default is). */
  readonly isPath?: boolean;
}
interface IntegerKey extends Common {
  readonly kind: 'integer';
  readonly default: number | 'auto';
  readonly min: number;
  readonly max: number;
  /** Also accepts the word "auto". */
  readonly auto?: boolean;
}
interface SwitchKey extends Common {
  readonly kind: 'switch';
  readonly default: boolean;
  /** Only the file may set it: a stray variable must not open the service to the network. */
  readonly fileOnly?: boolean;
}
interface ChoiceKey extends Common {
  readonly kind: 'choice';
  readonly default: string;
  readonly choices: readonly string[];
}
interface ListKey extends Common {
  readonly kind: 'list';
  readonly default: readonly string[];
}
export type Key = TextKey | IntegerKey | SwitchKey | ChoiceKey | ListKey;

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** Largest SerialConfig.packet_size that the contract's decision table allows. */
const MAX_PACKET_SIZE = 65_536;

const data: readonly Key[] = [
  {
    path: 'data.dir',
    kind: 'text',
    default: '/var/lib/lineside',
    systemd: 'STATE_DIRECTORY',
    isPath: true,
    meaning:
      'Directory of the serial log and of what survives a restart; default: STATE_DIRECTORY where systemd sets it.',
  },
  {
    path: 'data.runtime_dir',
    kind: 'text',
    default: '/run/lineside',
    systemd: 'RUNTIME_DIRECTORY',
    isPath: true,
    meaning: 'Directory of the Unix socket; emptied by a reboot; default: RUNTIME_DIRECTORY where systemd sets it.',
  },
];

const serial: readonly Key[] = [
  {
    path: 'serial.extra_ports',
    kind: 'list',
    default: [],
    meaning: 'Globs of ports to list beside the real ones, such as "/dev/pts/7": for PTYs and simulators.',
  },
  {
    path: 'serial.simulate',
    kind: 'switch',
    default: false,
    meaning: 'Lists a simulated line too: a talking device to try everything on without hardware.',
  },
  {
    path: 'serial.at_start',
    kind: 'choice',
    default: 'resume',
    choices: ['resume', 'closed', 'open'],
    meaning: 'Port at start: "resume" reopens what was open when the service last ran, "open" opens [serial.line].',
  },
  {
    path: 'serial.max_payload_bytes',
    kind: 'integer',
    default: 64 * KIB,
    min: 1,
    max: MIB,
    meaning: 'Bytes: largest payload of SendPacket; 64 KiB is 5.7 s of line at 115,200 baud.',
  },
  {
    path: 'serial.rx_buffer_bytes',
    kind: 'integer',
    default: MIB,
    min: 4 * KIB,
    max: 256 * MIB,
    meaning: 'Bytes kept for ReceivePacket; when full the oldest packet is dropped (the log has it still).',
  },
  {
    path: 'serial.rx_buffer_packets',
    kind: 'integer',
    default: 65_536,
    min: 1,
    max: 16_777_216,
    meaning: 'Packets kept for ReceivePacket: bounds the overhead of many tiny packets.',
  },
  {
    path: 'serial.rx_gap_ms',
    kind: 'integer',
    default: 'auto',
    auto: true,
    min: 0,
    max: 1_000,
    meaning:
      'Milliseconds of silence that end a chunk; "auto": 3.5 character times, at least 2; 0: every read by itself.',
  },
  {
    path: 'serial.tx_queue_packets',
    kind: 'integer',
    default: 256,
    min: 1,
    max: 65_536,
    meaning: 'Packets that may wait to be written; SendPacket beyond that answers INTERNAL_ERROR at once.',
  },
  {
    path: 'serial.tx_queue_bytes',
    kind: 'integer',
    default: MIB,
    min: 1,
    max: 256 * MIB,
    meaning: 'Bytes that may wait to be written; at least serial.max_payload_bytes.',
  },
  {
    path: 'serial.write_timeout_ms',
    kind: 'integer',
    default: 10_000,
    min: 100,
    max: 600_000,
    meaning:
      'Milliseconds that a packet may take beyond its time on the wire until it fails: flow control may hold a line so long.',
  },
];

const serialLine: readonly Key[] = [
  {
    path: 'serial.line.port',
    kind: 'text',
    default: '',
    meaning: 'What at_start = "open" opens: a listed port or a stable link to one (/dev/serial/by-id/...).',
  },
  {
    path: 'serial.line.baud_rate',
    kind: 'integer',
    default: 115_200,
    min: 1,
    max: 12_000_000,
    meaning: 'Speed in baud, any that the hardware can do.',
  },
  { path: 'serial.line.data_bits', kind: 'integer', default: 8, min: 5, max: 8, meaning: 'Data bits, 5 to 8.' },
  {
    path: 'serial.line.parity',
    kind: 'choice',
    default: 'none',
    choices: ['none', 'even', 'odd', 'mark', 'space'],
    meaning: 'Parity; not every driver has mark and space.',
  },
  {
    path: 'serial.line.stop_bits',
    kind: 'choice',
    default: '1',
    choices: ['1', '1.5', '2'],
    meaning: 'Stop bits; 1.5 exists with 5 data bits only.',
  },
  {
    path: 'serial.line.packet_size',
    kind: 'integer',
    default: 0,
    min: 0,
    max: MAX_PACKET_SIZE,
    meaning: 'Bytes in every packet, both ways; 0: any size.',
  },
];

const log: readonly Key[] = [
  {
    path: 'log.commit_ms',
    kind: 'integer',
    default: 1_000,
    min: 10,
    max: 60_000,
    meaning:
      'Milliseconds of traffic in one commit, which is what a power cut may take; shorter wears the card faster.',
  },
  {
    path: 'log.max_bytes',
    kind: 'integer',
    default: GIB,
    min: MIB,
    max: 1_024 * GIB,
    meaning: 'Bytes the log may hold; the oldest entries go first.',
  },
  {
    path: 'log.max_age_days',
    kind: 'integer',
    default: 30,
    min: 1,
    max: 36_500,
    meaning: 'Days an entry is kept at most; whichever of the two limits comes first.',
  },
  {
    path: 'log.queue_bytes',
    kind: 'integer',
    default: 16 * MIB,
    min: 64 * KIB,
    max: GIB,
    meaning: 'Bytes that may wait for the card: 14 s of a line at 12 Mbaud; beyond that entries are lost and counted.',
  },
  {
    path: 'log.tail_bytes',
    kind: 'integer',
    default: MIB,
    min: 64 * KIB,
    max: 256 * MIB,
    meaning: 'Bytes of the newest entries kept in memory for live readers; a slower one reads on from the card.',
  },
];

const grpc: readonly Key[] = [
  {
    path: 'grpc.listen',
    kind: 'list',
    default: ['127.0.0.1:50051', 'unix:grpc.sock'],
    meaning: 'Addresses to listen on: "host:port", "[v6]:port", "unix:PATH" (relative paths: below data.runtime_dir).',
  },
  {
    path: 'grpc.insecure',
    kind: 'switch',
    default: false,
    fileOnly: true,
    meaning: 'true: addresses beyond this machine need neither TLS nor credentials; whoever reaches them is operator.',
  },
  {
    path: 'grpc.max_streams_per_connection',
    kind: 'integer',
    default: 128,
    min: 1,
    max: 10_000,
    meaning: 'Calls that one connection may have open at a time.',
  },
  {
    path: 'grpc.max_subscribers',
    kind: 'integer',
    default: 256,
    min: 1,
    max: 10_000,
    meaning: 'Log streams (StreamLog, ReadLog, Session) open at a time; beyond that RESOURCE_EXHAUSTED.',
  },
  {
    path: 'grpc.keepalive_s',
    kind: 'integer',
    default: 30,
    min: 1,
    max: 3_600,
    meaning: 'Seconds between pings to a client; one that stays silent as long again (10 s at most) is disconnected.',
  },
];

const access: readonly Key[] = [
  {
    path: 'tls.cert_file',
    kind: 'text',
    default: '',
    isPath: true,
    meaning: 'Certificate chain (PEM) for addresses beyond this machine; read at start.',
  },
  { path: 'tls.key_file', kind: 'text', default: '', isPath: true, meaning: 'Its private key (PEM); read at start.' },
  {
    path: 'tls.client_ca_file',
    kind: 'text',
    default: '',
    isPath: true,
    meaning: 'Certificate authorities (PEM) whose client certificates are accepted; read at start.',
  },
  {
    path: 'auth.tokens_file',
    kind: 'text',
    default: '/etc/lineside/tokens.json',
    isPath: true,
    meaning: 'Hashes of the bearer tokens, kept by "lineside token"; changes take effect within a second.',
  },
  {
    path: 'auth.operator_certs',
    kind: 'list',
    default: [],
    meaning: 'Common names of client certificates with role operator (may do everything); "*": any.',
  },
  {
    path: 'auth.viewer_certs',
    kind: 'list',
    default: [],
    meaning: 'Common names of client certificates with role viewer (may look, not touch); "*": any.',
  },
];

export const keys: readonly Key[] = [...data, ...serial, ...serialLine, ...log, ...grpc, ...access];

/** LINESIDE_SERIAL_RX_BUFFER_BYTES for serial.rx_buffer_bytes. */
export function variableOf(key: Key): string {
  return `LINESIDE_${key.path.replaceAll('.', '_').toUpperCase()}`;
}

/** Variables that are no keys: LINESIDE_CONFIG names the file, LINESIDE_DEBUG says more, the others are the command line's own. */
export const reservedVariables: readonly string[] = [
  'LINESIDE_CONFIG',
  'LINESIDE_DEBUG',
  'LINESIDE_SOCKET',
  'LINESIDE_HOST',
  'LINESIDE_TOKEN_FILE',
  'LINESIDE_CA',
];
