// The stacked picture: for each column of pixels the moment of its highest use, and what is live then,
// in order of allocation, each at its true height. Of those that share a pixel the one that holds the
// byte at its middle is seen.
//
// From column to column only what changed is worked on, without what comes and goes in between. What
// is live stands in a row of places, in its order, with a tree of sums over it that finds who holds a
// byte. All below the lowest place that changed stays as it was.

import type { Timeline } from './lives.js';

/** Bytes [low, high) from the bottom to the top, and in how many pixels. */
export interface Heights {
  readonly low: number;
  readonly high: number;
  readonly height: number;
}

/** Nobody is there. */
export const NOBODY = -1;

/** Who is seen in each pixel, row by row from the top, of columns that show these moments, which never
 * fall; a negative one shows nothing. */
export function paint(timeline: Timeline, moments: Int32Array, view: Heights): Int32Array {
  const { height } = view;
  const width = moments.length;
  const ids = new Int32Array(width * height).fill(NOBODY);
  const middles = middlesOf(view);
  const column = new Int32Array(height).fill(NOBODY); // from the bottom
  const row = new Row(timeline);
  for (let x = 0; x < width; x++) {
    const moment = moments[x]!;
    if (moment < 0) continue;
    row.go(moment);
    row.fill(middles, column, timeline.usage.at(moment));
    for (let y = 0, i = (height - 1) * width + x; y < height; y++, i -= width) ids[i] = column[y]!;
  }
  return ids;
}

/** Of each row of pixels, from the bottom, the byte at its middle. */
function middlesOf({ low, high, height }: Heights): Float64Array {
  const found = new Float64Array(height);
  for (let row = 0; row < height; row++) found[row] = low + ((row + 0.5) * (high - low)) / height;
  return found;
}

/** How many sums make one of the next level. */
const SHIFT = 4;
const WIDE = 1 << SHIFT;
const MASK = WIDE - 1;
const NOWHERE = 2 ** 31 - 1;
/** Where there is room for it, a row has as many places again as were live when it was set up. */
const LEAST = 1 << 8;

/** Of each allocation its place: one array for all rows, as there is one at a time. */
let places = new Int32Array(0);

/** What is live at a moment, in places that have gaps where something went. */
class Row {
  private moment = -1;
  /** How many have begun, and ended, before the moment. */
  private begun = 0;
  private over = 0;
  /** Who has each place, or had it. */
  private ids = new Int32Array(0);
  private used = 0;
  /** Sums of 16 places, of 16 of these, ... behind the bytes of the places themselves. */
  private sums = new Float64Array(0);
  private levels: number[] = [];
  /** The lowest place that changed since it was painted. */
  private lowest = NOWHERE;

  constructor(private readonly timeline: Timeline) {
    const { length } = timeline.bytes;
    if (places.length < length) places = new Int32Array(length);
  }

  /** On to a moment that is not earlier. */
  go(moment: number): void {
    const { timeline, moment: before } = this;
    if (moment === before) return;
    const { bytes } = timeline;
    const { begin, end, ended } = timeline.ends;
    this.moment = moment;
    if (before < 0) {
      this.begun = timeline.begunBefore(moment);
      this.over = timeline.ends.endedBefore(moment);
      this.ids = timeline.live(moment).filter((id) => bytes[id]! > 0);
      this.used = this.ids.length;
      this.lowest = 0;
      this.plant();
      return;
    }
    let { over, begun } = this;
    for (; over < ended.length; over++) {
      const id = ended[over]!;
      if (end[id]! >= moment) break;
      if (begin[id]! < before && bytes[id]!) this.take(places[id]!, bytes[id]!);
    }
    for (; begun < begin.length && begin[begun]! < moment; begun++) {
      if (end[begun]! >= moment && bytes[begun]!) this.put(begun, bytes[begun]!);
    }
    this.over = over;
    this.begun = begun;
  }

  private put(id: number, bytes: number): void {
    if (this.used === this.ids.length) this.pack();
    const place = this.used++;
    this.ids[place] = id;
    places[id] = place;
    this.add(place, bytes);
  }

  private take(place: number, bytes: number): void {
    this.add(place, -bytes);
  }

  private add(place: number, bytes: number): void {
    const { sums, levels } = this;
    if (place < this.lowest) this.lowest = place;
    for (let k = 0, at = place; k < levels.length; k++, at >>= SHIFT) {
      sums[levels[k]! + at]! += bytes;
    }
  }

  /** Closes the gaps, and makes room for as many again. */
  private pack(): void {
    const { ids, sums, used, lowest } = this;
    let n = 0;
    for (let place = 0; place < used; place++) {
      if (place === lowest) this.lowest = n;
      if (sums[place]) ids[n++] = ids[place]!;
    }
    this.used = n;
    this.plant();
  }

  /** Sets up the tree over what stands in the first places. */
  private plant(): void {
    const { used } = this;
    const room = Math.max(LEAST, (2 * used + MASK) & ~MASK);
    if (this.ids.length < room) {
      const ids = new Int32Array(room);
      ids.set(this.ids.subarray(0, used));
      this.ids = ids;
    }
    this.levels = [];
    let at = 0;
    for (let size = this.ids.length; ; size = (size + MASK) >> SHIFT) {
      this.levels.push(at);
      at += (size + MASK) & ~MASK;
      if (size <= WIDE) break;
    }
    if (this.sums.length < at) this.sums = new Float64Array(at);
    else this.sums.fill(0);
    const { ids, sums, levels } = this;
    const { bytes } = this.timeline;
    for (let place = 0; place < used; place++) {
      const id = ids[place]!;
      places[id] = place;
      sums[place] = bytes[id]!;
    }
    for (let k = 1, size = used; k < levels.length; k++, size = (size + MASK) >> SHIFT) {
      for (let i = 0; i < size; i++) sums[levels[k]! + (i >> SHIFT)]! += sums[levels[k - 1]! + i]!;
    }
  }

  /** What those below a place hold. */
  private below(place: number): number {
    const { sums, levels } = this;
    let sum = 0;
    for (let k = 0, at = place; k < levels.length; k++, at >>= SHIFT) {
      const stop = levels[k]! + at;
      for (let i = stop - (at & MASK); i < stop; i++) sum += sums[i]!;
    }
    return sum;
  }

  /** Who holds the byte in the middle of each pixel of a column, given what the column was before. */
  fill(middles: Float64Array, column: Int32Array, whole: number): void {
    if (this.lowest === NOWHERE) return;
    const { ids, sums, levels } = this;
    const { bytes } = this.timeline;
    const top = levels.length - 1;
    const height = column.length;
    // Where the search is: a node of a level, and what those before it hold.
    let at = this.lowest;
    let k = 0;
    let sum = this.below(at);
    let row = firstRow(middles, sum);
    this.lowest = NOWHERE;
    while (row < height && middles[row]! < whole) {
      const byte = middles[row]!;
      // Up, while none of the nodes beside it holds the byte, then down to the place that does.
      for (; k < top; k++) {
        const base = levels[k]!;
        const stop = (at | MASK) + 1;
        for (; at < stop; at++) {
          const next = sum + sums[base + at]!;
          if (next > byte) break;
          sum = next;
        }
        if (at < stop) break;
        at >>= SHIFT;
      }
      for (; ; k--) {
        const base = levels[k]!;
        for (; ; at++) {
          const next = sum + sums[base + at]!;
          if (next > byte) break;
          sum = next;
        }
        if (!k) break;
        at <<= SHIFT;
      }
      const id = ids[at++]!;
      sum += bytes[id]!;
      do column[row++] = id;
      while (row < height && middles[row]! < sum);
    }
    column.fill(NOBODY, row);
  }
}

/** The first row whose middle is not below so many bytes, nor below 0. */
function firstRow(middles: Float64Array, bytes: number): number {
  let from = 0;
  let to = middles.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (middles[middle]! < bytes) from = middle + 1;
    else to = middle;
  }
  return from;
}
