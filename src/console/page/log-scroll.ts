/** Where a list of rows of one height is scrolled to: it stays with the row the reader looks at, or at the end. */
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Row } from '../rows.ts';
import { isAtEnd } from '../window.ts';

export interface Scroll {
  readonly element: RefObject<HTMLDivElement | null>;
  readonly rowPx: number;
  readonly top: number;
  readonly height: number;
  /** After it was scrolled, by whomever. */
  readonly look: () => void;
  readonly toEnd: () => void;
}

export function useLogScroll(rows: readonly Row[], follows: boolean, onAtEnd: (is: boolean) => void): Scroll {
  const element = useRef<HTMLDivElement>(null);
  const rowPx = useRowHeight();
  const [seen, setSeen] = useState({ top: 0, height: 0 });
  const sticks = useRef(true);
  /** The row at the top: it stays there, whatever comes before it or goes. */
  const anchor = useRef({ id: 0, offset: 0 });

  const look = (): void => {
    const list = element.current;
    if (list === null) return;
    const { scrollTop: top, clientHeight: height, scrollHeight } = list;
    // Another view is shown: the place of the reader is kept.
    if (height === 0) return;
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
    const observer = new ResizeObserver(() => {
      if (sticks.current) list.scrollTop = list.scrollHeight;
      latest.current();
    });
    observer.observe(list);
    return () => observer.disconnect();
  }, []);
  return { element, rowPx, ...seen, look, toEnd };
}

/** Two lines and a finger's height on narrow or touched screens, one line else; as in log.css. */
const dense = matchMedia('(min-width: 900px) and (pointer: fine)');

function useRowHeight(): number {
  const [isDense, setDense] = useState(dense.matches);
  useEffect(() => {
    const look = (): void => setDense(dense.matches);
    dense.addEventListener('change', look);
    return () => dense.removeEventListener('change', look);
  }, []);
  return isDense ? 30 : 52;
}
