/** The file log.db and its schema. */
import type { Migrations } from '../../../shared/storage/open.ts';

export const logFileName = 'log.db';

/** The write-ahead log is checkpointed into the file past this size; larger gains nothing measurable. */
export const walLimitBytes = 4 * 1024 * 1024;

/** Ids reserved ahead, so that an id a live reader has seen is not handed out again after a power cut. */
export const idBlock = 16_384;

export const migrations: Migrations = [
  `
  -- Runs of entries with consecutive ids, first_id to first_id + entries - 1; body as packed.ts says.
  CREATE TABLE blocks (
    first_id INTEGER PRIMARY KEY,
    entries  INTEGER NOT NULL,
    -- Seconds that the service had run, over all its starts, when this was stored: the age that retention counts.
    ran_s    INTEGER NOT NULL,
    -- 0: body as it is; 1: raw deflate.
    codec    INTEGER NOT NULL,
    body     BLOB NOT NULL
  );
  -- Ranges of ids that hold no entry. entries > 0: they could not be stored. entries = 0: never used (unclean stop).
  CREATE TABLE gaps (
    first_id INTEGER PRIMARY KEY,
    last_id  INTEGER NOT NULL,
    entries  INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    from_ms  INTEGER NOT NULL,
    to_ms    INTEGER NOT NULL,
    reason   TEXT NOT NULL
  );
  -- log_id; ceiling_id (no later start hands out an id up to it); removed_to (the last id that retention removed);
  -- ran_ms (how long the service has run, over all its starts); lost_entries and lost_bytes.
  CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
  `,
  // Nothing of the tables above changes: an earlier version can use the file, and shows stamps as they were made.
  `
  -- What the box knew of the time from the entry first_id on, until the next row (segments.ts).
  CREATE TABLE clock_segments (
    first_id      INTEGER PRIMARY KEY,
    -- 0: the clock was not set; 1: it was right; 2: not known; 3: written by a version that knows no segments.
    state         INTEGER NOT NULL,
    boot_id       TEXT NOT NULL,
    -- Wall clock minus the boot's monotonic clock.
    offset_ms     INTEGER NOT NULL,
    -- To be added to the stamps; NULL: not known.
    correction_ms INTEGER
  );
  -- Blocks with entries whose time their caller gave: bit i (of byte i / 8, lowest first) is the entry first_id + i.
  CREATE TABLE given_times (
    first_id INTEGER PRIMARY KEY,
    bits     BLOB NOT NULL
  );
  -- In meta from here on: clock_ceiling_id, the ceiling_id as this version wrote it last. Where they differ, an earlier
  -- version has written entries in between.
  `,
  // Additive again: an earlier version leaves the table as it is, and what it stored or removed in between is found at the
  // next start by the ids. Later tables follow the same pattern, each beside the blocks, with the id of the entry that they belong to
  // or follow.
  `
  -- Index by time: the entries first_id to last_id bear stamps between these, inclusive. Rows follow each other without a
  -- gap; entries after the last row are few. Above 2^53 - 1 a stamp counts as that.
  CREATE TABLE time_ranges (
    first_id     INTEGER PRIMARY KEY,
    last_id      INTEGER NOT NULL,
    -- Of the box's own stamps as they were made, to be corrected as clock_segments says; NULL: there is none.
    own_min_ms   INTEGER,
    own_max_ms   INTEGER,
    -- Of times that callers gave.
    given_min_ms INTEGER,
    given_max_ms INTEGER
  );
  `,
  // Additive again.
  `
  -- What happened to the line beside its traffic (RecordedEvent in lineside.proto), the newest of it.
  CREATE TABLE line_events (
    id        INTEGER PRIMARY KEY,
    -- It happened after this entry, and before the next.
    after_id  INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    by_whom   TEXT NOT NULL,
    detail    TEXT NOT NULL,
    -- By the box's clock, of which the rest says what was known: as in clock_segments.
    at_ms     INTEGER NOT NULL,
    state     INTEGER NOT NULL,
    boot_id   TEXT NOT NULL,
    offset_ms INTEGER NOT NULL
  );
  `,
];
