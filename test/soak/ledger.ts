/**
 * What the log owes: every answer to a caller and every entry shown to a reader, held against what is stored. Throws at
 * the first thing that does not hold.
 */
import assert from 'node:assert/strict';
import { type lineside, serial } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { everythingAfter } from '../e2e/faults.ts';
import { decodeNote, decodeRecord, digest, RecordStream } from './records.ts';

const { RX } = serial.SerialLogEntry.Direction;

/** Of forget(): far more than any reader lags behind. */
const REMEMBERED_IDS = 200_000;

export class Ledger {
  /** By id: a digest of the content, as first seen live or stored. */
  readonly #contents = new Map<number, string>();
  readonly #stored = new Set<number>();
  /** Sender and number of every LogRaw that was answered OK, and whether it was found. */
  readonly #promised = new Map<string, boolean>();
  readonly #lastOf = new Map<string, number>();
  readonly #rx = new RecordStream();
  /** Of the last entry that was found. */
  lastId = 0;
  /** Ids are consecutive within a life of the daemon: each jump is the end of one. */
  jumps = 0;
  readonly #counts = { entries: 0, logRaw: 0, sent: 0, received: 0 };
  /** LogRaw entries in the log whose callers have not been answered, or never were. */
  readonly #unanswered = new Set<string>();
  sentAnswered = 0;

  /** Entries up to this one are not of this campaign. */
  startAfter(id: number): void {
    this.lastId = id;
  }

  get figures() {
    return { ...this.#counts, logRawUnanswered: this.#unanswered.size, sentAnswered: this.sentAnswered };
  }

  /** LogRaw was answered OK. */
  promised(sender: string, number: number): void {
    const key = `${sender} ${number}`;
    this.#promised.set(key, this.#unanswered.delete(key));
  }

  /** A live reader was shown it; it may never be stored, but its id is spent. */
  shown({ id, entry }: lineside.v1.LogEntry.$Properties): void {
    this.#known(Number(id), fingerprint(entry));
  }

  /** The next stored entry in the order of the log. */
  stored({ id: wide, entry }: lineside.v1.LogEntry.$Properties): void {
    const id = Number(wide);
    assert.ok(id > this.lastId, `id ${id} comes after ${this.lastId}`);
    this.#known(id, fingerprint(entry));
    if (id !== this.lastId + 1 && this.lastId > 0) {
      this.jumps += 1;
      this.#rx.cut();
    }
    this.lastId = id;
    this.#stored.add(id);
    this.#counts.entries += 1;
    const data = entry?.rawData ?? new Uint8Array();
    if (entry?.note !== undefined && entry.note !== '')
      this.#logRawEntry(id, entry.note, data, Number(entry.timestamp));
    else if (entry?.dir === RX) this.#receivedEntry(id, data);
    else this.#sentEntry(id, data);
  }

  /** Everything that was stored since the last call; what was promised before this one must be in it. */
  async readOn(client: Client): Promise<readonly lineside.v1.LogEntry.$Properties[]> {
    const owed = [...this.#promised].filter(([, found]) => !found).map(([what]) => what);
    const entries = await everythingAfter(client, this.lastId);
    for (const entry of entries) this.stored(entry);
    const missing = owed.filter((what) => this.#promised.get(what) === false);
    assert.deepEqual(missing, [], 'LogRaw answered OK but not in the log');
    return entries;
  }

  /** Holds after an orderly end only: what a reader was shown is stored. */
  settleShown(): void {
    const missing = [...this.#contents.keys()].filter((id) => !this.#stored.has(id));
    assert.deepEqual(missing, [], 'shown to a reader but not in the log');
  }

  /** In runs of hours: only the latest ids are still held to account. */
  forget(): void {
    for (const [key, found] of this.#promised) if (found) this.#promised.delete(key);
    for (const ids of [this.#contents, this.#stored]) {
      for (const id of ids.keys()) {
        if (ids.size <= REMEMBERED_IDS) break;
        ids.delete(id);
      }
    }
  }

  /** The whole log once more, from its start: all that was ever found in it is still there, and nothing else. */
  again(ids: readonly number[]): void {
    assert.deepEqual(ids, [...this.#stored]);
  }

  #known(id: number, content: string): void {
    const before = this.#contents.get(id);
    assert.ok(before === undefined || before === content, `id ${id} was used for two entries, or was changed`);
    this.#contents.set(id, content);
  }

  #logRawEntry(id: number, note: string, data: Uint8Array, timestamp: number): void {
    const found = decodeNote(note);
    assert.ok(found, `entry ${id} has a torn note: ${note}`);
    assert.equal(digest(data), found.sum, `entry ${id} is torn`);
    assert.equal(timestamp, found.number, `entry ${id} has its own timestamp`);
    this.#inOrder(found.sender, found.number);
    this.#counts.logRaw += 1;
    const key = `${found.sender} ${found.number}`;
    if (this.#promised.has(key)) this.#promised.set(key, true);
    else this.#unanswered.add(key);
  }

  #receivedEntry(id: number, data: Uint8Array): void {
    for (const record of this.#rx.feed(data)) {
      assert.equal(record.sender, 'R', `entry ${id}`);
      this.#inOrder('R', record.number, record.follows);
      this.#counts.received += 1;
    }
  }

  #sentEntry(id: number, data: Uint8Array): void {
    const record = decodeRecord(Buffer.from(data).toString('latin1').replace(/\n$/, ''));
    assert.ok(record, `TX entry ${id} is torn`);
    this.#inOrder(record.sender, record.number);
    this.#counts.sent += 1;
  }

  #inOrder(sender: string, number: number, gapless = false): void {
    const last = this.#lastOf.get(sender) ?? 0;
    if (gapless) assert.equal(number, last + 1, `${sender}: record after ${last}`);
    else assert.ok(number > last, `${sender}: ${number} comes after ${last}`);
    this.#lastOf.set(sender, number);
  }
}

function fingerprint(entry: lineside.v1.LogEntry.$Properties['entry']): string {
  const { dir, timestamp, rawData, note } = entry ?? {};
  return `${dir} ${String(timestamp)} ${note} ${digest(rawData ?? new Uint8Array())}`;
}
