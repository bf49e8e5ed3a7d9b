/**
 * What the hub owes: every change that was asked for, how it was answered, and what of it is found in refdata.db and on
 * the topics. Each change carries a name of its own as its changeReason. Throws at the first thing that does not hold.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import type { TopicMessage } from '../e2e/outbox-reader.ts';

/** One version of a record, as the database has it and as its event has it. */
export interface Version {
  readonly dictionary: string;
  readonly businessKey: string;
  readonly version: number;
  readonly action: string;
  readonly validFrom: string;
  readonly validTo: string;
  readonly txTime: string;
  readonly changedBy: string;
  readonly changeReason: string;
  /** JSON */
  readonly data: string;
}

interface Asked {
  /** "dictionary:key" of everything it was to change. */
  readonly targets: readonly string[];
  outcome: 'unanswered' | 'answered' | 'refused';
  /** Of the answer; '' where there was none. */
  txTime: string;
  /** Whether it was found in the database; undefined: not looked yet. */
  stored: boolean | undefined;
}

export class OutboxLedger {
  readonly #asked = new Map<string, Asked>();
  /** Those whose fate is not settled. */
  readonly #open = new Set<string>();
  /** By "dictionary:key version": a digest of all that the version says. */
  readonly #versions = new Map<string, string>();
  readonly #txTimes = new Set<string>();
  #lastTxTime = '';

  get lastTxTime(): string {
    return this.#lastTxTime;
  }

  get figures() {
    const all = [...this.#asked.values()];
    const count = (outcome: Asked['outcome']): number => all.filter((one) => one.outcome === outcome).length;
    return {
      asked: all.length,
      answered: count('answered'),
      refused: count('refused'),
      unanswered: count('unanswered'),
      unansweredButStored: all.filter(({ outcome, stored }) => outcome === 'unanswered' && stored === true).length,
      versions: this.#versions.size,
    };
  }

  /** A change is about to be asked for; it counts as unanswered until something is heard. */
  ask(name: string, targets: readonly string[]): void {
    assert.ok(!this.#asked.has(name), `${name} is asked for once`);
    this.#asked.set(name, { targets, outcome: 'unanswered', txTime: '', stored: undefined });
    this.#open.add(name);
  }

  answered(name: string, txTime: string): void {
    assert.notEqual(txTime, '', `${name} was answered without its txTime`);
    this.#heard(name, 'answered', txTime);
  }

  refused(name: string): void {
    this.#heard(name, 'refused', '');
  }

  /** While there are no writes: `fresh` are the versions after lastTxTime. Settles every change that was requested so far. */
  settle(fresh: readonly Version[]): void {
    const transactions = Map.groupBy(fresh, ({ changeReason }) => changeReason);
    for (const [name, versions] of transactions) this.#found(name, versions);
    for (const name of this.#open) {
      const asked = this.#of(name);
      asked.stored = transactions.has(name);
      if (asked.outcome === 'answered') assert.ok(asked.stored, `${name} was answered and is not in the database`);
      if (asked.outcome === 'refused') assert.ok(!asked.stored, `${name} was refused and is in the database`);
    }
    this.#open.clear();
    this.know(fresh);
  }

  /** Versions that the database has, also those that no writer requested. */
  know(versions: readonly Version[]): void {
    for (const version of versions) {
      this.#versions.set(nameOf(version), digestOf(version));
      if (version.txTime > this.#lastTxTime) this.#lastTxTime = version.txTime;
    }
  }

  /** All versions of the database once more: nothing that was ever found has gone or changed. */
  again(all: readonly Version[]): void {
    assert.equal(all.length, this.#versions.size, 'versions in the database');
    for (const version of all) assert.equal(this.#versions.get(nameOf(version)), digestOf(version), nameOf(version));
  }

  /** Everything on the topics is in the database, and all of that is on the topics. Answers how many came twice. */
  published(messages: Iterable<Pick<TopicMessage, 'event'>>): number {
    const found = new Set<string>();
    let duplicates = 0;
    for (const { event } of messages) {
      const version = { ...event, data: JSON.stringify(event.data) };
      const name = nameOf(version);
      assert.equal(digestOf(version), this.#versions.get(name), `${name} on a topic is as it is in the database`);
      if (found.has(name)) duplicates++;
      found.add(name);
    }
    const missing = [...this.#versions.keys()].filter((name) => !found.has(name));
    assert.deepEqual(missing, [], 'committed and on no topic');
    return duplicates;
  }

  /** One transaction of the database: all of what was asked for under its name, at a time of its own. */
  #found(name: string, versions: readonly Version[]): void {
    const asked = this.#asked.get(name);
    assert.ok(asked, `${name}: no writer requested this`);
    assert.ok(this.#open.has(name), `${name} appears after it was settled`);
    const [txTime = '', ...others] = new Set(versions.map((version) => version.txTime));
    assert.deepEqual(others, [], `${name} has one txTime`);
    assert.ok(!this.#txTimes.has(txTime), `${txTime} is one transaction's`);
    this.#txTimes.add(txTime);
    assert.ok(txTime > this.#lastTxTime, `${txTime} of ${name} comes after ${this.#lastTxTime}`);
    const changed = versions.map(({ dictionary, businessKey }) => `${dictionary}:${businessKey}`);
    assert.deepEqual(changed.sort(), [...asked.targets].sort(), `${name} is there whole`);
    if (asked.outcome === 'answered') assert.equal(txTime, asked.txTime, `${name} has the txTime of its answer`);
  }

  #heard(name: string, outcome: 'answered' | 'refused', txTime: string): void {
    Object.assign(this.#of(name), { outcome, txTime });
  }

  #of(name: string): Asked {
    const asked = this.#asked.get(name);
    assert.ok(asked, `${name} was never asked for`);
    return asked;
  }
}

function nameOf({ dictionary, businessKey, version }: Version): string {
  return `${dictionary}:${businessKey} ${version}`;
}

function digestOf(of: Version): string {
  const { action, validFrom, validTo, txTime, changedBy, changeReason } = of;
  const data: unknown = JSON.parse(of.data);
  const said = [nameOf(of), action, validFrom, validTo, txTime, changedBy, changeReason, data];
  return createHash('sha1').update(JSON.stringify(said)).digest('base64');
}

/** Read beside the hub, from the file itself. Only those dictionaries that the test made. */
export function storedVersions(path: string, afterTxTime = ''): Version[] {
  return rowsOf<Version>(
    path,
    `WITH RECURSIVE versions (dictionary_id, business_key, id) AS (
           SELECT dictionary_id, business_key, newest_id FROM records
           UNION ALL SELECT dictionary_id, business_key, previous_id FROM versions JOIN record_versions USING (id)
           WHERE previous_id IS NOT NULL)
         SELECT d.name AS dictionary, r.business_key AS businessKey, v.version, v.action, v.valid_from AS validFrom,
           v.valid_to AS validTo, v.tx_time AS txTime, v.changed_by AS changedBy, v.change_reason AS changeReason, v.data
         FROM versions r JOIN record_versions v USING (id) JOIN dictionaries d ON d.id = r.dictionary_id
         WHERE v.tx_time > ? AND d.name NOT LIKE 'device.%' ORDER BY v.tx_time`,
    afterTxTime,
  );
}

export function rowsOf<Row>(path: string, sql: string, ...values: readonly unknown[]): Row[] {
  const file = new Database(path, { readonly: true, fileMustExist: true, timeout: 5_000 });
  try {
    return file.prepare<unknown[], Row>(sql).all(...values);
  } finally {
    file.close();
  }
}
