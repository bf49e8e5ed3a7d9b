/** Which rows of a long list are drawn: those in sight and a few on each side. Pure. */

export interface Drawn {
  readonly from: number;
  readonly to: number;
}

/** Rows beyond each edge of the view, so that a quick finger does not see an empty list. */
const BEYOND = 8;

export function drawnRows(count: number, rowPx: number, scrollPx: number, viewPx: number): Drawn {
  const first = Math.floor(scrollPx / rowPx) - BEYOND;
  const last = Math.ceil((scrollPx + viewPx) / rowPx) + BEYOND;
  const from = Math.max(0, Math.min(first, count));
  return { from, to: Math.max(from, Math.min(last, count)) };
}

/** A pixel is rounded away on screens of fractional scale. */
const SLACK_PX = 4;

export function isAtEnd(scrollPx: number, viewPx: number, wholePx: number): boolean {
  return scrollPx + viewPx >= wholePx - SLACK_PX;
}

/** Where to scroll so that a row is in sight; the same place where it is already. */
export function scrollToShow(index: number, rowPx: number, scrollPx: number, viewPx: number): number {
  const top = index * rowPx;
  if (top < scrollPx) return top;
  return top + rowPx > scrollPx + viewPx ? top + rowPx - viewPx : scrollPx;
}
