/** One row of the log. */
import type { JSX } from 'preact';
import { hexText, visibleText } from '../bytes.ts';
import { plural, timeText } from '../format.ts';
import type { EntryRow, Row } from '../rows.ts';

/** Of an entry, as many bytes are drawn: more than fits the widest screen. */
const SHOWN_BYTES = 128;

export const rowId = (id: number): string => `row-${id}`;

const marks: Readonly<Record<EntryRow['clock'], readonly [string, string]>> = {
  known: ['', ''],
  unknown: ['', ''],
  notSet: ['?', 'the clock was not set'],
  corrected: ['~', 'time corrected later'],
};

export function LogRow(props: {
  row: Row;
  topPx: number;
  index: number;
  count: number;
  isActive: boolean;
  onPick: () => void;
}): JSX.Element {
  const { row } = props;
  return (
    <div
      id={rowId(row.id)}
      data-id={row.id}
      class={`log-row ${row.kind === 'gap' ? 'gap' : row.dir}`}
      role="option"
      aria-selected={props.isActive}
      aria-posinset={props.index + 1}
      aria-setsize={props.count}
      style={{ top: `${props.topPx}px` }}
      onClick={props.onPick}
    >
      {row.kind === 'gap' ? (
        <span class="missing">
          {plural(row.entries, 'entry is', 'entries are')} missing here{row.reason !== '' && `: ${row.reason}`}
        </span>
      ) : (
        <Entry row={row} />
      )}
    </div>
  );
}

function Entry({ row }: { row: EntryRow }): JSX.Element {
  const [mark, meaning] = marks[row.clock];
  return (
    <>
      <span class="time">
        {timeText(row.timestampMs)}
        <b title={meaning}>
          {mark}
          {meaning !== '' && <span class="unseen">{meaning}</span>}
        </b>
      </span>
      <span class="dir">{row.dir === 'rx' ? 'RX' : 'TX'}</span>
      <span class="hex">{hexText(row.bytes, SHOWN_BYTES)}</span>
      <span class="text">
        {visibleText(row.bytes, SHOWN_BYTES)}
        {row.note !== '' && <i> {row.note}</i>}
      </span>
    </>
  );
}
