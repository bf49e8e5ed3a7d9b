/**
 * The schema's version of a file, both ways: a newer program brings the file up, and an older one, after an update was
 * rolled back, continues to use the file of the newer one if that is possible.
 */
import type Database from 'better-sqlite3';
import { LinesideError } from '../base/errors.ts';

/**
 * SQL that takes a database from one version to the next. As plain text it is additive: programs that know only the
 * versions before continue to read and write the file (new tables; new columns with a default, if no statement names its
 * values by position alone). A migration that is not additive is marked and locks them out: such an update cannot be rolled back with its data.
 */
type Migration = string | { readonly sql: string; readonly breaksOlder: true; readonly move?: Move };

/**
 * A migration of many rows. `sql` makes the new tables, and in one transaction each: rows are moved there until the old tables
 * are empty, then `end` removes those. A process that is killed in between continues at its next start. Until the end no
 * program without this migration opens the file, older or newer.
 */
export interface Move {
  /** Upper limit of the bytes by which the file grows, of a file of any version before; only reads. `alive`: called now and then. */
  readonly estimate: (connection: Database.Database, alive: () => void) => Estimate;
  /** Each call moves rows of a bounded number and size; of none: all are moved. */
  readonly batches: (connection: Database.Database) => () => Batch;
  readonly end: string;
}

export interface Estimate {
  /** Still to be moved. */
  readonly rows: number;
  readonly bytes: number;
}

export interface Batch {
  readonly rows: number;
  /** What could not be moved whole, for the log. */
  readonly faults: readonly string[];
}

/** The version of a file that is being moved to version n is this plus n. */
const movingVersion = 1_000_000;

/** The version is the place in the list, counted from 1. */
export type Migrations = readonly Migration[];

/** In the file beside its version: a program from before this table refuses every version above its own. */
const readerTable = `
  CREATE TABLE IF NOT EXISTS oldest_reader (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL)`;

/** Code for a database that another program made. */
export const FILE_FOREIGN = 'FILE_FOREIGN';

class ForeignFileError extends Error {
  readonly code = FILE_FOREIGN;
}

/**
 * Throws FILE_FOREIGN if the file is not this program's: it has tables and no version, lacks a table that every version
 * has, or bears another program's mark. Changes nothing.
 */
export function checkOwn(connection: Database.Database, migrations: Migrations): void {
  const names = connection.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all();
  const mark = Number(connection.pragma('application_id', { simple: true }));
  const isNew = versionOf(connection) === 0 && names.length === 0;
  const isOwn = versionOf(connection) > 0 && firstTables(migrations).every((name) => names.includes(name));
  if (mark === 0 && (isNew || isOwn)) return;
  throw new ForeignFileError(`${connection.name} is the database of another program`);
}

function firstTables([first]: Migrations): string[] {
  return [...beginOf(first).matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name ?? '');
}

/**
 * Brings the file to the newest version known; one that is newer is left as it is. Throws INTERNAL if its contents are
 * beyond what these migrations know.
 */
export function migrate(connection: Database.Database, migrations: Migrations): void {
  for (const _ of migrating(connection, migrations));
}

/** The same in steps: each batch that was moved. Between two of them nothing is open, and the write-ahead log is small. */
export function* migrating(connection: Database.Database, migrations: Migrations): Generator<Batch> {
  checkReadable(connection, migrations);
  const stored = versionOf(connection);
  const isNew = stored === 0;
  for (let version = wholeVersion(stored); version < migrations.length; version++) {
    const ahead = migrations.slice(version);
    const plain = isNew ? -1 : ahead.findIndex((migration) => moveOf(migration) !== undefined);
    const together = plain < 0 ? ahead : ahead.slice(0, plain);
    version += together.length;
    if (together.length > 0) {
      connection.transaction(() => {
        for (const migration of together) connection.exec(sqlOf(migration));
        setVersion(connection, version, oldestReader(migrations.slice(0, version)));
      })();
    }
    const move = moveOf(migrations[version]);
    if (move !== undefined) yield* moving(connection, migrations, version + 1, move);
  }
}

function* moving(connection: Database.Database, migrations: Migrations, version: number, move: Move): Generator<Batch> {
  const half = movingVersion + version;
  if (versionOf(connection) !== half) {
    connection.transaction(() => {
      connection.exec(beginOf(migrations[version - 1]));
      setVersion(connection, half, half);
    })();
  }
  const next = connection.transaction(move.batches(connection));
  for (let batch = next(); batch.rows > 0; batch = next()) {
    connection.pragma('wal_checkpoint(PASSIVE)');
    yield batch;
  }
  connection.transaction(() => {
    connection.exec(move.end);
    setVersion(connection, version, oldestReader(migrations.slice(0, version)));
  })();
}

/** The moves that the file needs, with one that is under way. undefined: no migration locks older programs out. */
export function pendingMoves(connection: Database.Database, migrations: Migrations): readonly Move[] | undefined {
  const pending = migrations.slice(wholeVersion(versionOf(connection)));
  if (pending.every((migration) => typeof migration === 'string')) return undefined;
  return pending.flatMap((migration) => moveOf(migration) ?? []);
}

function moveOf(migration: Migration = ''): Move | undefined {
  return typeof migration === 'string' ? undefined : migration.move;
}

function beginOf(migration: Migration = ''): string {
  return typeof migration === 'string' ? migration : migration.sql;
}

/** For a file in which there is nothing to move. */
function sqlOf(migration: Migration): string {
  return typeof migration === 'string' ? migration : `${migration.sql};${moveOf(migration)?.end ?? ''}`;
}

function setVersion(connection: Database.Database, version: number, reader: number): void {
  connection.exec(readerTable);
  connection.prepare('INSERT OR REPLACE INTO oldest_reader VALUES (1, ?)').run(reader);
  connection.pragma(`user_version = ${version}`);
}

/** The last version that the file has reached. */
function wholeVersion(stored: number): number {
  return stored > movingVersion ? stored - movingVersion - 1 : stored;
}

/** Throws INTERNAL if a program with these migrations may not open the file. Changes nothing. */
export function checkReadable(connection: Database.Database, migrations: Migrations): void {
  const version = versionOf(connection);
  if (version <= migrations.length || moveOf(migrations[version - movingVersion - 1]) !== undefined) return;
  const oldest = storedReader(connection) ?? version;
  if (oldest <= migrations.length) return;
  throw new LinesideError(
    'INTERNAL',
    `${connection.name} has schema version ${version}, this program knows ${migrations.length}`,
    { hint: 'It was written by a newer lineside: install that version, or move the file to another directory.' },
  );
}

export function versionOf(connection: Database.Database): number {
  return Number(connection.pragma('user_version', { simple: true }));
}

/** The version that the last breaking migration led to. */
function oldestReader(migrations: Migrations): number {
  return migrations.findLastIndex((migration) => typeof migration !== 'string') + 1 || 1;
}

function storedReader(connection: Database.Database): number | undefined {
  const exists = connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'oldest_reader'");
  if (exists.get() === undefined) return undefined;
  const version = connection.prepare('SELECT version FROM oldest_reader WHERE one = 1').pluck().get();
  return typeof version === 'number' ? version : undefined;
}
