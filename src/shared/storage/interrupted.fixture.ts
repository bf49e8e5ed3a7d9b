/** A database at each moment of a work on it: as a kill leaves it, and with a statement that fails. */
import { copyFileSync, existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { TestContext } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import type { Connection } from './open.ts';

/** As a kill at this moment leaves it: the files as they are now. */
export function copyOf(t: TestContext, path: string): string {
  const copy = join(temporaryDirectory(t), basename(path));
  for (const suffix of ['', '-wal']) if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
  return copy;
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
