// The stacked picture: for each column of pixels the moment of its highest use, and what is live then,
// in order of allocation, each at its true height. Of those that share a pixel the one that holds the
// byte at its middle is seen.
//
// From column to column only what changed is worked on, without what comes and goes in between. What
// is live stands in places in its order, which are added up in chunks, so that it is quick to find who
// holds a byte. All below the lowest place that changed stays as it was.

import type { Counts } from './columns.js';
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
  const live = new Places(timeline, height);
  for (let x = 0; x < width; x++) {
    const moment = moments[x]!;
    if (moment < 0) continue;
    live.go(moment);
    live.fill(middles, column);
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

const NOWHERE = 2 ** 31 - 1;
/** There is room for so many times as many as are live when it is made, and for so many at least. */
const ROOM = 2;
const LEAST_ROOM = 1 << 12;

/** Of each allocation its place, NOWHERE if it holds no bytes: one array for all, as there is one `Places` at a time. */
let places = new Int32Array(0);

/** What is live at a moment, in places that have gaps where something went. Places are added up in
 * chunks, of which there are about as many as places are looked at within one. */
class Places {
  private moment = -1;
  /** How many have begun, and ended, before the moment. */
  private begun = 0;
  private over = 0;
  /** Who has each place, or had it. */
  private ids = new Int32Array(0);
  private used = 0;
  /** Bytes of each place, and of each chunk of them. */
  private sums: Counts = new Uint32Array(0);
  private chunks = new Float64Array(0);
  private shift = 0;
  /** The lowest place that changed since it was painted. */
  private lowest = NOWHERE;

  /** To be painted in so many rows of pixels. */
  constructor(
    private readonly timeline: Timeline,
    private readonly rows: number,
  ) {
    const { length } = timeline.bytes;
    if (places.length < length) places = new Int32Array(length);
  }

  /** On to a moment that is not earlier. */
  go(moment: number): void {
    const { timeline, moment: before } = this;
    if (moment === before) return;
    const { begun, over } = this;
    const { end, ended } = timeline.ends;
    const { bytes } = timeline;
    this.moment = moment;
    this.begun = timeline.begunBefore(moment);
    this.over = timeline.ends.endedBefore(moment);
    if (before < 0) {
      const live = timeline.live(moment);
      for (const id of live) places[id] = NOWHERE;
      this.ids = live.filter((id) => bytes[id]! > 0);
      this.sums = bytes.slice(0, this.ids.length);
      for (const [place, id] of this.ids.entries()) this.sums[place] = bytes[id]!;
      this.used = this.ids.length;
      this.lowest = 0;
      this.settle();
      return;
    }
    for (let i = over; i < this.over; i++) {
      // What began since the moment before has no place.
      if (ended[i]! < begun) this.take(places[ended[i]!]!);
    }
    for (let id = begun; id < this.begun; id++) {
      if (end[id]! < moment) continue;
      if (bytes[id]!) this.put(id, bytes[id]!);
      else places[id] = NOWHERE;
    }
  }

  private put(id: number, bytes: number): void {
    if (this.used === this.ids.length) this.pack();
    const place = this.used++;
    this.ids[place] = id;
    places[id] = place;
    this.sums[place] = bytes;
    this.chunks[place >> this.shift]! += bytes;
    if (place < this.lowest) this.lowest = place;
  }

  private take(place: number): void {
    if (place === NOWHERE) return;
    const bytes = this.sums[place]!;
    this.sums[place] = 0;
    this.chunks[place >> this.shift]! -= bytes;
    if (place < this.lowest) this.lowest = place;
  }

  /** Closes the gaps. */
  private pack(): void {
    const { ids, sums, used, lowest } = this;
    let n = 0;
    for (let place = 0; place < used; place++) {
      const bytes = sums[place]!;
      if (place === lowest) this.lowest = n;
      ids[n] = ids[place]!;
      sums[n] = bytes;
      n += bytes ? 1 : 0;
    }
    sums.fill(0, n, used);
    this.used = n;
    this.settle();
  }

  /** Makes room behind what stands in the first places, and adds it up. */
  private settle(): void {
    const { used } = this;
    const room = Math.max(LEAST_ROOM, ROOM * used);
    if (this.ids.length < room) {
      const [ids, sums] = [this.ids.subarray(0, used), this.sums.subarray(0, used)];
      this.ids = new Int32Array(room);
      this.sums = sums instanceof Uint32Array ? new Uint32Array(room) : new Float64Array(room);
      this.ids.set(ids);
      this.sums.set(sums);
      this.shift = Math.round(Math.log2(Math.sqrt((2 * room) / this.rows) + 3));
      this.chunks = new Float64Array((room >> this.shift) + 1);
    } else this.chunks.fill(0);
    const { ids, sums, chunks, shift } = this;
    for (let place = 0; place < used; place++) {
      places[ids[place]!] = place;
      chunks[place >> shift]! += sums[place]!;
    }
  }

  /** Who holds the byte in the middle of each pixel of a column, given what the column was before. */
  fill(middles: Float64Array, column: Int32Array): void {
    if (this.lowest === NOWHERE) return;
    const { ids, sums, chunks, shift } = this;
    const height = column.length;
    const whole = this.timeline.usage.at(this.moment);
    let chunk = this.lowest >> shift;
    let at = chunk << shift;
    let sum = 0; // of all below `at`
    for (let c = 0; c < chunk; c++) sum += chunks[c]!;
    let edge = sum + chunks[chunk]!; // of all up to the end of the chunk
    for (; at < this.lowest; at++) sum += sums[at]!;
    let row = firstRow(middles, sum);
    this.lowest = NOWHERE;
    while (row < height && middles[row]! < whole) {
      const byte = middles[row]!;
      if (edge <= byte) {
        do {
          sum = edge;
          edge += chunks[++chunk]!;
        } while (edge <= byte);
        at = chunk << shift;
      }
      let top = sum + sums[at]!;
      while (top <= byte) {
        sum = top;
        top += sums[++at]!;
      }
      const id = ids[at++]!;
      sum = top;
      do column[row++] = id;
      while (row < height && middles[row]! < top);
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
