/** Arithmetic on the ranges of ids that hold no stored entry. Pure. */
import type { LogEntry, LogGap } from './entry.ts';

/** What an entry takes in memory beside its bytes: the object, its array and that one's buffer, its places in the queues. */
const entryOverheadBytes = 256;

export function costOf(entry: LogEntry): number {
  return entry.data.length + 2 * entry.note.length + entryOverheadBytes;
}

export function gapOf(entry: LogEntry, reason: string): LogGap {
  return {
    firstId: entry.id,
    lastId: entry.id,
    entries: 1,
    bytes: entry.data.length,
    fromMs: entry.timestampMs,
    toMs: entry.timestampMs,
    reason,
  };
}

/** Adds a lost range to a list in order of ids; ranges that touch become one and keep the first one's reason. */
export function addGap(gaps: LogGap[], added: LogGap): void {
  let at = gaps.length;
  while (at > 0 && (gaps[at - 1]?.firstId ?? 0) > added.firstId) at--;
  const before = gaps[at - 1];
  const after = gaps[at];
  let merged = added;
  let start = at;
  let replaced = 0;
  if (before !== undefined && before.lastId + 1 === added.firstId) {
    merged = joined(before, merged);
    start--;
    replaced++;
  }
  if (after !== undefined && added.lastId + 1 === after.firstId) {
    merged = joined(merged, after);
    replaced++;
  }
  gaps.splice(start, replaced, merged);
}

function joined(a: LogGap, b: LogGap): LogGap {
  return {
    firstId: a.firstId,
    lastId: b.lastId,
    entries: a.entries + b.entries,
    bytes: a.bytes + b.bytes,
    fromMs: a.fromMs,
    toMs: b.toMs,
    reason: a.reason,
  };
}

/** How many of a gap's entries have an id above `after`: its ids are consecutive, one entry each. */
export function lostAfter(gap: LogGap, after: number): number {
  return Math.min(gap.entries, Math.max(0, gap.lastId - after));
}
