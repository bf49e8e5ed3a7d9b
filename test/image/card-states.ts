/**
 * What a card holds when the power goes: the log of its writes replayed up to each flush, and the data partition of each
 * state mounted and looked into. A card may also have kept writes that came after its last flush, in any choice: some
 * states take a random half of those too.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { CardLog, type CardWrite } from './card-log.ts';

export interface Part {
  /** Of the data partition on the card, bytes. */
  readonly offset: number;
  readonly length: number;
}

export interface StatesOptions {
  /** The log that blklogwrites kept. */
  readonly log: string;
  /** The data partition as it was before the first write of the log. */
  readonly before: string;
  readonly part: Part;
  /** An empty directory for copies. */
  readonly work: string;
  /** Looks into every nth flush, from the first at which the databases are there. */
  readonly every: number;
  /** 0 to below 1, of what was written after the flush. */
  readonly chance: () => number;
}

export interface StatesFigures {
  readonly flushes: number;
  readonly looked: number;
  readonly torn: number;
  readonly entries: number;
  readonly versions: number;
}

/** What is in the two databases of a data partition. */
interface Contents {
  readonly lastId: number;
  readonly versions: number;
  readonly outbox: number;
}

/** Throws at the first state that is not sound, or that lacks what an earlier one had. */
export function lookAtStates(options: StatesOptions): StatesFigures {
  const state = join(options.work, 'state.ext4');
  execFileSync('cp', ['--sparse=always', options.before, state]);
  const fd = openSync(state, 'r+');
  const log = new CardLog(options.log);
  const figures = { flushes: 0, looked: 0, torn: 0, entries: 0, versions: 0 };
  let seen: Contents = { lastId: 0, versions: 0, outbox: 0 };
  let unflushed: CardWrite[] = [];
  /** What follows a checked flush is checked with a part of its writes: the first flush after it that has several. */
  let tears = false;
  const look = (extra: readonly CardWrite[]): void => {
    const copy = join(options.work, 'copy.ext4');
    execFileSync('cp', ['--sparse=always', state, copy]);
    if (extra.length > 0) {
      const copyFd = openSync(copy, 'r+');
      for (const write of extra) apply(copyFd, log, write, options.part);
      closeSync(copyFd);
      figures.torn++;
    }
    const found = contentsOf(copy, join(options.work, 'mount'));
    rmSync(copy);
    if (found === undefined) {
      assert.deepEqual(seen, { lastId: 0, versions: 0, outbox: 0 }, `flush ${figures.flushes}: the databases are gone`);
      return;
    }
    figures.looked++;
    for (const what of ['lastId', 'versions', 'outbox'] as const)
      assert.ok(found[what] >= seen[what], `flush ${figures.flushes}: ${what} was ${seen[what]} and is ${found[what]}`);
    if (extra.length === 0) seen = found;
    figures.entries = found.lastId;
    figures.versions = found.versions;
  };
  try {
    for (const write of log.writes()) {
      if (write.flush || write.fua) {
        for (const earlier of unflushed) apply(fd, log, earlier, options.part);
        if (unflushed.length > 1) tears = false;
        unflushed = [];
        figures.flushes++;
        if (figures.flushes % options.every === 0) {
          look([]);
          tears = true;
        }
      }
      // QEMU writes with "force unit access" as a write and a flush.
      if (write.fua) apply(fd, log, write, options.part);
      else if (write.length > 0) unflushed.push(write);
      // As if the card had kept a part of the writes that were not flushed yet.
      if (unflushed.length > 1 && tears && (figures.torn === 0 || options.chance() < TORN_SHARE))
        look(unflushed.filter(() => options.chance() < 0.5));
    }
    return figures;
  } finally {
    log.close();
    closeSync(fd);
  }
}

/** How many of the writes after a checked flush make a state of their own; the first one does. */
const TORN_SHARE = 0.2;

function apply(fd: number, log: CardLog, write: CardWrite, { offset, length }: Part): void {
  const from = Math.max(write.offset, offset);
  const to = Math.min(write.offset + write.length, offset + length);
  // Discarded blocks may hold anything; a card that keeps the old bytes is the harder case.
  if (from >= to || write.dataAt === undefined) return;
  const data = log.data(write);
  writeSync(fd, data, from - write.offset, to - from, from - offset);
}

/**
 * Mounts a copy of a data partition, as the next boot does, and looks into both databases. Throws where one of them is
 * not sound; undefined: they are not made yet.
 */
export function contentsOf(image: string, mount: string): Contents | undefined {
  mkdirSync(mount, { recursive: true });
  // Mounting replays the file system's journal, as the next boot does.
  execFileSync('mount', ['-o', 'loop', image, mount]);
  try {
    const log = countsOf(join(mount, 'var/lib/lineside/log.db'), {
      lastId: 'SELECT coalesce(max(first_id + entries - 1), 0) FROM blocks',
    });
    const refdata = countsOf(join(mount, 'var/lib/lineside-hub/refdata.db'), {
      versions: 'SELECT count(*) FROM record_versions',
      outbox: 'SELECT max((SELECT last_outbox_id FROM progress), coalesce(max(id), 0)) FROM outbox_events',
      // A change and its outbox row are one transaction.
      halves: `SELECT count(*) FROM record_versions v LEFT JOIN records r ON r.newest_id = v.id WHERE NOT EXISTS
        (SELECT 1 FROM outbox_events e WHERE e.tx_time = v.tx_time AND e.business_key = coalesce(r.business_key, e.business_key))`,
    });
    if (log === undefined || refdata === undefined) return undefined;
    assert.equal(refdata.halves, 0, 'a change without its outbox row');
    return { lastId: log.lastId ?? 0, versions: refdata.versions ?? 0, outbox: refdata.outbox ?? 0 };
  } finally {
    execFileSync('umount', [mount]);
  }
}

/** undefined: there is no such database, or it has no tables yet. */
function countsOf(path: string, queries: Readonly<Record<string, string>>): Record<string, number> | undefined {
  let connection: Database.Database;
  try {
    connection = new Database(path, { fileMustExist: true });
  } catch {
    return undefined;
  }
  try {
    if (connection.pragma('user_version', { simple: true }) === 0) return undefined;
    assert.equal(connection.pragma('integrity_check(1)', { simple: true }), 'ok', path);
    return Object.fromEntries(
      Object.entries(queries).map(([name, sql]) => [name, Number(connection.prepare(sql).pluck().get())]),
    );
  } finally {
    connection.close();
  }
}
