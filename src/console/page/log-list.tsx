/** The rows of the log: only those in sight are drawn. */
import type { JSX, Ref } from 'preact';
import { useImperativeHandle, useState } from 'preact/hooks';
import { dayText } from '../format.ts';
import type { EntryRow, Row } from '../rows.ts';
import { drawnRows, scrollToShow } from '../window.ts';
import { LogRow, rowId } from './log-row.tsx';
import { useLogScroll } from './log-scroll.ts';

export interface LogListHandle {
  toEnd(): void;
}

interface Props {
  readonly ref?: Ref<LogListHandle>;
  readonly rows: readonly Row[];
  readonly follows: boolean;
  readonly onOpen: (entry: EntryRow) => void;
  readonly onAtEnd: (is: boolean) => void;
}

export function LogList({ ref, rows, follows, onOpen, onAtEnd }: Props): JSX.Element {
  const scroll = useLogScroll(rows, follows, onAtEnd);
  const { element, rowPx, look, toEnd } = scroll;
  const [active, setActive] = useState(0);
  useImperativeHandle(ref ?? null, () => ({ toEnd }));

  const pick = (index: number): void => {
    const row = rows[index];
    const list = element.current;
    if (row === undefined || list === null) return;
    setActive(row.id);
    list.scrollTop = scrollToShow(index, rowPx, list.scrollTop, scroll.height);
    look();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const current = rows.findIndex(({ id }) => id === active);
    const row = rows[current];
    if (event.key === 'Enter' && row?.kind === 'entry') {
      // Else the rest of the key press is for the dialog that opens, and closes it.
      event.preventDefault();
      return onOpen(row);
    }
    const next = nextRow(event.key, current, rows.length, Math.floor(scroll.height / rowPx));
    if (next === undefined) return;
    event.preventDefault();
    pick(next);
  };

  const { from, to } = drawnRows(rows.length, rowPx, scroll.top, scroll.height);
  const drawn = rows.slice(from, to);
  return (
    <>
      <DayOf row={rows[Math.floor(scroll.top / rowPx)]} />
      <div
        ref={element}
        class="rows"
        role="listbox"
        aria-label="Log entries"
        tabIndex={0}
        aria-activedescendant={drawn.some(({ id }) => id === active) ? rowId(active) : undefined}
        data-count={rows.length}
        onScroll={look}
        onKeyDown={onKeyDown}
      >
        <div role="none" class="spacer" style={{ height: `${rows.length * rowPx}px` }}>
          {drawn.map((row, at) => (
            <LogRow
              key={row.id}
              row={row}
              topPx={(from + at) * rowPx}
              index={from + at}
              count={rows.length}
              isActive={row.id === active}
              onPick={() => {
                setActive(row.id);
                if (row.kind === 'entry') onOpen(row);
              }}
            />
          ))}
        </div>
      </div>
    </>
  );
}

/** Of what stands at the top: rows tell the time only. */
function DayOf({ row }: { row: Row | undefined }): JSX.Element {
  return <p class="note day">{row?.kind === 'entry' ? dayText(row.timestampMs) : '\u00a0'}</p>;
}

/** undefined: the key is none that moves. */
function nextRow(key: string, current: number, count: number, page: number): number | undefined {
  const last = count - 1;
  const moves: Readonly<Record<string, number | undefined>> = {
    ArrowDown: Math.min(last, current + 1),
    ArrowUp: current < 0 ? last : Math.max(0, current - 1),
    PageDown: Math.min(last, current + page),
    PageUp: current < 0 ? last : Math.max(0, current - page),
    Home: 0,
    End: last,
  };
  return moves[key];
}
