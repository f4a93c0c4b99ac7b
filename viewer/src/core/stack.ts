// The stacked picture: for each column of pixels the moment of its highest use, and what is live then,
// in order of allocation, each at its true height. Of two that share a pixel the one that holds the
// byte at its middle is seen.

import type { Timeline } from './lives.js';

/** What part of the recording is seen, and how large. */
export interface View {
  /** Moments [from, to), of which there may be fewer than columns. */
  readonly from: number;
  readonly to: number;
  /** Bytes [low, high). */
  readonly low: number;
  readonly high: number;
  readonly width: number;
  readonly height: number;
}

/** Nobody is there. */
export const NOBODY = -1;

/** The moment that a column of pixels shows. */
export function moment(timeline: Timeline, view: View, column: number): number {
  const step = (view.to - view.from) / view.width;
  const from = Math.floor(view.from + step * column);
  const to = Math.max(from + 1, Math.floor(view.from + step * (column + 1)));
  return timeline.highest(from, Math.min(to, timeline.events + 1));
}

/** From how many times as many allocations as rows on it is faster to look each row up. */
const CROWDED = 8;

/** Who is seen in each pixel, row by row from the top. */
export function paint(timeline: Timeline, view: View): Int32Array {
  const ids = new Int32Array(view.width * view.height).fill(NOBODY);
  let most = 0;
  const moments = new Int32Array(view.width);
  for (let x = 0; x < view.width; x++) {
    const at = moment(timeline, view, x);
    moments[x] = at;
    most = Math.max(most, timeline.count[at]!);
  }
  if (most > CROWDED * view.height) lookUp(timeline, view, moments, ids);
  else walk(timeline, view, moments, ids);
  return ids;
}

/** The first row whose middle is not below so many pixels from the bottom. */
function firstRow(pixels: number): number {
  return Math.ceil(pixels - 0.5);
}

/** Walks all that is live, in a linked list, for each column. */
export function walk(timeline: Timeline, view: View, moments: Int32Array, ids: Int32Array): void {
  const { changes } = timeline;
  const { bytes } = timeline.lives;
  const { width, height, low } = view;
  const scale = height / (view.high - low);
  const end = bytes.length; // stands for the list itself: its first, and its last
  const next = new Int32Array(end + 1);
  const before = new Int32Array(end + 1);
  const start = timeline.checkpoint(moments[0]!);
  let last = end;
  for (const id of start.ids) {
    next[last] = id;
    before[id] = last;
    last = id;
  }
  next[last] = end;
  before[end] = last;
  let now = start.moment;
  for (let x = 0; x < width; x++) {
    for (; now < moments[x]!; now++) {
      const change = changes[now]!;
      if (change > 0) {
        const id = change - 1;
        const tail = before[end]!;
        next[tail] = id;
        before[id] = tail;
        next[id] = end;
        before[end] = id;
      } else if (change < 0) {
        const id = -change - 1;
        next[before[id]!] = next[id]!;
        before[next[id]!] = before[id]!;
      }
    }
    let top = -low;
    let row = Math.max(firstRow(top * scale), 0);
    for (let id = next[end]!; id !== end && row < height; id = next[id]!) {
      top += bytes[id]!;
      const stop = Math.min(firstRow(top * scale), height);
      for (; row < stop; row++) ids[(height - 1 - row) * width + x] = id;
    }
  }
}

/** Looks up who is at each row's height, by sums over all allocations (a Fenwick tree). */
export function lookUp(timeline: Timeline, view: View, moments: Int32Array, ids: Int32Array): void {
  const { changes, usage } = timeline;
  const { bytes } = timeline.lives;
  const { width, height, low } = view;
  const scale = height / (view.high - low);
  let size = 1;
  while (size < bytes.length + 1) size *= 2;
  const sums = new Float64Array(size + 1);
  const start = timeline.checkpoint(moments[0]!);
  for (const id of start.ids) sums[id + 1] = bytes[id]!;
  for (let i = 1; i <= size; i++) {
    const parent = i + (i & -i);
    if (parent <= size) sums[parent]! += sums[i]!;
  }
  let now = start.moment;
  for (let x = 0; x < width; x++) {
    for (; now < moments[x]!; now++) {
      const change = changes[now]!;
      if (!change) continue;
      const more = change > 0 ? bytes[change - 1]! : -bytes[-change - 1]!;
      for (let i = Math.abs(change); i <= size; i += i & -i) sums[i]! += more;
    }
    const all = usage[moments[x]!]!;
    let row = Math.max(firstRow(-low * scale), 0);
    while (row < height) {
      const byte = low + (row + 0.5) / scale;
      if (byte >= all) break;
      let id = 0;
      let below = 0;
      for (let step = size >> 1; step > 0; step >>= 1) {
        const sum = below + sums[id + step]!;
        if (sum <= byte) {
          id += step;
          below = sum;
        }
      }
      const stop = Math.min(firstRow((below + bytes[id]! - low) * scale), height);
      // Where rounding says otherwise of the row itself, it is that row all the same.
      for (const to = Math.max(stop, row + 1); row < to; row++) {
        ids[(height - 1 - row) * width + x] = id;
      }
    }
  }
}
