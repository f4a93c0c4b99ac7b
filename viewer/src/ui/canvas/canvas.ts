// A canvas in a component: as large as its container, at the screen's resolution, redrawn at most once per frame.

import type { RefObject } from 'preact';
import { useCallback, useLayoutEffect, useRef } from 'preact/hooks';
import { SvgPen } from './svg.js';
import { type Theme, themeAt, whenThemeChanges } from './theme.js';

/** The drawing surface. All coordinates are device pixels, so that edges are sharp. */
export interface Surface {
  readonly pen: CanvasRenderingContext2D;
  /** The canvas's size in device pixels. */
  readonly width: number;
  readonly height: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  readonly theme: Theme;
  /** Whether all content is drawn, from the top, instead of the visible part. */
  readonly whole?: boolean;
}

export interface Drawn {
  /** The element that has the visible size; it may scroll. */
  readonly frame: RefObject<HTMLDivElement | null>;
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  /** Redraws in the next frame, only once even if it's called several times. */
  readonly redraw: () => void;
}

type Draw = (surface: Surface) => void;

/** What draws each canvas. */
const drawing = new WeakMap<HTMLCanvasElement, { frame: HTMLDivElement; draw: Draw }>();

/** A canvas's whole content as SVG, with its size in CSS pixels; null if there is none. */
export function svgOf(
  canvas: HTMLCanvasElement,
): { readonly svg: string; readonly width: number; readonly height: number } | null {
  const known = drawing.get(canvas);
  if (!known) return null;
  const { clientWidth: width, scrollHeight: height } = known.frame;
  const pen = new SvgPen();
  known.draw({
    pen: pen as unknown as CanvasRenderingContext2D,
    width,
    height,
    ratio: 1,
    theme: themeAt(canvas),
    whole: true,
  });
  return { svg: pen.text, width, height };
}

/** Draws after each render, and when the size, the resolution or the theme change. */
export function useCanvas(draw: Draw): Drawn {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  const waiting = useRef(0);
  latest.current = draw;

  const redraw = useCallback(() => {
    if (waiting.current) return;
    waiting.current = requestAnimationFrame(() => {
      waiting.current = 0;
      if (frame.current && canvas.current) drawOn(frame.current, canvas.current, latest.current);
    });
  }, []);

  useLayoutEffect(() => {
    drawing.set(canvas.current!, { frame: frame.current!, draw: latest.current });
    redraw();
  });
  useLayoutEffect(() => {
    const sizes = new ResizeObserver(redraw);
    sizes.observe(frame.current!);
    const endTheme = whenThemeChanges(redraw);
    const endRatio = whenRatioChanges(redraw);
    return () => {
      sizes.disconnect();
      endTheme();
      endRatio();
      cancelAnimationFrame(waiting.current);
      waiting.current = 0;
    };
  }, [redraw]);
  return { frame, canvas, redraw };
}

function drawOn(frame: HTMLDivElement, canvas: HTMLCanvasElement, draw: Draw): void {
  const ratio = devicePixelRatio || 1;
  const width = Math.round(frame.clientWidth * ratio);
  const height = Math.round(frame.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  // Whole device pixels in CSS pixels, so that nothing is drawn beyond the edge.
  const style = canvas.style;
  const wide = `${width / ratio}px`;
  const high = `${height / ratio}px`;
  if (style.width !== wide) style.width = wide;
  if (style.height !== high) style.height = high;
  const pen = canvas.getContext('2d');
  if (!pen || width === 0 || height === 0) return;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.globalAlpha = 1;
  const theme = themeAt(canvas);
  pen.clearRect(0, 0, width, height);
  draw({ pen, width, height, ratio, theme });
}

/** Runs a callback when the window moves to a screen with another resolution, or is zoomed. */
function whenRatioChanges(call: () => void): () => void {
  let query: MediaQueryList | null = null;
  const changed = () => {
    query?.removeEventListener('change', changed);
    query = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    query.addEventListener('change', changed);
    call();
  };
  changed();
  return () => query?.removeEventListener('change', changed);
}

/** The font at this many CSS pixels. */
export function fontOf(surface: Surface, pixels: number, weight = 400): string {
  return `${weight} ${pixels * surface.ratio}px ${surface.theme.font}`;
}
