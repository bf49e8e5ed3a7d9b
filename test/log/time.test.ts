/** Stamps made before the time was known, on a real file: marked, corrected once it is, over restarts and kills. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import type { LogEntry } from '../../src/line/log/entry.ts';
import type { RecordedEvent, TimeSource, TimeState } from '../../src/line/log/log-api.ts';
import { openSerialLog, type SerialLog, type SerialLogOptions } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { idsOf, newEntry, openLog, optionsFor, readAll, textsOf } from './support.ts';

const { Kind } = lineside.v1.RecordedEvent;

/** Wall clock minus the boot's clock, once it is right. */
const TRUE_OFFSET_MS = 1_800_000_000_000;
/** Where the clock of a box without a battery begins. */
const GUESS_MS = 1_700_000_000_000;

/** A boot of a box: its own clock, the wall clock by an offset from it, and what is known of that. */
class Boot implements TimeSource {
  readonly bootId: string;
  bootMs = 10_000;
  #offset: number;
  #state: TimeState;
  #calls: (() => void)[] = [];

  constructor(bootId: string, state: TimeState = 'unsynced', offset = GUESS_MS) {
    this.bootId = bootId;
    this.#state = state;
    this.#offset = offset;
  }

  state(): TimeState {
    return this.#state;
  }
  offsetMs(): number {
    return this.#offset;
  }
  onChange(call: () => void): void {
    this.#calls.push(call);
  }
  /** The wall clock steps; time sync reports it later, or never. */
  set(offset: number): void {
    this.#offset = offset;
  }
  sync(offset = TRUE_OFFSET_MS): void {
    this.#offset = offset;
    this.become('synced');
  }
  become(state: TimeState): void {
    this.#state = state;
    for (const call of this.#calls) call();
  }
  /** The service is started again: listeners of the run before are gone. */
  restarted(): this {
    this.#calls = [];
    return this;
  }
  get wallMs(): number {
    return this.bootMs + this.#offset;
  }
  /** An entry of the line, a second after the one before; its text is its true time. */
  record(log: SerialLog, count = 1): void {
    for (let i = 0; i < count; i++) {
      this.bootMs += 1_000;
      log.record(i % 2 === 0 ? 1 : 0, this.wallMs, Buffer.from(String(this.bootMs + TRUE_OFFSET_MS)));
    }
  }
}

const opened = (t: TestContext, dir: string, time: Boot, changes: Partial<SerialLogOptions> = {}): Promise<SerialLog> =>
  openLog(t, dir, { time, ...changes });

function assertTrue(entries: readonly LogEntry[]): void {
  assert.deepEqual(
    entries.map(({ timestampMs }) => String(timestampMs)),
    textsOf(entries),
  );
}

const clocksOf = (entries: readonly LogEntry[]): (string | undefined)[] => entries.map(({ clock }) => clock);

test('entries from before are marked, then corrected: from the tail, from the file, in filters, and after a restart', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  for (const tailBytes of [1, 1_000_000]) {
    const log = await opened(t, temporaryDirectory(t), boot.restarted(), { tailBytes });
    boot.become('unsynced');
    boot.set(GUESS_MS);
    boot.record(log, 5);
    await log.store(newEntry(String(boot.wallMs), { timestampMs: boot.wallMs }));
    const before = (await readAll(log)).entries;
    assert.deepEqual(new Set(clocksOf(before)), new Set(['notSet']));
    assert.equal(Number(before[0]?.timestampMs), Number(textsOf(before)[0]) - TRUE_OFFSET_MS + GUESS_MS);
    boot.sync();
    boot.record(log, 3);
    const { entries } = await readAll(log);
    assertTrue(entries.filter(({ id }) => id !== 6));
    assert.deepEqual(clocksOf(entries), [...Array(6).fill('corrected'), 'known', 'known', 'known']);
    assert.deepEqual(
      entries.map(({ uncorrectedMs }) => uncorrectedMs),
      [...before.map(({ timestampMs }) => timestampMs), undefined, undefined, undefined],
    );
    await log.close();
  }
  boot.restarted().become('unsynced');
  boot.set(GUESS_MS);
  const first = await opened(t, dir, boot);
  boot.record(first, 6);
  boot.sync();
  await first.close();
  const second = await opened(t, dir, new Boot('b', 'unknown'));
  const { entries } = await readAll(second);
  assert.deepEqual(new Set(entries.map(({ id }) => second.bootAt(id))), new Set(['a']));
  boot.record(second);
  assert.equal(second.bootAt((await second.status()).headId), 'b');
  assertTrue(entries);
  const [, , third] = entries;
  const filtered = await readAll(second, {
    sinceMs: Number(third?.timestampMs),
    untilMs: Number(third?.timestampMs) + 1_001,
  });
  assert.deepEqual(idsOf(filtered.entries), [3, 4]);
  assert.deepEqual(idsOf((await readAll(second, { untilMs: GUESS_MS + 1_000_000 })).entries), []);
});

test('the clock is set by hand before the time is known: each stamp is corrected by what it was off', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  const log = await opened(t, dir, boot);
  boot.record(log, 2);
  boot.set(GUESS_MS + 86_400_000);
  boot.record(log, 2);
  boot.set(GUESS_MS - 86_400_000);
  boot.record(log, 2);
  // Time sync sets the clock, and reports it when entries have the right time already.
  boot.set(TRUE_OFFSET_MS);
  boot.record(log, 2);
  boot.sync();
  boot.record(log, 2);
  await log.close();
  const again = await opened(t, dir, new Boot('b', 'unknown'));
  const { entries } = await readAll(again);
  assertTrue(entries);
  assert.deepEqual(clocksOf(entries), [...Array(6).fill('corrected'), ...Array(4).fill('known')]);
});

test("times that callers gave are left alone and unmarked, among the line's own, before and after", async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  const log = await opened(t, dir, boot, { tailBytes: 1 });
  for (let i = 0; i < 20; i++) {
    boot.record(log);
    if (i % 3 === 0) await log.store(newEntry('given', { dir: 0, timestampMs: 42 + i, timeGiven: true }));
  }
  boot.sync();
  await until('the clock is corrected', () => readAll(log).then(({ entries }) => entries[0]?.clock === 'corrected'));
  const restarted = async (): Promise<SerialLog> => {
    await log.close();
    return opened(t, dir, new Boot('b'));
  };
  for (const open of [async () => log, restarted]) {
    const reader = await open();
    const { entries } = await readAll(reader);
    const given = entries.filter(({ data }) => Buffer.from(data).toString() === 'given');
    assert.deepEqual(
      given.map(({ timestampMs, clock, dir: direction }) => [timestampMs, clock, direction]),
      [0, 3, 6, 9, 12, 15, 18].map((i) => [42 + i, undefined, 0]),
    );
    assertTrue(entries.filter((entry) => !given.includes(entry)));
    assert.deepEqual(idsOf((await readAll(reader, { sinceMs: 42, untilMs: 43 })).entries), [2]);
  }
});

test('the state of the time is unknown: nothing is marked; once the time is known, it is corrected', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a', 'unknown');
  const log = await opened(t, dir, boot);
  boot.record(log, 3);
  assert.deepEqual(clocksOf((await readAll(log)).entries), [undefined, undefined, undefined]);
  boot.become('unsynced');
  boot.record(log);
  boot.sync();
  const { entries } = await readAll(log);
  assertTrue(entries);
  assert.deepEqual(new Set(clocksOf(entries)), new Set(['corrected']));
});

test('a log that cannot be opened at first: what was stamped meanwhile is corrected all the same', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  const first = await opened(t, dir, boot);
  boot.record(first, 2);
  await first.close();
  const time = boot.restarted();
  const opening = openSerialLog(optionsFor(dir, { time }));
  boot.sync();
  const log = await opening;
  t.after(() => log.close());
  boot.record(log, 2);
  const { entries } = await readAll(log);
  assertTrue(entries);
});

test('an earlier version uses the file in between: its entries are not marked, and not corrected with those before', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  const first = await opened(t, dir, boot);
  boot.record(first, 2);
  await first.store(newEntry('given', { dir: 0, timestampMs: 7, timeGiven: true }));
  await first.close();
  asEarlierVersion(dir, (connection) => {
    // As it reads: directions and lengths mean what they did, one block after the other.
    const bodies = connection.prepare('SELECT body, entries FROM blocks').all() as { body: Buffer; entries: number }[];
    const dirs = bodies.flatMap(({ body, entries }) => [...body.subarray(16 * entries, 17 * entries)]);
    assert.deepEqual(dirs, [1, 0, 0]);
    // As it writes: one entry, of this stamp, then a clean stop.
    const body = Buffer.alloc(18);
    body.writeUInt32LE(1_000, 4);
    body.writeUInt32LE(1, 8);
    body[16] = 1;
    body.write('o', 17);
    connection.prepare('INSERT INTO blocks VALUES (?, ?, ?, ?, ?)').run(4, 1, 0, 0, body);
    connection.prepare("INSERT OR REPLACE INTO meta VALUES ('ceiling_id', 4)").run();
  });
  boot.restarted().sync();
  const second = await opened(t, dir, boot);
  boot.record(second);
  const { entries } = await readAll(second);
  assert.deepEqual(clocksOf(entries), ['corrected', 'corrected', undefined, undefined, 'known']);
  assert.deepEqual([entries[2]?.timestampMs, entries[3]?.timestampMs], [7, 1_000]);
});

test('events of the line have their place and their time: corrected as entries are, after a restart too; the newest 10,000 stay', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a');
  const clock = { ...systemClock, wallMs: () => boot.wallMs };
  const first = await opened(t, dir, boot, { clock });
  first.event(Kind.OPENED, 'before any entry');
  boot.record(first, 2);
  first.event(Kind.HOLD_BEGUN, '', 'alice');
  boot.record(first);
  const stored = (log: SerialLog, beforeId = Number.MAX_SAFE_INTEGER, limit = 100) => log.events({ beforeId, limit });
  await until('they are stored', async () => (await stored(first)).length === 2);
  const shown = (event: RecordedEvent | undefined) => [event?.id, event?.afterEntryId, event?.by, event?.clock];
  assert.deepEqual((await stored(first)).map(shown), [
    [1, 0, '', 'notSet'],
    [2, 2, 'alice', 'notSet'],
  ]);
  boot.sync();
  const heldAtMs = boot.wallMs - 1_000;
  assert.deepEqual(shown((await stored(first))[1]), [2, 2, 'alice', 'corrected']);
  await first.close();
  const again = await opened(t, dir, new Boot('b', 'synced', TRUE_OFFSET_MS), { clock });
  assert.equal((await stored(again))[1]?.timestampMs, heldAtMs);
  assert.deepEqual((await stored(again, 2)).map(shown), [[1, 0, '', 'corrected']]);
  for (let n = 3; n <= 10_010; n++) {
    again.event(Kind.LOST, String(n));
    if (n % 1_000 === 0) await until('room', async () => (await stored(again, undefined, 1))[0]?.id === n);
  }
  await again.close();
  const last = await opened(t, dir, new Boot('b', 'synced', TRUE_OFFSET_MS), { clock });
  const all = await stored(last, undefined, 20_000);
  assert.deepEqual([all.length, all[0]?.detail, all.at(-1)?.detail], [10_000, '11', '10010']);
});

test('a file without marks is read as it was, and continues with marks', async (t) => {
  const dir = temporaryDirectory(t);
  const before = await openLog(t, dir);
  before.record(1, 5_000, Buffer.from('old'));
  await before.close();
  asEarlierVersion(dir, (connection) => {
    connection.exec(
      'DROP TABLE clock_segments; DROP TABLE given_times; DROP TABLE time_ranges; DROP TABLE line_events',
    );
    connection.exec('DROP TABLE oldest_reader');
    connection.exec("DELETE FROM meta WHERE key = 'clock_ceiling_id'");
    connection.pragma('user_version = 1');
  });
  const boot = new Boot('a');
  const log = await opened(t, dir, boot);
  boot.record(log);
  boot.sync();
  const { entries } = await readAll(log);
  assert.deepEqual(clocksOf(entries), [undefined, 'corrected']);
  assert.equal(entries[0]?.timestampMs, 5_000);
  assertTrue(entries.slice(1));
});

test('retention removes marks that no entry needs any more', async (t) => {
  const dir = temporaryDirectory(t);
  for (let round = 0; round < 6; round++) {
    const boot = new Boot(`boot-${round}`);
    const log = await opened(t, dir, boot, { maxBytes: 300_000 });
    for (let i = 0; i < 5; i++) log.record(1, boot.wallMs, randomBytes(30_000));
    await log.store(newEntry('given', { timeGiven: true }));
    await log.close();
  }
  const connection = new Database(join(dir, 'log.db'), { readonly: true });
  const oldest = Number(connection.prepare('SELECT min(first_id) FROM blocks').pluck().get());
  const segments = connection
    .prepare('SELECT first_id FROM clock_segments ORDER BY first_id')
    .pluck()
    .all()
    .map(Number);
  const given = Number(connection.prepare('SELECT min(first_id) FROM given_times').pluck().get());
  connection.close();
  assert.ok(oldest > 6, 'nothing was removed: is the log too small?');
  assert.equal(segments.filter((id) => id <= oldest).length, 1, `${segments.join()} before ${oldest}`);
  assert.ok(given >= oldest, `${given} before ${oldest}`);
});

test('a commit costs no more bytes for it: a segment is one row, and a steady log has no others', async (t) => {
  const dir = temporaryDirectory(t);
  const boot = new Boot('a', 'synced', TRUE_OFFSET_MS);
  for (let run = 0; run < 5; run++) {
    const log = await opened(t, dir, boot.restarted());
    boot.record(log, 500);
    await log.close();
  }
  const connection = new Database(join(dir, 'log.db'), { readonly: true });
  const rows = (table: string): unknown => connection.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
  assert.deepEqual([rows('clock_segments'), rows('given_times')], [1, 0]);
  connection.close();
});

function asEarlierVersion(dir: string, act: (connection: Database.Database) => void): void {
  const connection = new Database(join(dir, 'log.db'));
  try {
    act(connection);
  } finally {
    connection.close();
  }
}
