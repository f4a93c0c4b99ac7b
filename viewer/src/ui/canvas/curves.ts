// Draws curves through the lowest and highest value of each column of pixels, so that no extreme is lost at any width.

import type { Curve } from '../../protocol.js';
import { css, type Rgb } from './colour.js';

export interface CurveLine {
  readonly curve: Curve;
  readonly colour: Rgb;
  readonly filled: boolean;
}

/** The plot's edges in pixels, and the bytes at its top. */
export interface CurvePlot {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly high: number;
}

/** Returns the rows of each column's highest and lowest value. If the previous column is entirely
 * above or below, the column is extended to it, so that the line has no gaps. NaN where there's no
 * value. */
export function rows(curve: Curve, plot: CurvePlot): { top: Float64Array; bottom: Float64Array } {
  const { low, high } = curve;
  const n = low.length;
  const y = (bytes: number) =>
    plot.bottom - (Math.min(bytes, plot.high) / plot.high) * (plot.bottom - plot.top);
  const top = new Float64Array(n);
  const bottom = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let [a, b] = [high[i]!, low[i]!];
    if (i > 0 && !Number.isNaN(low[i - 1]!)) {
      if (low[i - 1]! > a) a = low[i - 1]!;
      if (high[i - 1]! < b) b = high[i - 1]!;
    }
    top[i] = y(a);
    bottom[i] = y(b);
  }
  return { top, bottom };
}

/** Draws one curve: one bar per column, at least `line` pixels high. */
export function paintCurve(
  pen: CanvasRenderingContext2D,
  { curve, colour, filled }: CurveLine,
  plot: CurvePlot,
  line: number,
): void {
  const { top, bottom } = rows(curve, plot);
  const step = (plot.right - plot.left) / top.length;
  const bars = (to: (i: number) => number) => {
    pen.beginPath();
    for (let i = 0; i < top.length; i++) {
      if (Number.isNaN(top[i]!)) continue;
      const from = Math.round(plot.left + i * step);
      const y = top[i]! - line / 2;
      pen.rect(from, y, Math.round(plot.left + (i + 1) * step) - from, to(i) - y);
    }
    pen.fill();
  };
  if (filled) {
    pen.fillStyle = css(colour);
    pen.globalAlpha = 0.2;
    bars(() => plot.bottom);
    pen.globalAlpha = 1;
  }
  pen.fillStyle = css(colour);
  bars((i) => bottom[i]! + line / 2);
}
