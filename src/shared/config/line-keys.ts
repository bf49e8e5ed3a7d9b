/** The keys of the line: the port, its log, its gRPC interface. */
import { automatic, choice, GIB, integer, type Key, KIB, list, MIB, reloaded, text, toggle } from './key.ts';

/** Largest SerialConfig.packet_size that the contract's decision table allows. */
const MAX_PACKET_SIZE = 65_536;

const serial: readonly Key[] = [
  list(
    'serial.extra_ports',
    [],
    'Globs of ports to list beside the real ones, such as "/dev/pts/7": for PTYs and simulators.',
  ),
  toggle(
    'serial.simulate',
    false,
    'Lists a simulated line too: a talking device to try everything on without hardware.',
  ),
  choice(
    'serial.at_start',
    'resume',
    ['resume', 'closed', 'open'],
    'Port at start: "resume" reopens what was open when the service last ran, "open" opens [serial.line].',
  ),
  ...reloaded(
    'live',
    integer(
      'serial.max_payload_bytes',
      64 * KIB,
      [1, MIB],
      'Bytes: largest payload of SendPacket; 64 KiB is 5.7 s of line at 115,200 baud.',
    ),
  ),
  integer(
    'serial.rx_buffer_bytes',
    MIB,
    [4 * KIB, 256 * MIB],
    'Bytes kept for ReceivePacket; when full the oldest packet is dropped (the log has it still).',
  ),
  integer(
    'serial.rx_buffer_packets',
    65_536,
    [1, 16_777_216],
    'Packets kept for ReceivePacket: bounds the overhead of many tiny packets.',
  ),
  ...reloaded(
    'live',
    automatic(
      'serial.rx_gap_ms',
      [0, 1_000],
      'Milliseconds of silence that end a chunk; "auto": 3.5 character times, at least 2; 0: every read by itself. A changed one counts from the next Open on.',
    ),
  ),
  integer(
    'serial.tx_queue_packets',
    256,
    [1, 65_536],
    'Packets that may wait to be written; SendPacket beyond that answers INTERNAL_ERROR at once.',
  ),
  integer(
    'serial.tx_queue_bytes',
    MIB,
    [1, 256 * MIB],
    'Bytes that may wait to be written; at least serial.max_payload_bytes.',
  ),
  ...reloaded(
    'live',
    integer(
      'serial.write_timeout_ms',
      10_000,
      [100, 600_000],
      'Milliseconds that a packet may take beyond its time on the wire until it fails: flow control may hold a line so long.',
    ),
  ),
];

const serialLine: readonly Key[] = [
  text(
    'serial.line.port',
    '',
    'What at_start = "open" opens: a listed port or a stable link to one (/dev/serial/by-id/...).',
  ),
  integer('serial.line.baud_rate', 115_200, [1, 12_000_000], 'Speed in baud, any that the hardware can do.'),
  integer('serial.line.data_bits', 8, [5, 8], 'Data bits, 5 to 8.'),
  choice(
    'serial.line.parity',
    'none',
    ['none', 'even', 'odd', 'mark', 'space'],
    'Parity; not every driver has mark and space.',
  ),
  choice('serial.line.stop_bits', '1', ['1', '1.5', '2'], 'Stop bits; 1.5 exists with 5 data bits only.'),
  integer('serial.line.packet_size', 0, [0, MAX_PACKET_SIZE], 'Bytes in every packet, both ways; 0: any size.'),
];

const log: readonly Key[] = [
  ...reloaded(
    'live',
    integer(
      'log.commit_ms',
      1_000,
      [10, 60_000],
      'Milliseconds of traffic in one commit, which is what a power cut may take; shorter wears the card faster.',
    ),
  ),
  ...reloaded(
    'live',
    integer('log.max_bytes', GIB, [MIB, 1_024 * GIB], 'Bytes the log may hold; the oldest entries go first.'),
  ),
  ...reloaded(
    'live',
    integer(
      'log.max_age_days',
      30,
      [1, 36_500],
      'Days an entry is kept at most; whichever of the two limits comes first.',
    ),
  ),
  integer(
    'log.queue_bytes',
    16 * MIB,
    [64 * KIB, GIB],
    'Bytes that may wait for the card: 14 s of a line at 12 Mbaud; beyond that entries are lost and counted.',
  ),
  integer(
    'log.tail_bytes',
    MIB,
    [64 * KIB, 256 * MIB],
    'Bytes of the newest entries kept in memory for live readers; a slower one reads on from the card.',
  ),
];

const grpc: readonly Key[] = [
  list(
    'grpc.listen',
    ['127.0.0.1:50051', 'unix:grpc.sock'],
    'Addresses to listen on: "host:port", "[v6]:port", "unix:PATH" (relative paths: below data.runtime_dir).',
  ),
  toggle(
    'grpc.insecure',
    false,
    'true: addresses beyond this machine need neither TLS nor credentials; every caller there is operator.',
    { fileOnly: true },
  ),
  integer('grpc.max_streams_per_connection', 128, [1, 10_000], 'Calls that one connection may have open at a time.'),
  ...reloaded(
    'live',
    integer(
      'grpc.max_subscribers',
      256,
      [1, 10_000],
      'Log streams (StreamLog, ReadLog, Session) open at a time; beyond that RESOURCE_EXHAUSTED.',
    ),
  ),
  integer(
    'grpc.keepalive_s',
    30,
    [1, 3_600],
    'Seconds between pings to a client; one that stays silent as long again (10 s at most) is disconnected.',
  ),
];

export const lineKeys: readonly Key[] = [...serial, ...serialLine, ...log, ...grpc];
