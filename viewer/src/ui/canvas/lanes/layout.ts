// Arranges ranges along an axis in rows: a range inside another goes below it, and no two in a row overlap.

/** Ranges stored in columns, so that a million of them don't need a million objects. */
export interface Ranges {
  readonly from: Float64Array;
  readonly to: Float64Array;
}

/** Each row's range numbers, from left to right. */
export type Row = Int32Array;

export interface Laid {
  /** The first rows. */
  readonly rows: readonly Row[];
  /** Ranges that didn't fit in these rows, in order of their starts. */
  readonly more: Row;
}

/** Arranges ranges in at most this many rows. */
export function laid(ranges: Ranges, most: number): Laid {
  const { from, to } = ranges;
  const order = ordered(ranges);
  const rowOf = new Int32Array(order.length);
  const counts = new Int32Array(most + 1);
  // Each row's last range; at most that one can still be open.
  const last: number[] = [];
  let hidden = Number.NEGATIVE_INFINITY;
  for (let k = 0; k < order.length; k++) {
    const one = order[k]!;
    const [start, stop] = [from[one]!, to[one]!];
    let row = -1;
    for (let r = 0; r < last.length; r++) {
      const other = last[r]!;
      const same = from[other] === start && to[other] === stop;
      if (to[other]! <= start && !same) {
        if (row < 0) row = r;
      } else if (to[other]! >= stop) {
        // The new range is inside this one, so it goes below, even if a row above is free.
        row = -1;
      }
    }
    if (row < 0) row = last.length;
    // A range inside one that didn't fit doesn't fit either.
    if (row >= most || (hidden > start && hidden >= stop)) {
      row = most;
      hidden = Math.max(hidden, stop);
    } else last[row] = one;
    rowOf[k] = row;
    counts[row]! += 1;
  }
  const rows = Array.from(counts, (n) => new Int32Array(n));
  const filled = new Int32Array(most + 1);
  for (let k = 0; k < order.length; k++) {
    const row = rowOf[k]!;
    rows[row]![filled[row]!] = order[k]!;
    filled[row]! += 1;
  }
  const more = rows.pop()!;
  return { rows: rows.slice(0, last.length), more };
}

/** Range numbers sorted by start, then longer ones first; otherwise the order is kept. */
export function ordered({ from, to }: Ranges): Int32Array {
  const size = from.length;
  let sorted = true;
  for (let i = 1; i < size && sorted; i++) sorted = from[i - 1]! <= from[i]!;
  const order = sorted ? upTo(size) : byValue(from);
  for (let start = 0; start < size; ) {
    let stop = start + 1;
    while (stop < size && from[order[stop]!] === from[order[start]!]) stop++;
    // The sort is stable.
    if (stop > start + 1)
      order.subarray(start, stop).sort((one, other) => to[other]! - to[one]! || one - other);
    start = stop;
  }
  return order;
}

function upTo(size: number): Int32Array<ArrayBuffer> {
  const found = new Int32Array(size);
  for (let i = 0; i < size; i++) found[i] = i;
  return found;
}

const DIGIT = 16;
const DIGITS = 1 << DIGIT;

/** Returns the indices of numbers in ascending order; equal numbers keep their order. Uses a radix
 * sort, because comparing a million numbers takes too long. */
function byValue(values: Float64Array): Int32Array {
  const size = values.length;
  const copy = new Float64Array(size);
  // Treat -0 as 0.
  for (let i = 0; i < size; i++) copy[i] = values[i]! + 0;
  const bits = new Uint16Array(copy.buffer);
  // Larger floats have larger bit patterns, except for negative ones.
  for (let i = 0; i < size; i++) {
    const high = 4 * i + 3;
    const flip = bits[high]! & 0x8000 ? 0xffff : 0;
    for (let digit = 4 * i; digit < high; digit++) bits[digit]! ^= flip;
    bits[high]! ^= flip || 0x8000;
  }
  let order = upTo(size);
  let spare = new Int32Array(size);
  for (let digit = 0; digit < 4; digit++) {
    const starts = new Int32Array(DIGITS + 1);
    for (let i = digit; i < 4 * size; i += 4) starts[bits[i]! + 1]! += 1;
    // All values have the same digit here, which is common for whole numbers.
    if (starts[bits[digit]! + 1] === size) continue;
    for (let i = 0; i < DIGITS; i++) starts[i + 1]! += starts[i]!;
    for (let k = 0; k < size; k++) {
      const one = order[k]!;
      const at = bits[4 * one + digit]!;
      spare[starts[at]!] = one;
      starts[at]! += 1;
    }
    [order, spare] = [spare, order];
  }
  return order;
}

/** A bar to draw: for one range, or for several that are narrower than a pixel. */
export interface Bar {
  /** The number of the range, or of the first one. */
  readonly range: number;
  /** 0: one range; otherwise the number of ranges. */
  readonly merged: number;
  /** In pixels. */
  readonly from: number;
  readonly to: number;
}

/** The visible part of the axis: pixel = (x - start) * scale. */
export interface Seen {
  readonly start: number;
  readonly scale: number;
  /** Pixels. */
  readonly width: number;
}

/** A row's visible bars. Only about as many ranges are examined as there are pixels. */
export function barsOf(ranges: Ranges, row: Row, seen: Seen): Bar[] {
  const { from, to } = ranges;
  const { start, scale, width } = seen;
  const bars: Bar[] = [];
  const pixel = (x: number) => (x - start) * scale;
  let k = firstEnding(ranges, row, start);
  while (k < row.length) {
    const range = row[k]!;
    const left = pixel(from[range]!);
    if (left >= width) break;
    const right = pixel(to[range]!);
    if (right - left >= 1) {
      bars.push({ range, merged: 0, from: left, to: right });
      k++;
      continue;
    }
    // All ranges that begin in this pixel; if the last one is wide, it gets its own bar.
    const edge = Math.floor(left) + 1;
    let next = firstFrom(from, row, k, start + edge / scale);
    if (next <= k) next = k + 1;
    if (next - k > 1 && pixel(to[row[next - 1]!]!) - pixel(from[row[next - 1]!]!) >= 1) next--;
    const end = Math.max(Math.min(pixel(to[row[next - 1]!]!), edge + 1), edge);
    const before = bars.at(-1);
    if (before?.merged && before.to >= Math.floor(left)) {
      bars[bars.length - 1] = { ...before, merged: before.merged + next - k, to: end };
    } else {
      bars.push({ range, merged: next - k, from: Math.floor(left), to: end });
    }
    k = next;
  }
  return bars.map((bar) => (bar.merged === 1 ? { ...bar, merged: 0 } : bar));
}

/** Returns the index of the first range in a row that ends after x, or begins at or after x. */
export function firstEnding({ from, to }: Ranges, row: Row, x: number): number {
  let low = 0;
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const one = row[middle]!;
    if (to[one]! > x || from[one]! >= x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The index of the first range in a row, from index k on, that begins at or after x. */
function firstFrom(from: Float64Array, row: Row, k: number, x: number): number {
  // Use doubling steps, because the result is usually near.
  let step = 1;
  let low = k;
  while (low + step < row.length && from[row[low + step]!]! < x) {
    low += step;
    step *= 2;
  }
  let high = Math.min(low + step, row.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (from[row[middle]!]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The bar at a pixel; narrow bars count as at least `least` pixels wide. -1 for none. */
export function barAt(bars: readonly Bar[], x: number, least: number): number {
  let found = -1;
  let nearest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < bars.length; i++) {
    const { from, to } = bars[i]!;
    if (from <= x && x < to) return i;
    const away = x < from ? from - x : x - to;
    if (away < least && away < nearest) [found, nearest] = [i, away];
  }
  return found;
}
