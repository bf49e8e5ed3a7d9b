/**
 * The schema's version of a file, both ways: a newer program brings the file up, and an older one, after an update was
 * rolled back, goes on with what the newer one made of it wherever that is possible.
 */
import type Database from 'better-sqlite3';
import { LinesideError } from '../base/errors.ts';

/**
 * SQL that takes a database from one version to the next. As plain text it is additive: programs that know only the
 * versions before go on reading and writing the file (new tables; new columns with a default, where no statement names its
 * values by place alone). What is not has to say so, and shuts them out: then an update cannot be rolled back with its data.
 */
type Migration = string | { readonly sql: string; readonly breaksOlder: true };

/** The version is the place in the list, counted from 1. */
export type Migrations = readonly Migration[];

/** In the file beside its version: a program from before this table was thought of refuses every version above its own. */
const readerTable = `
  CREATE TABLE IF NOT EXISTS oldest_reader (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL)`;

/**
 * Brings the file to the newest version known; one that is newer is left as it is. Throws INTERNAL where its contents are
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

/** Throws INTERNAL where a program with these migrations may not open the file. Changes nothing. */
export function checkReadable(connection: Database.Database, migrations: Migrations): void {
  const version = versionOf(connection);
  if (version <= migrations.length) return;
  const oldest = storedReader(connection) ?? version;
  if (oldest <= migrations.length) return;
  throw new LinesideError(
    'INTERNAL',
    `${connection.name} has schema version ${version}, this program knows ${migrations.length}`,
    { hint: 'It was written by a newer lineside: install that version, or move the file away.' },
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
