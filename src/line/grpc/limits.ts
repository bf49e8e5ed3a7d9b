/** What a client may cost, each with the reason for its size. What a site may want to change is in the configuration. */
import type { ChannelOptions } from 'nice-grpc';
import type { Config } from '../../shared/config/config.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** LogRaw's raw_data: 91 s of line at 115,200 baud in one entry. */
export const MAX_RAW_DATA_BYTES = MIB;
/** LogRaw's note, in UTF-8: a remark, not a document. */
export const MAX_NOTE_BYTES = 4 * KIB;
/**
 * A message somewhat too large is still read, so that LogRaw can say which field is; far larger ones are refused by
 * their length prefix before any of it is kept.
 */
const MAX_RECEIVE_BYTES = MAX_RAW_DATA_BYTES + 64 * KIB;
/**
 * Messages larger than this (most packets are far smaller) need one of a few slots, of all and of one connection: 128 of
 * 1 MiB on each of four connections took the line from 89 MB to 1 GB. Each is held about six times until it is in the log.
 */
export const LARGE_MESSAGE_BYTES = 16 * KIB;
export const MAX_LARGE_MESSAGES = 8;
export const MAX_LARGE_MESSAGES_PER_CONNECTION = 4;
/** Calls of a connection that wait for such a slot, each with up to 64 KiB that came before; more are refused. */
export const MAX_WAITING_PER_CONNECTION = 32;
/** The largest packet, and what is around it. */
export const PACKET_MESSAGE_BYTES = 72 * KIB;
/** gRPC clients refuse more than 4 MiB by default; the largest message of ours is an entry of 1 MiB. */
const MAX_SEND_BYTES = 4 * MIB;

/** A batch of ReadLog ends at whichever comes first: large enough to amortise a message, small enough to flow. */
export const BATCH_BYTES = 64 * KIB;
export const BATCH_ENTRIES = 512;
/**
 * What a stream holds for a client that does not read: small messages enough for one write of the socket, or one large one. Each
 * costs its frame, its callback and its place in Node's streams besides.
 */
export const AHEAD_BYTES = 8 * KIB;
export const MESSAGE_COST_BYTES = 256;
/** Messages of other streams, and requests of a Session, that wait in one of Node's streams. Its own 16 are 16 MiB for each Session. */
export const MESSAGES_AHEAD = 1;
/** ReadLog's `last` is held in memory by the log, hence bounded. */
export const MAX_LAST_ENTRIES = 100_000;

/** Events of the line in one answer: some 100 KB. */
export const MAX_EVENTS = 1_000;
export const USUAL_EVENTS = 100;

/** Matches of one search, some 40 bytes each. */
export const MAX_MATCHES = 1_000;
/** Between two reports of a search's progress. */
export const PROGRESS_MS = 250;
/** A search is one at a time: a client that takes nothing for so long does not keep others from it. */
export const SEARCH_STALLED_MS = 10_000;
/** As many as a narrow window has columns of pixels for. */
export const MAX_BUCKETS = 200;
export const USUAL_BUCKETS = 100;

/**
 * How often the token of an open stream is checked again: with the second of the tokens' reader, a revoked one reads
 * and sends for ten seconds at most. The file's times are read once a second, however many streams there are.
 */
export const STREAM_REAUTH_MS = 8_000;

/** Packets of one Session that may wait for their answers; then its stream is not read on. */
export const MAX_SESSION_OUTSTANDING = 64;

/** Received bytes that wait for the client of a Session: 23 s of line at 115,200 baud. */
export const MAX_UNREAD_BYTES = 256 * KIB;
/** Of such bytes in one message, where more wait. */
export const RECEIVED_MESSAGE_BYTES = 32 * KIB;
/** Between two looks at the modem lines, for sessions that want them: a person's switch, a modem's carrier. */
export const MODEM_LOOK_MS = 10;

/** A client that does not answer a ping within this (or one interval) is gone: a frozen laptop, a pulled cable. */
const MAX_KEEPALIVE_TIMEOUT_MS = 10_000;
/**
 * Connections open at a time on each address; more are ended at once. One over TLS takes 0.2 MB before it has shown a token,
 * and the unit has 320 MB: without a limit a thousand of them ended the line.
 */
export const MAX_CONNECTIONS = 256;
/**
 * A connection from another machine has so long for its handshake and a first call with credentials: 5 KB at 9,600 bit/s take
 * 5 s. Then strangers no longer hold a connection.
 */
export const MAX_NEWCOMER_MS = 10_000;
/** A connection without any call for so long is closed (clients reconnect automatically): bounds who connects and stays. */
const MAX_CONNECTION_IDLE_MS = 10 * 60_000;

/** What unary calls under way get to finish when the service stops. */
export const STOP_GRACE_MS = 1_000;

/** Answering takes the way back to the client: SendPacket gives its answer this much before the client's deadline. */
export const DEADLINE_MARGIN_MS = 100;
/** ... but never more than this part of what there was. */
export const DEADLINE_MARGIN_PART = 0.2;

/**
 * Metadata needs no limit of ours: Node's HTTP/2 ends a connection that sends more than 65,535 bytes or 128 fields of
 * headers. Channelz stays on: grpc-js's forceShutdown() finds the connections to end only through it.
 */
export function serverOptions({ grpc }: Config): ChannelOptions {
  return {
    'grpc.max_receive_message_length': MAX_RECEIVE_BYTES,
    'grpc.max_send_message_length': MAX_SEND_BYTES,
    'grpc.max_concurrent_streams': grpc.maxStreamsPerConnection,
    'grpc.keepalive_time_ms': grpc.keepaliveS * 1_000,
    'grpc.keepalive_timeout_ms': Math.min(grpc.keepaliveS * 1_000, MAX_KEEPALIVE_TIMEOUT_MS),
    'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
  };
}
