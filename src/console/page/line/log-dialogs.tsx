/** What opens over the log: a time to jump to, and one entry whole. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { msOfLocalTime } from '../../../shared/base/instant.ts';
import { dumpLines } from '../../bytes.ts';
import { dayText, fieldText, plural, timeText } from '../../format.ts';
import type { EntryRow, Row } from '../../rows.ts';
import { text } from '../../text.ts';
import { Dialog, Dump, Facts, TextField } from '../parts.tsx';

const HOUR_MS = 3_600_000;

export function JumpDialog(props: {
  near: readonly Row[];
  onJump: (sinceMs: number) => void;
  onClose: () => void;
}): JSX.Element {
  const [typed, setTyped] = useState(() => {
    const last = props.near.findLast((row) => row.kind === 'entry');
    return last?.kind === 'entry' ? fieldText(last.timestampMs - HOUR_MS) : '';
  });
  const [fault, setFault] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    const ms = msOfLocalTime(typed);
    if (!(ms > 0)) return setFault(text.log.jump.fault);
    props.onJump(ms);
    props.onClose();
  };
  return (
    <Dialog title={text.log.jump.title} onClose={props.onClose}>
      <form onSubmit={submit}>
        <TextField
          label={text.log.jump.time}
          hint={text.log.jump.hint}
          fault={fault}
          input={{ type: 'datetime-local', step: 1, max: '9999-12-31T23:59:59' }}
          value={typed}
          onChange={setTyped}
        />
        <button type="submit" class="main">
          {text.log.jump.jump}
        </button>
      </form>
    </Dialog>
  );
}

// One entry of the log, whole.

const MAX_LINES = 512;
const words = text.log.entry;

export function EntryDialog({ entry, onClose }: { entry: EntryRow; onClose: () => void }): JSX.Element {
  // 16 to a line want 600 px, 8 want 330.
  const width = matchMedia('(min-width: 700px)').matches ? 16 : matchMedia('(min-width: 370px)').matches ? 8 : 4;
  const lines = dumpLines(entry.bytes, width, MAX_LINES);
  const hidden = entry.bytes.length - lines.length * width;
  return (
    <Dialog title={words.title(entry.id)} leave="Close" onClose={onClose}>
      <Facts
        of={[
          [words.direction, text.log.directions[entry.dir]],
          [words.time, `${dayText(entry.timestampMs)} ${timeText(entry.timestampMs)} ${words.clocks[entry.clock]}`],
          [words.size, plural(entry.bytes.length, 'byte')],
          ...(entry.note === '' ? [] : [[words.note, entry.note] as const]),
        ]}
      />
      <Dump label={words.bytes} wraps={false}>
        {lines.join('')}
      </Dump>
      {hidden > 0 && <p class="note">{words.more(plural(hidden, 'more byte'))}</p>}
    </Dialog>
  );
}
