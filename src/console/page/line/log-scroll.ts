/** The scroll position of the log: it stays at the reader's row, or at the end. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hangs, isAtEnd, RowLayout, type TextSize, wrappedPx } from '../../row-layout.ts';
import type { ShownRow } from '../../rows.ts';
import type { LogView } from '../../selection.ts';
import { useMedia } from '../parts.tsx';

/** Characters of the element that shows how wide one is: `.probe` of log.css. */
const PROBE_COLUMNS = 50;
/** Of the list, left and right of a row's text: as in log.css. */
const SIDES_PX = 16;

export function useLogScroll(
  rows: readonly ShownRow[],
  view: LogView,
  follows: boolean,
  onAtEnd: (is: boolean) => void,
) {
  const element = useRef<HTMLDivElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  // One line; on narrow or touched screens two lines and a finger's height.
  const rowPx = useMedia('(min-width: 900px) and (pointer: fine)') ? 30 : 52;
  const [seen, setSeen] = useState({ top: 0, height: 0 });
  const [size, setSize] = useState<TextSize>({ columns: 0, linePx: 0 });
  const layout = useMemo(
    () => new RowLayout(rows, view === 'lines' ? wrappedPx(size) : () => rowPx),
    [rows, view, rowPx, size],
  );
  const sticks = useRef(true);
  /** The row at the top stays there when rows before it are added or removed. */
  const anchor = useRef({ id: 0, offset: 0 });
  const heightPx = useRef(0);

  /** At the end that is followed, or at the reader's row. */
  const place = (list: HTMLElement): void => {
    if (sticks.current && follows) list.scrollTop = list.scrollHeight;
    else if (rows.length > 0) {
      // Older entries may have joined it to the line before.
      const index = rows.findLastIndex(({ id }) => id <= anchor.current.id);
      list.scrollTop = layout.topOf(Math.max(0, index)) + anchor.current.offset;
    }
  };
  /** After the user or the page has scrolled. */
  const look = (): void => {
    const list = element.current;
    if (list === null) return;
    const height = list.clientHeight;
    const was = heightPx.current;
    heightPx.current = height;
    // Another view is shown, in which the list cannot be scrolled: the place of the reader is kept.
    if (height === 0) return;
    if (was === 0) place(list);
    // A scroll event may come before the observer reports the new size: the list was resized, the reader has not left its end.
    else if (sticks.current && height !== was) list.scrollTop = list.scrollHeight;
    const { scrollTop: top, scrollHeight } = list;
    sticks.current = isAtEnd(top, height, scrollHeight);
    onAtEnd(sticks.current);
    const first = layout.indexAt(top);
    anchor.current = { id: rows[first]?.id ?? 0, offset: top - layout.topOf(first) };
    setSeen((before) => (before.top === top && before.height === height ? before : { top, height }));
  };
  const toEnd = (): void => {
    sticks.current = true;
    element.current?.scrollTo({ top: element.current.scrollHeight });
    look();
  };

  useLayoutEffect(() => {
    const list = element.current;
    if (list === null) return;
    place(list);
    look();
  }, [layout, follows]);
  // The keyboard of a phone, a turned screen, larger letters.
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    const [list, letters] = [element.current, probe.current];
    if (list === null || letters === null) return undefined;
    const observer = new ResizeObserver(() => {
      latest.current();
      setSize((was) => textSize(list, letters) ?? was);
    });
    for (const one of [list, letters]) observer.observe(one);
    return () => observer.disconnect();
  }, []);
  const { top, height } = seen;
  const drawn = layout.drawn(top, height);
  return { element, probe, layout, drawn, first: layout.indexAt(top), hangs: hangs(size), top, height, look, toEnd };
}

/** undefined: another view is shown. */
function textSize(list: HTMLElement, probe: HTMLElement): TextSize | undefined {
  const { width, height } = probe.getBoundingClientRect();
  if (width === 0) return undefined;
  return { columns: Math.floor(((list.clientWidth - SIDES_PX) * PROBE_COLUMNS) / width), linePx: height };
}
