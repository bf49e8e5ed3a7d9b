/** The collector's limits, each with the reason for its size. Pure. */

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * A batch, encoded, after decompression. gRPC's own default for a server: a collector of another
 * maker needs no setting. The largest entry of a log is 1 MiB.
 */
export const MAX_BATCH_BYTES = 4 * MIB;
/**
 * Parts of a batch, counted before any of them is decoded: 4 MiB could be two million empty entries, a hundred times their
 * size as objects. 4 MiB of full ones, with 12 bytes of line each, stay below it.
 */
export const MAX_ENTRIES = 65_536;
export const MAX_GAPS = 4_096;
export const MAX_CORRECTIONS = 4_096;

/** device_id and log_id, as the schema has it. */
export const MAX_ID_CHARS = 128;
/** A boot id is a UUID of 36; another form has room. */
export const MAX_BOOT_ID_CHARS = 128;
/** As LogRaw's note: a remark, not a document. */
export const MAX_REASON_CHARS = 4_096;

/** Pushes at a time: each holds a batch or two. One a device, so this many boxes at the same moment. */
export const MAX_PUSHES = 256;
/** Connections at a time; an idle box keeps one. 0.2 MB each over TLS. */
export const MAX_CONNECTIONS = 1_024;
/** Of one connection: a push and a call for the position, twice. */
export const MAX_STREAMS = 4;
/** Between two batches of one push: long enough for the largest over a slow radio link (56 kbit/s) in its time, but bounded. */
export const PUSH_IDLE_MS = 10 * 60_000;
/** An open push whose token was revoked ends within this. */
export const REAUTHENTICATE_MS = 5_000;

/** Logs of one device: each replaced card or damaged file begins another one. */
export const MAX_LOGS_A_DEVICE = 1_000;
/** Directories of devices, if no tokens limit them. */
export const MAX_DEVICES = 10_000;
/** Logs held open, a file descriptor each; the least recently used one is closed. */
export const MAX_OPEN_LOGS = 512;

/** A new file after so much: small enough to be read at a start, and to be archived one by one. */
export const SEGMENT_BYTES = 64 * MIB;
/** Written and not yet flushed: what a box sends again after a power failure. */
export const MAX_UNSYNCED_BYTES = 8 * MIB;

/** A peer that is gone is noticed within this and the timeout. Rarely: a box on a metered link pays for each. */
export const KEEPALIVE_MS = 2 * 60_000;
export const KEEPALIVE_TIMEOUT_MS = 20_000;
/** A connection without any call for so long is closed: boxes reconnect automatically. */
export const MAX_CONNECTION_IDLE_MS = 15 * 60_000;
/** Grace of open pushes at a stop. */
export const STOP_GRACE_MS = 2_000;
/** ... and the disk. */
export const STORE_STOP_MS = 30_000;
