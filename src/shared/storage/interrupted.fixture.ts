/** A database at each moment of a work on it: as a kill leaves it, and with a statement that fails. */
import { copyFileSync, existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { TestContext } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { type Migrations, migrating } from './migrate.ts';
import type { Connection } from './open.ts';

/** As a kill at this moment leaves it: the files as they are now. */
function copyOf(t: TestContext, path: string): string {
  const copy = join(temporaryDirectory(t), basename(path));
  for (const suffix of ['', '-wal']) if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
  return copy;
}

/** Calls with a copy of each state of the files in which a kill at any statement leaves them. Answers their number until then. */
export function atEachKill(
  t: TestContext,
  path: string,
  connection: Connection,
  call: (copy: string) => void,
): () => number {
  const seen = new Set<string>();
  // Pages that do not fit are in the write-ahead log before their transaction is committed.
  connection.pragma('cache_size = 8');
  aroundStatements(connection, () => {
    const wal = existsSync(`${path}-wal`) ? statSync(`${path}-wal`) : { size: 0, mtimeMs: 0 };
    const state = `${statSync(path).size} ${wal.size} ${wal.mtimeMs}`;
    if (seen.has(state)) return;
    seen.add(state);
    call(copyOf(t, path));
  });
  return () => seen.size;
}

/** Bytes by which the file grows when it is migrated, and those of the write-ahead log at most. */
export function growthBy(migrations: Migrations, path: string, connection: Connection) {
  const from = statSync(path).size;
  let wal = 0;
  for (const _ of migrating(connection, migrations)) wal = Math.max(wal, statSync(`${path}-wal`).size);
  connection.pragma('wal_checkpoint(TRUNCATE)');
  return { growth: statSync(path).size - from, wal };
}

/** Calls before and after each statement that writes. */
export function aroundStatements(connection: Connection, call: () => void): void {
  const prepare = connection.prepare.bind(connection);
  const exec = connection.exec.bind(connection);
  const around = <T>(work: () => T): T => {
    call();
    const done = work();
    call();
    return done;
  };
  connection.exec = (sql) => {
    for (const one of sql.split(/;\n/)) around(() => exec(one));
    return connection;
  };
  const pragma = connection.pragma.bind(connection);
  connection.pragma = (sql, options) => around(() => pragma(sql, options));
  connection.prepare = ((sql: string) => {
    const statement = prepare(sql);
    if (statement.reader) return statement;
    const run = statement.run.bind(statement);
    statement.run = (...values: unknown[]) => around(() => run(...values));
    return statement;
  }) as typeof prepare;
}
