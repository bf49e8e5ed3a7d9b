/** One entry of the log, whole. */
import type { JSX } from 'preact';
import { dumpLines } from '../bytes.ts';
import { dayText, plural, timeText } from '../format.ts';
import type { EntryRow } from '../rows.ts';
import { Dialog, Facts } from './parts.tsx';

const MAX_LINES = 512;
const clocks = {
  known: '',
  unknown: '(nobody can tell whether the clock was right)',
  notSet: '(the clock was not set)',
  corrected: '(corrected when the clock was set)',
} as const;

export function EntryDialog({ entry, onClose }: { entry: EntryRow; onClose: () => void }): JSX.Element {
  // 16 to a line want 600 px, 8 want 330.
  const width = matchMedia('(min-width: 700px)').matches ? 16 : matchMedia('(min-width: 370px)').matches ? 8 : 4;
  const lines = dumpLines(entry.bytes, width, MAX_LINES);
  const hidden = entry.bytes.length - lines.length * width;
  return (
    <Dialog title={`Entry ${entry.id}`} leave="Close" onClose={onClose}>
      <Facts
        of={[
          ['Direction', entry.dir === 'rx' ? 'received' : 'sent'],
          ['Time', `${dayText(entry.timestampMs)} ${timeText(entry.timestampMs)} ${clocks[entry.clock]}`],
          ['Size', plural(entry.bytes.length, 'byte')],
          ...(entry.note === '' ? [] : [['Note', entry.note] as const]),
        ]}
      />
      <pre class="dump" tabIndex={0} aria-label="Bytes">
        {lines.map(({ offset, hex, text }) => `${offset}  ${hex.padEnd(width * 3 - 1)}  ${text}\n`).join('')}
      </pre>
      {hidden > 0 && <p class="note">{plural(hidden, 'more byte')}: the command line shows them, "lineside log".</p>}
    </Dialog>
  );
}
