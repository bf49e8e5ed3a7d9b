/** What the contract's StreamLog says of an entry whose clock was not set: it has no field for it but the note. Pure. */
import type { LogEntry } from '../log/entry.ts';

const noted = new WeakMap<LogEntry, LogEntry>();

/** The same entry for each of many subscribers, so that it is encoded once. A note of the entry's own stays as it is. */
export function withClockNote(entry: LogEntry): LogEntry {
  if (entry.clock === undefined || entry.clock === 'known' || entry.note !== '') return entry;
  let same = noted.get(entry);
  if (same === undefined) {
    same = { ...entry, note: clockNote(entry) };
    noted.set(entry, same);
  }
  return same;
}

function clockNote({ clock, timestampMs, uncorrectedMs }: LogEntry): string {
  if (clock !== 'corrected' || uncorrectedMs === undefined) return 'clock not set';
  return `clock corrected by ${signedSpan(Number(timestampMs) - uncorrectedMs)}`;
}

const units: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
];

/** "+3 d 2 h", "-5 s": the two largest units. */
export function signedSpan(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1_000);
  const at = Math.max(
    0,
    units.findIndex(([, size]) => seconds >= size),
  );
  const parts = units.slice(seconds < 1 ? -1 : at).slice(0, 2);
  let rest = seconds;
  const shown = parts.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return `${count} ${unit}`;
  });
  return `${ms < 0 ? '-' : '+'}${shown.filter((part, i) => i === 0 || !part.startsWith('0 ')).join(' ')}`;
}
