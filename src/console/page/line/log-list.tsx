/** The rows of the log: only those in sight are drawn; those that are selected can be copied. */
import type { JSX, Ref } from 'preact';
import { useEffect, useImperativeHandle, useState } from 'preact/hooks';
import { dayText, plural } from '../../format.ts';
import type { BytesRow, Row, ShownRow } from '../../rows.ts';
import {
  copiedText,
  everyRow,
  holds,
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
import { LogRow, rowId } from './log-row.tsx';
import { useLogScroll } from './log-scroll.ts';

export interface LogListHandle {
  toEnd(): void;
  focus(): void;
  /** Selects a row, or the lines of an entry, and brings the first to the middle, with the keyboard. */
  show(wanted: Row): void;
}

interface Props {
  readonly ref?: Ref<LogListHandle>;
  readonly rows: readonly ShownRow[];
  /** Of them, without the events. */
  readonly count: number;
  /** How many there are, in words. */
  readonly says: string;
  readonly view: LogView;
  readonly follows: boolean;
  readonly onOpen: (row: BytesRow) => void;
  readonly onAtEnd: (is: boolean) => void;
}

export function LogList({ ref, rows, count, says, view, follows, onOpen, onAtEnd }: Props): JSX.Element {
  const scroll = useLogScroll(rows, view, follows, onAtEnd);
  const { element, probe, virtual, look, toEnd } = scroll;
  const { selection, select, chosen, said, copy, onKeyDown, show } = useSelection(rows, view, onOpen, scroll);
  const head = selection?.head ?? 0;
  useImperativeHandle(ref ?? null, () => ({
    toEnd,
    show,
    focus: () => element.current?.focus({ preventScroll: true }),
  }));

  const drawn = virtual.getVirtualItems();
  // Rows show the time only: its day is above them.
  const top = rows[virtual.range?.startIndex ?? 0];
  const { notSet, corrected } = text.log.clockMarks;
  const isTouched = useMedia('(pointer: coarse)');
  return (
    <>
      <p class="note day">
        <span>{dayOf(top)}</span>
        <span class="count">{says}</span>
      </p>
      <span ref={probe} class="probe" aria-hidden="true" />
      <div
        ref={element}
        class={`rows ${view} ${scroll.hangs ? 'hanging' : ''}`}
        role="listbox"
        aria-multiselectable="true"
        aria-label={view === 'lines' ? text.log.lines : text.log.entries}
        tabIndex={0}
        aria-activedescendant={drawn.some(({ key }) => key === head) ? rowId(head) : undefined}
        data-count={count}
        onScroll={look}
        onKeyDown={onKeyDown}
        onMouseDown={(event) => {
          // Else the browser marks text as well: from the row before, or a word.
          if (!event.shiftKey && event.detail < 2) return;
          event.preventDefault();
          event.currentTarget.focus({ preventScroll: true });
        }}
      >
        <div role="none" class="spacer" style={{ height: `${virtual.getTotalSize()}px` }}>
          {drawn.map(({ index, start, size }) => {
            const row = rows[index];
            if (row === undefined) return undefined;
            return (
              <LogRow
                key={row.id}
                row={row}
                topPx={start}
                heightPx={size}
                index={index}
                count={rows.length}
                isActive={row.id === head}
                isSelected={isSelected(selection, row.id)}
                onPick={(extend) => select(picked(selection, row.id, extend))}
                onOpen={() => hasBytes(row) && onOpen(row)}
              />
            );
          })}
        </div>
      </div>
      {chosen.length === 0 ? (
        <p class="note legend">
          {(view === 'lines' ? [text.log.lineEnd, notSet, corrected] : [notSet, corrected]).map(([mark, meaning]) => (
            <span key={mark}>
              <b class={mark === text.log.lineEnd[0] ? 'end' : ''}>{mark}</b> {`${meaning}. `}
            </span>
          ))}
          {isTouched ? text.log.touchHelp : text.log.mouseHelp}
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
  onOpen: (row: BytesRow) => void;
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
      {first !== undefined && hasBytes(first) && second === undefined && (
        <Button text={words.open[first.kind]} onClick={() => onOpen(first)} />
      )}
      <Button text={words.copy} onClick={() => onCopy(false)} />
      <Button text={words.copyBytes} onClick={() => onCopy(true)} />
      <Button text={words.all} onClick={() => onSelect('all')} />
      <Button text={words.clear} onClick={() => onSelect('none')} />
    </div>
  );
}

function dayOf(row: ShownRow | undefined): string {
  if (row === undefined || row.kind === 'gap') return '\u00a0';
  return dayText(row.kind === 'event' ? row.event.timestampMs : row.timestampMs);
}

function hasBytes(row: ShownRow): row is BytesRow {
  return row.kind === 'entry' || row.kind === 'line';
}

// Which rows are selected, by mouse and keyboard.

function useSelection(
  rows: readonly ShownRow[],
  view: LogView,
  onOpen: (row: BytesRow) => void,
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
    select(next);
    scroll.toRow(
      rows.findIndex(({ id }) => id === next.head),
      'auto',
    );
  };
  const showInMiddle = (wanted: Row): void => {
    const first = rows.findIndex((row) => holds(row, wanted));
    const [head, last] = [rows[first], rows.findLast((row) => holds(row, wanted))];
    if (head === undefined || last === undefined) return;
    select({ anchor: last.id, head: head.id });
    scroll.toRow(first, 'center');
    scroll.element.current?.focus({ preventScroll: true });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = rows.find(({ id }) => id === selection?.head);
    const control = event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && row !== undefined && hasBytes(row)) {
      // Else the rest of the key press is for the dialog that opens, and closes it.
      event.preventDefault();
      return onOpen(row);
    }
    if (control && event.key.toLowerCase() === 'c' && chosen.length > 0 && !hasMarked(scroll.element.current)) {
      event.preventDefault();
      return copy(false);
    }
    const { startIndex, endIndex } = scroll.virtual.range ?? { startIndex: 0, endIndex: 0 };
    const pageRows = Math.max(1, endIndex - startIndex);
    const next = moved(rows, selection, { key: event.key, shiftKey: event.shiftKey, control }, pageRows);
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
