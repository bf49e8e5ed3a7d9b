/** Limits of what a client may use, each with its reason. The limits that a site may change are in the configuration. */

import { MAX_HANDSHAKE_MS } from '../../shared/auth/tls-files.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Request line and headers: a key of 256 code points is 3 KiB in a path; the rest is room for proxies' headers. */
export const MAX_HEADER_BYTES = 16 * KIB;
/** Far beyond what any client sends; each costs an entry in three maps. */
export const MAX_HEADERS = 100;
/** No route knows more than a handful. */
export const MAX_QUERY_PARAMETERS = 32;
/** Top-level fields of a body: no route knows more than a handful, and each unknown one is reported. */
export const MAX_BODY_FIELDS = 100;
/** Items of a list in a body: twice what any route takes, so that a list slightly too long is reported with the other faults. 250,000 items block the hub for a second. */
export const MAX_BODY_ITEMS = 20_000;
/** RFC 9110 sets none; long enough for UUIDs and trace ids, short enough for a log line. */
export const MAX_REQUEST_ID_CHARS = 128;

/**
 * Requests of one connection that have no answer yet; the next one closes the connection. Clients that pipeline send a few
 * (browsers none); 12,000 in 384,000 bytes once filled the memory of the unit.
 */
export const MAX_UNANSWERED = 16;

/** A request of 16 KiB takes 13 s at 9,600 bit/s, slower than any link. */
const MAX_HEADERS_MS = 15_000;
/** How long an idle connection is kept: browsers and pools use it again within seconds. */
const MAX_KEEP_ALIVE_MS = 60_000;
/** A client that reads nothing of its answer for so long is taken as disconnected. */
const MAX_STALLED_MS = 30_000;
/** How often Node checks for requests past their limits; late by so much at most. */
export const LIMITS_CHECK_MS = 1_000;

/** None is longer than what http.request_timeout_ms gives a whole request. */
export function timeLimits(requestTimeoutMs: number) {
  return {
    handshakeMs: Math.min(MAX_HANDSHAKE_MS, requestTimeoutMs),
    headersMs: Math.min(MAX_HEADERS_MS, requestTimeoutMs),
    keepAliveMs: Math.min(MAX_KEEP_ALIVE_MS, requestTimeoutMs),
    stalledMs: Math.min(MAX_STALLED_MS, requestTimeoutMs),
  };
}

/**
 * Announced bytes of the bodies in memory: 256 connections with 1 MiB each would be a quarter of a small box's memory.
 * A single body is accepted whatever its size.
 */
export const MAX_BODIES_BYTES = 16 * MIB;
/** The rest of a refused body is read and dropped for so long, so that the client can read its answer. */
export const LINGER_MS = 5_000;

/** Faults of one body that are listed; the others are counted. */
export const MAX_REASONS = 1_000;
/** Characters of what a client wrote that an answer quotes. */
export const MAX_QUOTED_CHARS = 60;

export const DEFAULT_PAGE = 100;
export const MAX_PAGE = 1_000;
export const MAX_BULK_CLOSE_KEYS = 10_000;
/** Of a list that a webhook subscription filters by. */
export const MAX_FILTER_ITEMS = 1_000;

/** Requests in progress have so long to finish when the service stops. */
export const STOP_GRACE_MS = 5_000;

/** The longest hold of the event loop is measured over the last one to two of these. */
export const HOLD_WINDOW_MS = 60_000;

/** The line answers what it knows in milliseconds, or something is wrong with it. */
export const LINE_ANSWER_MS = 5_000;
/** Beyond the 10 s after which the line gives up a histogram of its log. */
export const LINE_HISTOGRAM_MS = 15_000;
/** Beyond the 10 s that a port may take to open, and the 2 s of one that is closed before. */
export const LINE_CHANGE_MS = 15_000;
/** Above the line's own limit (serial.write_timeout_ms, ten minutes at most), which is to apply first. */
export const LINE_SEND_MS = 660_000;
/** Entries of one page of the log; each is a line of some hundred bytes. */
export const MAX_LOG_ENTRIES = 5_000;
/**
 * Streams of the log open at a time, each at most a batch of the line in memory (64 KiB of entries, or one of 1 MiB).
 * Followers are browser windows: a few people, a few windows each. A page completes, however slow the link is.
 */
export const LOG_STREAMS = {
  follow: { inAll: 16, perReader: 4 },
  page: { inAll: 8, perReader: 4 },
  /** A person types in one, and looks at another. */
  terminal: { inAll: 8, perReader: 4 },
} as const;
/** A reader may take a stream as broken that is silent for longer than this plus the time of the line's answer. */
export const STREAM_ALIVE_MS = 2_000;
/** How long a revoked token may still read, plus the second of the tokens' reader. */
export const STREAM_REAUTHENTICATE_MS = 8_000;
/**
 * A client that reads nothing of the log for so long is taken as disconnected. The kernel takes more only when a third of its
 * buffer is free: with 200 KB on a link of 9,600 bit/s that is after a minute.
 */
export const SLOW_STALLED_MS = 300_000;
/** Written at a time: large enough to amortise a write, small enough to hold little for a slow link. */
export const STREAM_PIECE_BYTES = 16 * KIB;

/** Time from a terminal's ticket to its WebSocket: a browser needs one request in between, on the slowest link. */
export const TERMINAL_TICKET_MS = 30_000;
/** Tickets that wait to be used. A page needs one at a time; beyond that, the next caller is refused until one is used or expires. */
export const MAX_TERMINAL_TICKETS = 64;
/** One message of a terminal, which is one packet of the line. A page pastes in smaller ones. */
export const MAX_TERMINAL_MESSAGE_BYTES = 16 * KIB;
/**
 * What a terminal has sent that the line has not answered, in bytes and in messages: beyond either, its WebSocket is not read.
 * The line itself takes 64 requests of a session at a time.
 */
export const MAX_TERMINAL_UNANSWERED = { bytes: 64 * KIB, messages: 64 } as const;
/** Bytes for a client that does not read; beyond that, its WebSocket is not read either. Received bytes wait in the line. */
export const MAX_TERMINAL_BUFFERED_BYTES = 64 * KIB;
/** Received entries of the log that a terminal begins with: some screens of text. */
export const TERMINAL_SCROLLBACK_ENTRIES = 200;
/** Between two pings of a terminal's client, which take part of a second. The page counts as disconnected without a sign for three. */
export const TERMINAL_PING_MS = 5_000;
/** Pings without an answer after which the client counts as disconnected. */
export const TERMINAL_LOST_PINGS = 3;

/** With the compressed copies. The console has some MiB; one file is in memory at a time when they are listed. */
export const MAX_CONSOLE_BYTES = 8 * MIB;
