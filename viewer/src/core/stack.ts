// The stacked picture: each column of pixels shows the moment with the most bytes in it, and the
// allocations that are live then, in order of allocation, each at its exact height. If several
// allocations share a pixel, it shows the one that holds the byte at the pixel's middle.
//
// From column to column, only changes are processed. Allocations that begin and end between two
// columns are skipped. Live allocations occupy places in order. Their bytes are summed up in
// chunks, so that finding the holder of a byte is quick. Everything below the lowest changed place
// stays the same.

import type { Counts } from './columns.js';
import type { Timeline } from './lives.js';

/** The picture shows bytes [low, high), from bottom to top, in this many rows of pixels. */
export interface Heights {
  readonly low: number;
  readonly high: number;
  readonly height: number;
}

/** No allocation. */
export const NOBODY = -1;

/** Returns the allocation seen in each pixel, row by row from the top. Each column shows one of
 * `moments`, which never decrease; a negative moment shows nothing. */
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

/** The byte at the middle of each row of pixels, from the bottom. */
function middlesOf({ low, high, height }: Heights): Float64Array {
  const found = new Float64Array(height);
  for (let row = 0; row < height; row++) found[row] = low + ((row + 0.5) * (high - low)) / height;
  return found;
}

const NOWHERE = 2 ** 31 - 1;
/** The initial room for places: this many times the number of live allocations, and a minimum. */
const ROOM = 2;
const LEAST_ROOM = 1 << 12;

/** Each allocation's place; NOWHERE if it holds no bytes. One shared array is enough, because there's only one `Places` at a time. */
let places = new Int32Array(0);

/** The live allocations at a moment, each in a place; places of freed allocations are gaps. Bytes
 * are summed up in chunks of places. There are about as many chunks as places in a chunk. */
class Places {
  private moment = -1;
  /** The number of allocations that began, and that ended, before the moment. */
  private begun = 0;
  private over = 0;
  /** The allocation that has, or had, each place. */
  private ids = new Int32Array(0);
  private used = 0;
  /** Bytes of each place, and of each chunk of places. */
  private sums: Counts = new Uint32Array(0);
  private chunks = new Float64Array(0);
  private shift = 0;
  /** The lowest place that has changed since the last painting. */
  private lowest = NOWHERE;

  /** Prepares painting in this many rows of pixels. */
  constructor(
    private readonly timeline: Timeline,
    private readonly rows: number,
  ) {
    const { length } = timeline.bytes;
    if (places.length < length) places = new Int32Array(length);
  }

  /** Moves on to a moment that isn't earlier. */
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
      // Allocations that began since the previous moment have no place yet.
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

  /** Compacts the occupied places at the start to make room, and sums up their bytes. */
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

  /** Finds the holder of the byte in the middle of each pixel of a column, given the previous column. */
  fill(middles: Float64Array, column: Int32Array): void {
    if (this.lowest === NOWHERE) return;
    const { ids, sums, chunks, shift } = this;
    const height = column.length;
    const whole = this.timeline.usage.at(this.moment);
    let chunk = this.lowest >> shift;
    let at = chunk << shift;
    let sum = 0; // bytes of all places below `at`
    for (let c = 0; c < chunk; c++) sum += chunks[c]!;
    let edge = sum + chunks[chunk]!; // bytes of all places up to the end of the chunk
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

/** The first row whose middle isn't below this many bytes, nor below 0. */
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
