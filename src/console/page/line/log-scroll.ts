/** The scroll position of the log: it stays at the reader's row, or at the end. */
import { elementScroll, type Rect, Virtualizer } from '@tanstack/virtual-core';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { hangs, type TextSize, wrappedPx } from '../../row-height.ts';
import type { ShownRow } from '../../rows.ts';
import type { LogView } from '../../selection.ts';
import { useMedia } from '../parts.tsx';

/** Characters of the element that shows how wide one is: `.probe` of log.css. */
const PROBE_COLUMNS = 50;
/** Of the list, left and right of a row's text: as in log.css. */
const SIDES_PX = 16;
/** Rows that are drawn beyond each edge of the view, so that a quick finger does not see an empty list. */
const OVERSCAN_ROWS = 12;
/** Screens of fractional scale round to whole pixels. */
const SLACK_PX = 4;

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
  const [size, setSize] = useState<TextSize>({ columns: 0, linePx: 0 });
  const heights = useMemo(() => {
    const heightOf = view === 'lines' ? wrappedPx(size) : () => rowPx;
    return rows.map(heightOf);
  }, [rows, view, rowPx, size]);
  const [virtual, report] = useVirtualizer(element, rows, heights);
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
      list.scrollTop = topFor(virtual, Math.max(0, index), 'start') + anchor.current.offset;
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
    sticks.current = top + height >= scrollHeight - SLACK_PX;
    onAtEnd(sticks.current);
    report(list);
    const first = virtual.getVirtualItemForOffset(top);
    anchor.current = { id: Number(first?.key ?? 0), offset: top - (first?.start ?? 0) };
  };
  /** Scrolls no further than a row needs to be seen, or so that it is in the middle; a row that is higher than the view shows its begin. */
  const toRow = (index: number, align: 'auto' | 'center'): void => {
    const list = element.current;
    if (list === null) return;
    list.scrollTop = topFor(virtual, index, (heights[index] ?? 0) > list.clientHeight ? 'start' : align);
    look();
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
  }, [heights, follows]);
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
  return { element, probe, virtual, hangs: hangs(size), look, toEnd, toRow };
}

type Virtual = Virtualizer<HTMLElement, HTMLElement>;

/** Those of `rows` that are in sight: their heights are known, none is measured. And how to report that the list was scrolled or resized. */
function useVirtualizer(element: RefObject<HTMLElement | null>, rows: readonly ShownRow[], heights: readonly number[]) {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const reports = useRef<((list: HTMLElement) => void)[]>([]);
  // Another function for other heights: the library then asks for all of them again.
  const getItemKey = useMemo(() => (index: number) => rows[index]?.id ?? 0, [heights]);
  const options = {
    count: rows.length,
    getScrollElement: () => element.current,
    getItemKey,
    estimateSize: (index: number) => heights[index] ?? 0,
    overscan: OVERSCAN_ROWS,
    scrollToFn: elementScroll,
    // At once, not with the next event: what is drawn and where the reader is belong together.
    observeElementRect: (_: Virtual, size: (rect: Rect) => void) => {
      reports.current.push(({ clientWidth: width, clientHeight: height }) => size({ width, height }));
    },
    observeElementOffset: (_: Virtual, offset: (px: number, isScrolling: boolean) => void) => {
      reports.current.push(({ scrollTop }) => offset(scrollTop, false));
    },
    onChange: draw,
  };
  const [virtual] = useState<Virtual>(() => new Virtualizer(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  return [
    virtual,
    (list: HTMLElement): void => {
      for (const to of reports.current) to(list);
    },
  ] as const;
}

/** The scroll position for a row: the element's, not the library's way to it, which would follow the index while other rows come. */
function topFor(virtual: Virtual, index: number, align: 'start' | 'auto' | 'center'): number {
  return virtual.getOffsetForIndex(index, align)?.[0] ?? 0;
}

/** undefined: another view is shown. */
function textSize(list: HTMLElement, probe: HTMLElement): TextSize | undefined {
  const { width, height } = probe.getBoundingClientRect();
  if (width === 0) return undefined;
  return { columns: Math.floor(((list.clientWidth - SIDES_PX) * PROBE_COLUMNS) / width), linePx: height };
}
