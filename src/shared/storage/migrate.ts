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
type Migration = string | { readonly sql: string; readonly breaksOlder: true };

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

function firstTables([first = '']: Migrations): string[] {
  const sql = typeof first === 'string' ? first : first.sql;
  return [...sql.matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name ?? '');
}

/**
 * Brings the file to the newest version known; one that is newer is left as it is. Throws INTERNAL if its contents are
 * beyond what these migrations know.
 */
export function migrate(connection: Database.Database, migrations: Migrations): void {
  checkReadable(connection, migrations);
  const version = versionOf(connection);
  if (version >= migrations.length) return;
  connection.transaction(() => {
    for (const migration of migrations.slice(version)) {
      connection.exec(typeof migration === 'string' ? migration : migration.sql);
    }
    connection.exec(readerTable);
    connection.prepare('INSERT OR REPLACE INTO oldest_reader VALUES (1, ?)').run(oldestReader(migrations));
    connection.pragma(`user_version = ${migrations.length}`);
  })();
}

/** Throws INTERNAL if a program with these migrations may not open the file. Changes nothing. */
export function checkReadable(connection: Database.Database, migrations: Migrations): void {
  const version = versionOf(connection);
  if (version <= migrations.length) return;
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
