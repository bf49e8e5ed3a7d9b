/** The SQL of the single values of a log. */
import type { Connection } from '../../shared/storage/open.ts';

type NumberKey = 'ceiling_id' | 'clock_ceiling_id' | 'removed_to' | 'ran_ms' | 'lost_entries' | 'lost_bytes';

export class MetaTable {
  readonly #get;
  readonly #set;

  constructor(connection: Connection) {
    this.#get = connection.prepare<[string], number | string>('SELECT value FROM meta WHERE key = ?').pluck();
    this.#set = connection.prepare<[string, number | string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  }

  /** '' in a file that was just made. */
  get logId(): string {
    return String(this.#get.get('log_id') ?? '');
  }

  set logId(value: string) {
    this.#set.run('log_id', value);
  }

  number(key: NumberKey): number {
    return Number(this.#get.get(key) ?? 0);
  }

  setNumber(key: NumberKey, value: number): void {
    this.#set.run(key, value);
  }

  raise(key: NumberKey, value: number): void {
    if (value > this.number(key)) this.setNumber(key, value);
  }
}
