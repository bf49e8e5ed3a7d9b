/**
 * SQLite gives no page back to the file system. When log.db is larger than it may be (the limit was lowered, an earlier
 * version let it grow), what it holds is copied into a new file, a step at a time beside the commits, which then takes its
 * name. Works for a file of any version, and costs nothing while the size fits.
 */

import { renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { syncPath } from '../../../shared/base/files.ts';
import { companions } from '../../../shared/storage/database-files.ts';
import type { Connection } from '../../../shared/storage/open.ts';

/** Of a step: twice what a commit can add, so that the copy catches up also in a flood. */
const stepBlocks = 500;
const stepBytes = 2 * 1024 * 1024;

export class SmallerFile {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #ahead;
  readonly #copy;
  #copiedTo = 0;

  /** Begins an empty file with the same tables. */
  constructor(connection: Connection) {
    this.#connection = connection;
    this.#path = `${connection.name}.smaller`;
    removeSmallerFile(connection.name);
    this.#begin();
    connection.prepare('ATTACH ? AS smaller').run(this.#path);
    // It counts only once it is complete, and is synced then.
    connection.pragma('smaller.synchronous = OFF');
    connection.pragma('smaller.journal_mode = MEMORY');
    this.#ahead = connection.prepare<[number, number], { first: number; bytes: number }>(
      'SELECT first_id AS first, length(body) AS bytes FROM main.blocks WHERE first_id > ? ORDER BY first_id LIMIT ?',
    );
    this.#copy = connection.prepare<[number, number]>(
      'INSERT INTO smaller.blocks SELECT * FROM main.blocks WHERE first_id > ? AND first_id <= ?',
    );
  }

  /** Copies some blocks; false: there are no more. */
  step(): boolean {
    let bytes = 0;
    let upTo = this.#copiedTo;
    for (const row of this.#ahead.iterate(this.#copiedTo, stepBlocks)) {
      upTo = row.first;
      bytes += row.bytes;
      if (bytes >= stepBytes) break;
    }
    if (upTo === this.#copiedTo) return false;
    this.#copy.run(this.#copiedTo, upTo);
    this.#copiedTo = upTo;
    return true;
  }

  /** Puts the new file in the place of the old one, once `close` has closed that; false: another program reads the old one, which stays. */
  replaceOriginal(close: () => void): boolean {
    try {
      this.#copyRest();
    } catch (error) {
      this.discard();
      throw error;
    }
    const connection = this.#connection;
    // Nothing may be left for the new file to find in a write-ahead log of the old one.
    const busy = Number(connection.pragma('main.wal_checkpoint(TRUNCATE)', { simple: true }));
    this.#detach();
    if (busy !== 0) {
      removeSmallerFile(connection.name);
      return false;
    }
    syncPath(this.#path);
    close();
    for (const suffix of ['-wal', '-shm']) rmSync(connection.name + suffix, { force: true });
    renameSync(this.#path, connection.name);
    syncPath(dirname(connection.name));
    return true;
  }

  discard(): void {
    this.#detach();
    removeSmallerFile(this.#connection.name);
  }

  #begin(): void {
    const file = new Database(this.#path);
    try {
      file.pragma(`page_size = ${Number(this.#connection.pragma('page_size', { simple: true }))}`);
      const tables = this.#connection
        .prepare<[], string>("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
        .pluck()
        .all();
      for (const sql of tables) file.exec(sql);
      file.pragma(`user_version = ${Number(this.#connection.pragma('user_version', { simple: true }))}`);
    } finally {
      file.close();
    }
  }

  /** The other tables, a small part of the whole, and without what retention removed meanwhile. */
  #copyRest(): void {
    const connection = this.#connection;
    const names = connection
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all();
    connection.transaction(() => {
      for (const name of names.filter((one) => one !== 'blocks')) {
        connection.exec(`INSERT INTO smaller."${name}" SELECT * FROM main."${name}"`);
      }
      connection.exec(
        'DELETE FROM smaller.blocks WHERE first_id < (SELECT coalesce(min(first_id), 1 << 53) FROM main.blocks)',
      );
    })();
  }

  #detach(): void {
    this.#connection.exec('DETACH smaller');
  }
}

/** What a stop in between left. */
export function removeSmallerFile(path: string): void {
  for (const suffix of [...companions, '-journal']) rmSync(`${path}.smaller${suffix}`, { force: true });
}
