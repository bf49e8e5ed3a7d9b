/** The rows of the log: only those in sight are drawn; those that are selected can be copied. */
import type { JSX, Ref } from 'preact';
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hexText, visibleText } from '../../../shared/log-formats/byte-text.ts';
import { dayText, plural, timeText } from '../../format.ts';
import { drawnRows, type EntryRow, isAtEnd, type LineEvent, type ShownRow, scrollToShow } from '../../rows.ts';
import {
  copiedText,
  everyRow,
  isSelected,
  type LogView,
  moved,
  picked,
  type Selection,
  selectedRows,
} from '../../selection.ts';
import { text } from '../../text.ts';
import { copyText } from '../clipboard.ts';
import { Button, useMedia } from '../parts.tsx';

export interface LogListHandle {
  toEnd(): void;
  /** Selects a row and brings it to the middle, with the keyboard. */
  show(id: number): void;
}

interface Props {
  readonly ref?: Ref<LogListHandle>;
  readonly rows: readonly ShownRow[];
  /** How many there are, in words. */
  readonly count: string;
  readonly view: LogView;
  readonly follows: boolean;
  readonly onOpen: (entry: EntryRow) => void;
  readonly onAtEnd: (is: boolean) => void;
}

export function LogList({ ref, rows, count, view, follows, onOpen, onAtEnd }: Props): JSX.Element {
  const scroll = useLogScroll(rows, follows, onAtEnd);
  const { element, rowPx, look, toEnd } = scroll;
  const { selection, select, chosen, said, copy, onKeyDown, show } = useSelection(rows, view, onOpen, scroll);
  const head = selection?.head ?? 0;
  useImperativeHandle(ref ?? null, () => ({ toEnd, show }));

  const { from, to } = drawnRows(rows.length, rowPx, scroll.top, scroll.height);
  const drawn = rows.slice(from, to);
  // Rows show the time only: its day is above them.
  const top = rows[Math.floor(scroll.top / rowPx)];
  return (
    <>
      <p class="note day">
        <span>{dayOf(top)}</span>
        <span class="count">{count}</span>
      </p>
      <div
        ref={element}
        class={`rows ${view}`}
        role="listbox"
        aria-multiselectable="true"
        aria-label={text.log.entries}
        tabIndex={0}
        aria-activedescendant={drawn.some(({ id }) => id === head) ? rowId(head) : undefined}
        data-count={rows.filter(({ kind }) => kind !== 'event').length}
        onScroll={look}
        onKeyDown={onKeyDown}
        onMouseDown={(event) => {
          // Else the browser marks text as well: from the row before, or a word.
          if (!event.shiftKey && event.detail < 2) return;
          event.preventDefault();
          event.currentTarget.focus({ preventScroll: true });
        }}
      >
        <div role="none" class="spacer" style={{ height: `${rows.length * rowPx}px` }}>
          {drawn.map((row, at) => (
            <LogRow
              key={row.id}
              row={row}
              topPx={(from + at) * rowPx}
              index={from + at}
              count={rows.length}
              isActive={row.id === head}
              isSelected={isSelected(selection, row.id)}
              onPick={(extend) => select(picked(selection, row.id, extend))}
              onOpen={() => row.kind === 'entry' && onOpen(row)}
            />
          ))}
        </div>
      </div>
      {chosen.length === 0 ? (
        <p class="note legend">
          {text.log.legend.map(([mark, meaning]) => (
            <span key={mark}>
              <b>{mark}</b> {meaning}{' '}
            </span>
          ))}
        </p>
      ) : (
        <SelectionBar
          rows={chosen}
          said={said}
          onOpen={onOpen}
          onCopy={copy}
          onSelect={(which) => select(which === 'all' ? everyRow(rows) : undefined)}
        />
      )}
    </>
  );
}

const words = text.log.selection;

function SelectionBar(props: {
  rows: readonly ShownRow[];
  said: string;
  onOpen: (entry: EntryRow) => void;
  onCopy: (bytesOnly: boolean) => void;
  onSelect: (which: 'all' | 'none') => void;
}): JSX.Element {
  const { rows, onOpen, onCopy, onSelect } = props;
  const [first, second] = rows;
  return (
    <div class="row log-selection" role="group" aria-label={words.label}>
      <span role="status">
        {words.count(plural(rows.length, 'row'))} {props.said}
      </span>
      {first?.kind === 'entry' && second === undefined && <Button text={words.open} onClick={() => onOpen(first)} />}
      <Button text={words.copy} onClick={() => onCopy(false)} />
      <Button text={words.copyBytes} onClick={() => onCopy(true)} />
      <Button text={words.all} onClick={() => onSelect('all')} />
      <Button text={words.clear} onClick={() => onSelect('none')} />
    </div>
  );
}

function dayOf(row: ShownRow | undefined): string {
  if (row === undefined || row.kind === 'gap') return '\u00a0';
  return dayText(row.kind === 'entry' ? row.timestampMs : row.event.timestampMs);
}

// One row of the log.

/** Bytes of an entry that are drawn: more than fits the widest screen. */
const SHOWN_BYTES = 128;

const rowId = (id: number): string => `row-${id}`;

function LogRow(props: {
  row: ShownRow;
  topPx: number;
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
      class={`log-row ${row.kind === 'entry' ? row.dir : row.kind} ${props.isActive ? 'active' : ''}`}
      role="option"
      aria-selected={props.isSelected}
      aria-posinset={props.index + 1}
      aria-setsize={props.count}
      style={{ top: `${props.topPx}px` }}
      onClick={(event) => props.onPick(event.shiftKey)}
      onDblClick={props.onOpen}
    >
      {row.kind === 'gap' && (
        <span class="missing">{text.log.missing(plural(row.entries, 'entry is', 'entries are'), row.reason)}</span>
      )}
      {row.kind === 'event' && <Happened event={row.event} />}
      {row.kind === 'entry' && <Entry row={row} />}
    </div>
  );
}

function Happened({ event }: { event: LineEvent }): JSX.Element {
  return (
    <>
      <Time ms={event.timestampMs} clock={event.clock} />
      <span class="event">{text.log.event(event)}</span>
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

// Which rows are selected, by mouse and keyboard.

function useSelection(
  rows: readonly ShownRow[],
  view: LogView,
  onOpen: (entry: EntryRow) => void,
  scroll: ReturnType<typeof useLogScroll>,
) {
  const [selection, select] = useState<Selection>();
  const [said, say] = useState('');
  const chosen = selectedRows(rows, selection);
  useEffect(() => say(''), [selection]);

  const copy = (bytesOnly: boolean): void => {
    const copied = copiedText(chosen, view, bytesOnly);
    if (copied === undefined) return say(words.tooMuch);
    void copyText(copied).then((done) => say(done ? words.copied : words.refused));
  };
  const show = (next: Selection): void => {
    const list = scroll.element.current;
    select(next);
    const index = rows.findIndex(({ id }) => id === next.head);
    if (list === null) return;
    list.scrollTop = scrollToShow(index, scroll.rowPx, list.scrollTop, scroll.height);
    scroll.look();
  };
  const showInMiddle = (id: number): void => {
    const list = scroll.element.current;
    const index = rows.findIndex((row) => row.id === id);
    if (list === null || index < 0) return;
    select(picked(undefined, id, false));
    list.scrollTop = index * scroll.rowPx - (list.clientHeight - scroll.rowPx) / 2;
    scroll.look();
    list.focus({ preventScroll: true });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = rows.find(({ id }) => id === selection?.head);
    const control = event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && row?.kind === 'entry') {
      // Else the rest of the key press is for the dialog that opens, and closes it.
      event.preventDefault();
      return onOpen(row);
    }
    if (control && event.key.toLowerCase() === 'c' && chosen.length > 0 && !hasMarked(scroll.element.current)) {
      event.preventDefault();
      return copy(false);
    }
    const next = moved(
      rows,
      selection,
      { key: event.key, shiftKey: event.shiftKey, control },
      Math.floor(scroll.height / scroll.rowPx),
    );
    if (next === undefined) return;
    event.preventDefault();
    if (next === 'none') select(undefined);
    else if (control) select(next);
    else show(next);
  };
  return { selection, select, chosen, said, copy, onKeyDown, show: showInMiddle };
}

/** A part of a row's text is marked with the mouse: the browser copies that. */
function hasMarked(list: HTMLElement | null): boolean {
  const marked = getSelection();
  return marked !== null && !marked.isCollapsed && list?.contains(marked.anchorNode) === true;
}

// The scroll position of a list of rows of one height: it stays at the reader's row, or at the end.

function useLogScroll(rows: readonly ShownRow[], follows: boolean, onAtEnd: (is: boolean) => void) {
  const element = useRef<HTMLDivElement>(null);
  // One line; on narrow or touched screens two lines and a finger's height: as in log.css.
  const rowPx = useMedia('(min-width: 900px) and (pointer: fine)') ? 30 : 52;
  const [seen, setSeen] = useState({ top: 0, height: 0 });
  const sticks = useRef(true);
  /** The row at the top stays there when rows before it are added or removed. */
  const anchor = useRef({ id: 0, offset: 0 });
  const heightPx = useRef(0);

  /** After the user or the page has scrolled. */
  const look = (): void => {
    const list = element.current;
    if (list === null) return;
    const height = list.clientHeight;
    // Another view is shown: the place of the reader is kept.
    if (height === 0) return;
    // A scroll event may come before the observer reports the new size: the list was resized, the reader has not left its end.
    if (sticks.current && height !== heightPx.current) list.scrollTop = list.scrollHeight;
    heightPx.current = height;
    const { scrollTop: top, scrollHeight } = list;
    sticks.current = isAtEnd(top, height, scrollHeight);
    onAtEnd(sticks.current);
    const first = Math.floor(top / rowPx);
    anchor.current = { id: rows[first]?.id ?? 0, offset: top - first * rowPx };
    setSeen((was) => (was.top === top && was.height === height ? was : { top, height }));
  };
  const toEnd = (): void => {
    sticks.current = true;
    element.current?.scrollTo({ top: element.current.scrollHeight });
    look();
  };

  useLayoutEffect(() => {
    const list = element.current;
    if (list === null) return;
    if (sticks.current && follows) list.scrollTop = list.scrollHeight;
    else {
      const index = rows.findIndex(({ id }) => id >= anchor.current.id);
      if (index >= 0) list.scrollTop = index * rowPx + anchor.current.offset;
    }
    look();
  }, [rows, rowPx, follows]);
  // The keyboard of a phone, a turned screen.
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    const list = element.current;
    if (list === null) return undefined;
    const observer = new ResizeObserver(() => latest.current());
    observer.observe(list);
    return () => observer.disconnect();
  }, []);
  return { element, rowPx, ...seen, look, toEnd };
}
