// The allocations of a device over its events, by one measure: what is live when, and how many bytes
// that is. Nothing is kept of any moment but its bytes: who is live follows from two sorted lists, of
// begins and of ends.

import type { Counts } from './columns.js';
import { lowerBound, Series } from './curve.js';

/** Of each allocation, in the order in which they were made. Events count from 0; -1 is before the
 * first one, and what never ends does so behind the last one. What does not end after it begins is
 * live at no moment. */
export interface Lives {
  readonly begin: Int32Array;
  readonly end: Int32Array;
  readonly bytes: Counts;
}

/** Allocations of which the last end is known are these many. */
const SHIFT = 6;

/** Who ends when, and blocks of allocations with the last of their ends: the same for measures that
 * count until the same events. */
export class Ends {
  // Made when somebody asks: for bytes alone nobody does.
  private inOrder: Int32Array | null = null;
  private lasts: readonly [Int32Array, Int32Array] | null = null;

  constructor(
    readonly begin: Int32Array,
    readonly end: Int32Array,
    readonly events: number,
  ) {}

  /** All that end with an event, in the order in which they do. */
  get ended(): Int32Array {
    this.inOrder ??= this.sorted();
    return this.inOrder;
  }

  /** Of each 64 allocations the last end, and of each 64 of these again. */
  get last(): readonly [Int32Array, Int32Array] {
    if (!this.lasts) {
      const one = highest(this.end);
      this.lasts = [one, highest(one)];
    }
    return this.lasts;
  }

  private sorted(): Int32Array {
    const { begin, end, events } = this;
    const n = begin.length;
    // How many end with each event, then where those of an event stand.
    const at = new Int32Array(events + 1);
    let all = 0;
    for (let i = 0; i < n; i++) {
      if (end[i]! > begin[i]! && end[i]! < events) {
        at[end[i]!]!++;
        all++;
      }
    }
    let sum = 0;
    for (let e = 0; e < events; e++) {
      const here = at[e]!;
      at[e] = sum;
      sum += here;
    }
    const found = new Int32Array(all);
    for (let i = 0; i < n; i++) {
      const e = end[i]!;
      if (e > begin[i]! && e < events) found[at[e]!++] = i;
    }
    return found;
  }

  /** How many of `ended` do so before an event. */
  endedBefore(event: number): number {
    const { ended, end } = this;
    let from = 0;
    let to = ended.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (end[ended[middle]!]! < event) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

function highest(values: Int32Array): Int32Array {
  const found = new Int32Array(Math.ceil(values.length / (1 << SHIFT))).fill(-1);
  for (let i = 0; i < values.length; i++) {
    if (values[i]! > found[i >> SHIFT]!) found[i >> SHIFT] = values[i]!;
  }
  return found;
}

/** A moment m is between events: after m of them; moment 0 is the start, and there is one more moment
 * than events. An allocation is live at m where begin < m <= end. */
export class Timeline {
  readonly events: number;
  /** Bytes at each moment. */
  readonly usage: Series;

  constructor(
    readonly bytes: Counts,
    readonly ends: Ends,
  ) {
    const { begin, end, events } = ends;
    this.events = events;
    const usage = new Float64Array(events + 1);
    for (let i = 0; i < begin.length; i++) {
      if (end[i]! <= begin[i]!) continue;
      usage[begin[i]! + 1]! += bytes[i]!;
      if (end[i]! < events) usage[end[i]! + 1]! -= bytes[i]!;
    }
    let now = 0;
    for (let m = 0; m <= events; m++) {
      now += usage[m]!;
      usage[m] = now;
    }
    this.usage = new Series(usage, null, events + 1);
  }

  /** How many began before a moment: these are the first ones. */
  begunBefore(moment: number): number {
    return lowerBound(this.ends.begin, moment);
  }

  /** Who is live at a moment, in order of allocation. */
  live(moment: number): Int32Array {
    const { end } = this.ends;
    const [last, lastOfMany] = this.ends.last;
    const stop = this.begunBefore(moment);
    let found = new Int32Array(1 << 10);
    let n = 0;
    for (let k = 0; k << (2 * SHIFT) < stop; k++) {
      if (lastOfMany[k]! < moment) continue;
      const blocks = Math.min((k + 1) << SHIFT, last.length);
      for (let b = k << SHIFT; b < blocks; b++) {
        if (last[b]! < moment) continue;
        const to = Math.min((b + 1) << SHIFT, stop);
        if (n + (1 << SHIFT) > found.length) found = grown(found);
        for (let i = b << SHIFT; i < to; i++) if (end[i]! >= moment) found[n++] = i;
      }
    }
    return found.slice(0, n);
  }
}

/** The same numbers in an array twice as large. */
export function grown(numbers: Int32Array): Int32Array<ArrayBuffer> {
  const found = new Int32Array(2 * numbers.length);
  found.set(numbers);
  return found;
}
