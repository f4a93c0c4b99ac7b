// The same as src/core, slowly and obviously: what a test holds it against.

import type { Lives } from '../src/core/lives.js';
import type { View } from '../src/core/stack.js';

/** Who is live after so many events. */
export function live(lives: Lives, moment: number): number[] {
  const found: number[] = [];
  lives.begin.forEach((begin, i) => {
    if (begin < moment && lives.end[i]! >= moment && lives.end[i]! > begin) found.push(i);
  });
  return found;
}

export function usage(lives: Lives, moment: number): number {
  return live(lives, moment).reduce((sum, i) => sum + lives.bytes[i]!, 0);
}

/** The moment of a column. */
export function moment(lives: Lives, events: number, view: View, column: number): number {
  const step = (view.to - view.from) / view.width;
  const from = Math.floor(view.from + step * column);
  const to = Math.max(from + 1, Math.floor(view.from + step * (column + 1)));
  let best = from;
  for (let m = from; m < Math.min(to, events + 1); m++) {
    if (usage(lives, m) > usage(lives, best)) best = m;
  }
  return best;
}

/** Who holds the byte in the middle of a pixel. */
export function pixel(lives: Lives, events: number, view: View, x: number, row: number): number {
  const byte = view.low + ((row + 0.5) * (view.high - view.low)) / view.height;
  let top = 0;
  for (const i of live(lives, moment(lives, events, view, x))) {
    if (byte >= top && byte < top + lives.bytes[i]!) return i;
    top += lives.bytes[i]!;
  }
  return -1;
}
