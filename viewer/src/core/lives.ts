// A device's allocations over its events, by one measure: which are live when, and how many bytes
// they hold. For each moment, only its byte count is stored. The set of allocations live at a
// moment is computed from two sorted lists, one of start events and one of end events.

import type { Counts } from './columns.js';
import { lowerBound, Series } from './curve.js';

/** One entry per allocation, in the order in which they were made. Events count from 0; -1 is
 * before the first event. An allocation that never ends has an end after the last event. An
 * allocation that doesn't end after it begins is never live. */
export interface Lives {
  readonly begin: Int32Array;
  readonly end: Int32Array;
  readonly bytes: Counts;
}

/** The last end is stored for each group of this many allocations. */
const SHIFT = 6;

/** The allocations in the order of their ends, and the last end in each group of allocations.
 * Measures that stop counting at the same events share this object. */
export class Ends {
  // Computed on first use, because byte counts don't need it.
  private inOrder: Int32Array | null = null;
  private lasts: readonly [Int32Array, Int32Array] | null = null;

  constructor(
    readonly begin: Int32Array,
    readonly end: Int32Array,
    readonly events: number,
  ) {}

  /** All allocations that end with an event, in order of their ends. */
  get ended(): Int32Array {
    this.inOrder ??= this.sorted();
    return this.inOrder;
  }

  /** The last end of each 64 allocations, and of each 64 of these groups. */
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
    // The number of allocations that end with each event, then where each event's allocations start.
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

  /** How many of `ended` end before an event. */
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

/** Moment m is after m events: moment 0 is the start, and there is one more moment than events. An
 * allocation is live at m if begin < m <= end. */
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

  /** How many allocations began before a moment. They are the first ones in the list. */
  begunBefore(moment: number): number {
    return lowerBound(this.ends.begin, moment);
  }

  /** The allocations that are live at a moment, in order of allocation. */
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
