/** The SQL of what is known of the entries' stamps: segments of the clock, and times that callers gave. */
import type { Connection } from '../../shared/storage/open.ts';
import { maxBlockEntries } from './packed.ts';
import { type Segment, Segments } from './segments.ts';

/** Rows kept: a box that is switched on ten times a day without a network makes as many in a year and a half. */
const maxRows = 10_000;

const states = ['unsynced', 'synced', 'unknown', 'unmarked'] as const;

interface SegmentRow {
  first: number;
  state: number;
  boot: string;
  offset: number;
  correction: number | null;
}

export class SegmentTable {
  readonly #put;
  readonly #dropBefore;
  readonly #dropOldest;
  readonly #segments = new Segments();

  constructor(connection: Connection) {
    this.#put = connection.prepare<[number, number, string, number, number | null]>(
      'INSERT OR REPLACE INTO clock_segments VALUES (?, ?, ?, ?, ?)',
    );
    this.#dropBefore = connection.prepare<[number]>(
      `DELETE FROM clock_segments
       WHERE first_id < (SELECT max(first_id) FROM clock_segments WHERE first_id <= ?)`,
    );
    this.#dropOldest = connection.prepare<[number]>(
      `DELETE FROM clock_segments
       WHERE first_id <= (SELECT first_id FROM clock_segments ORDER BY first_id DESC LIMIT 1 OFFSET ?)`,
    );
    const all = connection.prepare<[], SegmentRow>(
      `SELECT first_id AS first, state, boot_id AS boot, offset_ms AS offset, correction_ms AS correction
       FROM clock_segments ORDER BY first_id`,
    );
    this.#segments.replaceAll(all.all().map(segmentOfRow));
  }

  get all(): readonly Segment[] {
    return this.#segments.all;
  }

  get segments(): Segments {
    return this.#segments;
  }

  /** In the order of their ids. Readers see them at once, the file when the caller's transaction is committed. */
  put(segments: readonly Segment[]): void {
    for (const segment of segments) {
      const { firstId, state, bootId, offsetMs, correctionMs } = segment;
      this.#put.run(firstId, states.indexOf(state), bootId, offsetMs, correctionMs ?? null);
      this.#segments.put(segment);
    }
  }

  dropBefore(id: number): void {
    if ((this.#segments.all[1]?.firstId ?? Number.POSITIVE_INFINITY) > id) return;
    this.#dropBefore.run(id);
    this.#segments.dropBefore(id);
  }

  dropSurplus(): void {
    if (this.#segments.all.length <= maxRows) return;
    this.#dropOldest.run(maxRows);
    this.#segments.replaceAll(this.#segments.all.slice(-maxRows));
  }
}

function segmentOfRow({ first, state, boot, offset, correction }: SegmentRow): Segment {
  return {
    firstId: first,
    state: states[state] ?? 'unmarked',
    bootId: boot,
    offsetMs: offset,
    correctionMs: correction ?? undefined,
  };
}

export class GivenTimesTable {
  readonly #put;
  readonly #of;
  readonly #any;
  readonly #dropAfter;
  readonly #dropUpTo;

  constructor(connection: Connection) {
    this.#put = connection.prepare<[number, Uint8Array]>('INSERT OR REPLACE INTO given_times VALUES (?, ?)');
    this.#of = connection.prepare<[number], Buffer>('SELECT bits FROM given_times WHERE first_id = ?').pluck();
    this.#any = connection
      .prepare<[number, number], number>('SELECT 1 FROM given_times WHERE first_id BETWEEN ? AND ? LIMIT 1')
      .pluck();
    this.#dropAfter = connection.prepare<[number]>('DELETE FROM given_times WHERE first_id > ?');
    this.#dropUpTo = connection.prepare<[number]>('DELETE FROM given_times WHERE first_id <= ?');
  }

  put(firstId: number, bits: Uint8Array): void {
    this.#put.run(firstId, bits);
  }

  /** Asked once for a page: most logs have none at all. */
  anyIn(fromId: number, toId: number): boolean {
    return this.#any.get(Math.max(0, fromId - maxBlockEntries), toId) !== undefined;
  }

  bitsOf(firstId: number): Uint8Array | undefined {
    return this.#of.get(firstId);
  }

  dropAfter(id: number): void {
    this.#dropAfter.run(id);
  }

  dropUpTo(id: number): void {
    this.#dropUpTo.run(id);
  }
}
