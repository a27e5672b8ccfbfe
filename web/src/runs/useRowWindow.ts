/** Which rows of a long list of equally high rows are to be drawn: those in sight and some around them. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useState } from "react";

const STEP = 4; //: the window moves by so many rows, not by every pixel
const AT_FIRST = 800; //: pixels, until the height is known

export interface RowWindow {
  readonly from: number;
  readonly to: number; //: not included
}

/** The rows to draw at `scrollTop`, whole steps of them, and one step more at either end. */
export function rowsAt(scrollTop: number, height: number, row: number): RowWindow {
  const first = Math.floor(scrollTop / row / STEP) * STEP;
  const last = Math.ceil((scrollTop + height) / row / STEP) * STEP;
  return { from: Math.max(0, first - STEP), to: last + STEP };
}

export function useRowWindow(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  { row, head }: { row: number; head: number },
): { window: RowWindow; reveal: (index: number) => void } {
  const [drawn, setDrawn] = useState<RowWindow>(() => rowsAt(0, AT_FIRST, row));

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = () => {
      const next = rowsAt(element.scrollTop, element.clientHeight || AT_FIRST, row);
      setDrawn((now) => (now.from === next.from && now.to === next.to ? now : next));
    };
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [scroller, row]);

  // A list that became shorter has its end where nothing was drawn.
  useEffect(() => {
    const element = scroller.current;
    if (element && element.scrollTop > count * row) element.scrollTop = 0;
  }, [scroller, count, row]);

  /** Brings a row into sight, below the head that sticks to the top. */
  const reveal = useCallback(
    (index: number) => {
      const element = scroller.current;
      if (!element) return;
      const top = index * row;
      if (top < element.scrollTop) element.scrollTop = top;
      const bottom = top + row + head - element.clientHeight;
      if (bottom > element.scrollTop) element.scrollTop = bottom;
    },
    [scroller, row, head],
  );
  return { window: { from: Math.min(drawn.from, count), to: Math.min(drawn.to, count) }, reveal };
}
