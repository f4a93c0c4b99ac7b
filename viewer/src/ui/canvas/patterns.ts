// Hatched and striped fills.

import { css, type Rgb } from './colour.js';
import { SvgPen } from './svg.js';

const made = new Map<string, CanvasPattern>();

/** Slanted lines, `step` device pixels apart and `width` wide; the space between stays transparent. */
export function hatched(
  context: CanvasRenderingContext2D,
  colour: Rgb,
  step: number,
  width: number,
): CanvasPattern | string {
  if (context instanceof SvgPen) return context.hatched(css(colour), step, width);
  const key = `${css(colour)} ${step} ${width}`;
  const known = made.get(key);
  if (known) return known;
  const tile = document.createElement('canvas');
  tile.width = step;
  tile.height = step;
  const pen = tile.getContext('2d')!;
  pen.strokeStyle = css(colour);
  pen.lineWidth = width;
  // The line and its neighbours in the next tiles, so that the corners join.
  for (const shift of [-step, 0, step]) {
    pen.beginPath();
    pen.moveTo(shift - 1, step + 1);
    pen.lineTo(shift + step + 1, -1);
    pen.stroke();
  }
  const pattern = context.createPattern(tile, 'repeat')!;
  made.set(key, pattern);
  return pattern;
}
