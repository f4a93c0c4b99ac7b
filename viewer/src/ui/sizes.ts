// Sizes on the page, in CSS pixels, and their changes.

import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** The width of byte labels: the same for everything that shares the axis. */
export const LEFT = 72;

export interface PlotSize {
  readonly width: number;
  readonly height: number;
  readonly dpr: number;
}

/** The size of an element, 0 before it has one. */
export function usePlotSize(element: RefObject<HTMLElement | null>): PlotSize {
  const [found, setFound] = useState<PlotSize>({ width: 0, height: 0, dpr: 1 });
  useEffect(() => {
    const one = element.current;
    if (!one) return;
    const measure = () => {
      const { width, height } = one.getBoundingClientRect();
      setFound({ width, height, dpr: globalThis.devicePixelRatio || 1 });
    };
    const watch = new ResizeObserver(measure);
    watch.observe(one);
    measure();
    return () => watch.disconnect();
  }, []);
  return found;
}
