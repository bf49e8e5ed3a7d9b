/** What opens over the log: a time to jump to, and one entry whole. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { msOfLocalTime } from '../../../shared/base/instant.ts';
import { dumpLines } from '../../bytes.ts';
import { dayText, fieldText, plural, timeText } from '../../format.ts';
import type { BytesRow, Row } from '../../rows.ts';
import { text } from '../../text.ts';
import { Dialog, Dump, Facts, TextField } from '../parts.tsx';

const HOUR_MS = 3_600_000;
/** Attributes of a field for a day and a time. */
const timeInput = { type: 'datetime-local', step: 1, max: '9999-12-31T23:59:59' } as const;

/** The times that an export or a search of the log is limited to. */
export function RangeFields(props: {
  from: string;
  until: string;
  fault: string;
  onFrom: (typed: string) => void;
  onUntil: (typed: string) => void;
}): JSX.Element {
  const { from, fromHint, until, untilHint } = text.log.range;
  return (
    <div class="row tops range">
      <TextField label={from} hint={fromHint} input={timeInput} value={props.from} onChange={props.onFrom} />
      <TextField
        label={until}
        hint={untilHint}
        fault={props.fault}
        input={timeInput}
        value={props.until}
        onChange={props.onUntil}
      />
    </div>
  );
}

/** Of such a field; 0: it is empty. */
export function msOfField(typed: string): number {
  return Math.max(0, msOfLocalTime(typed) || 0);
}

export function JumpDialog(props: {
  near: readonly Row[];
  untilMs: number;
  /** `untilMs` 0: without an end. */
  onJump: (sinceMs: number, untilMs: number) => void;
  onClose: () => void;
}): JSX.Element {
  const [typed, setTyped] = useState(() => {
    const last = props.near.findLast((row) => row.kind === 'entry');
    return last?.kind === 'entry' ? fieldText(last.timestampMs - HOUR_MS) : '';
  });
  const [until, setUntil] = useState(props.untilMs > 0 ? fieldText(props.untilMs) : '');
  const [fault, setFault] = useState('');
  const [badUntil, setBadUntil] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    const ms = msOfLocalTime(typed);
    setFault(ms > 0 ? '' : text.log.jump.fault);
    const untilMs = until === '' ? 0 : msOfLocalTime(until);
    const isBad = until !== '' && !(untilMs > ms);
    setBadUntil(isBad ? text.log.jump.badUntil : '');
    if (!(ms > 0) || isBad) return;
    props.onJump(ms, untilMs);
    props.onClose();
  };
  return (
    <Dialog title={text.log.jump.title} onClose={props.onClose}>
      <form onSubmit={submit}>
        <TextField
          label={text.log.jump.time}
          hint={text.log.jump.hint}
          fault={fault}
          input={timeInput}
          value={typed}
          onChange={setTyped}
        />
        <TextField
          label={text.log.jump.until}
          hint={text.log.jump.untilHint}
          fault={badUntil}
          input={timeInput}
          value={until}
          onChange={setUntil}
        />
        <div class="row foot">
          <button type="submit" class="main">
            {text.log.jump.jump}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

// One entry or line of the log, whole.

const MAX_LINES = 512;
const words = text.log.entry;

export function BytesDialog({ row, onClose }: { row: BytesRow; onClose: () => void }): JSX.Element {
  // 16 to a line want 600 px, 8 want 330.
  const width = matchMedia('(min-width: 700px)').matches ? 16 : matchMedia('(min-width: 370px)').matches ? 8 : 4;
  const lines = dumpLines(row.bytes, width, MAX_LINES);
  const hidden = row.bytes.length - lines.length * width;
  return (
    <Dialog
      title={row.kind === 'entry' ? words.title(row.id) : words.lineTitle(Math.floor(row.id), row.lastId)}
      leave={text.parts.close}
      onClose={onClose}
    >
      <Facts
        of={[
          [words.direction, text.log.directions[row.dir]],
          [words.time, `${dayText(row.timestampMs)} ${timeText(row.timestampMs)} ${words.clocks[row.clock]}`],
          [words.size, plural(row.bytes.length, 'byte')],
          ...(row.note === '' ? [] : [[words.note, row.note] as const]),
        ]}
      />
      <Dump label={words.bytes} wraps={false}>
        {lines.join('')}
      </Dump>
      {hidden > 0 && <p class="note">{words.more(plural(hidden, 'more byte'))}</p>}
    </Dialog>
  );
}
