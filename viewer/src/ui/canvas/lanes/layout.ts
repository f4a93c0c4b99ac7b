// Ranges along an axis, laid into rows: one inside another goes below it, and no two of a row overlap.

/** Ranges in columns: a million of them are no million objects. */
export interface Ranges {
  readonly from: Float64Array;
  readonly to: Float64Array;
}

/** A row, from left to right: the numbers of its ranges. */
export type Row = Int32Array;

export interface Laid {
  /** The first rows. */
  readonly rows: readonly Row[];
  /** Those that found no place in them, in the order of their beginnings. */
  readonly more: Row;
}

/** Lays ranges into at most so many rows. */
export function laid(ranges: Ranges, most: number): Laid {
  const { from, to } = ranges;
  const order = ordered(ranges);
  const rowOf = new Int32Array(order.length);
  const counts = new Int32Array(most + 1);
  // Of each row the last range in it: one at most can still go on.
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
        // It is inside of this one, and goes below it, whatever is free above.
        row = -1;
      }
    }
    if (row < 0) row = last.length;
    // What is inside of one without a place has none either.
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

/** Numbers of ranges by their beginnings, of equal ones the longer first; else as they stand. */
export function ordered({ from, to }: Ranges): Int32Array {
  const size = from.length;
  let sorted = true;
  for (let i = 1; i < size && sorted; i++) sorted = from[i - 1]! <= from[i]!;
  const order = sorted ? upTo(size) : byValue(from);
  for (let start = 0; start < size; ) {
    let stop = start + 1;
    while (stop < size && from[order[stop]!] === from[order[start]!]) stop++;
    // Of equal numbers a sort leaves the order as it is.
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

/** The places of numbers from the least to the largest one, of equal ones the first first: a radix
 * sort, since comparing a million takes too long. */
function byValue(values: Float64Array): Int32Array {
  const size = values.length;
  const copy = new Float64Array(size);
  // -0 is 0 here, too.
  for (let i = 0; i < size; i++) copy[i] = values[i]! + 0;
  const bits = new Uint16Array(copy.buffer);
  // As the bits of floats are, larger ones have larger bits, but for negative ones.
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
    // All have the same: whole numbers have no last digits.
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

/** A bar to draw: a range's, or one for several that are narrower than a pixel. */
export interface Bar {
  /** The number of the range: of several the first. */
  readonly range: number;
  /** 0: of one range; else of how many. */
  readonly merged: number;
  /** In pixels. */
  readonly from: number;
  readonly to: number;
}

/** What part of the axis is seen: pixel = (x - start) * scale. */
export interface Seen {
  readonly start: number;
  readonly scale: number;
  /** Pixels. */
  readonly width: number;
}

/** The bars of a row that are seen. Only as many ranges are looked at as there are pixels. */
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
    // All that begin in this pixel; the last of them may be wide, and is then a bar of its own.
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

/** The place of the first range in a row that ends behind x, or at it where it is no longer than a
 * point. */
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

/** The place of the first range in a row, from place k on, that begins at x or behind. */
function firstFrom(from: Float64Array, row: Row, k: number, x: number): number {
  // Steps that double: what is looked for is near, as a rule.
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

/** The bar at a pixel; narrow ones are as wide as `least` pixels around them. -1 for none. */
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
