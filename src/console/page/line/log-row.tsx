/** One row of the log: an entry, a line, an event or a gap. */
import type { JSX } from 'preact';
import { hexText, visibleText } from '../../../shared/log-formats/byte-text.ts';
import { plural, timeText } from '../../format.ts';
import type { EntryRow, LineEvent, LineRow, ShownRow } from '../../rows.ts';
import { text } from '../../text.ts';

/** Bytes of an entry that are drawn: more than fits the widest screen. */
const SHOWN_BYTES = 128;

export const rowId = (id: number): string => `row-${id}`;

export function LogRow(props: {
  row: ShownRow;
  topPx: number;
  heightPx: number;
  index: number;
  count: number;
  isActive: boolean;
  isSelected: boolean;
  onPick: (extend: boolean) => void;
  onOpen: () => void;
}): JSX.Element {
  const { row } = props;
  return (
    <div
      id={rowId(row.id)}
      data-id={row.id}
      class={`log-row ${'dir' in row ? row.dir : row.kind} ${props.isActive ? 'active' : ''}`}
      role="option"
      aria-selected={props.isSelected}
      aria-posinset={props.index + 1}
      aria-setsize={props.count}
      style={{ top: `${props.topPx}px`, height: `${props.heightPx}px` }}
      onClick={(event) => props.onPick(event.shiftKey)}
      onDblClick={props.onOpen}
    >
      {row.kind === 'gap' && (
        <span class="missing">{text.log.missing(plural(row.entries, 'entry is', 'entries are'), row.reason)}</span>
      )}
      {row.kind === 'event' && <Happened event={row.event} />}
      {row.kind === 'entry' && <Entry row={row} />}
      {row.kind === 'line' && <Line row={row} />}
    </div>
  );
}

function Happened({ event }: { event: LineEvent }): JSX.Element {
  return (
    <>
      <Time ms={event.timestampMs} clock={event.clock} /> <span class="event">{text.log.event(event)}</span>
    </>
  );
}

function Entry({ row }: { row: EntryRow }): JSX.Element {
  return (
    <>
      <Time ms={row.timestampMs} clock={row.clock} />
      <span class="dir">{row.dir.toUpperCase()}</span>
      <span class="hex">{hexText(row.bytes, SHOWN_BYTES)}</span>
      <span class="text">
        {visibleText(row.bytes, SHOWN_BYTES)}
        {row.note !== '' && <i> {row.note}</i>}
      </span>
    </>
  );
}

/** Its head fills HEAD_COLUMNS of row-height.ts. */
function Line({ row }: { row: LineRow }): JSX.Element {
  const { bytes, endBytes, note } = row;
  const end = bytes.length - endBytes;
  return (
    <>
      <Time ms={row.timestampMs} clock={row.clock} /> <span class="dir">{row.dir.toUpperCase()}</span>{' '}
      {visibleText(bytes.subarray(0, end))}
      {endBytes > 0 && <span class="end">{visibleText(bytes.subarray(end))}</span>}
      {note !== '' && <i> {note}</i>}
    </>
  );
}

function Time({ ms, clock }: { ms: number; clock: EntryRow['clock'] }): JSX.Element {
  const [mark, meaning] = text.log.clockMarks[clock];
  return (
    <span class="time">
      {timeText(ms)}
      <b title={meaning}>
        {mark}
        {meaning !== '' && <span class="unseen">{meaning}</span>}
      </b>
    </span>
  );
}
