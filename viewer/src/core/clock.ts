// The positions of moments. On the event axis, a moment's position is its number. On the time axis,
// a moment lasts from its event to the next one. Moment 0 begins at 0, the time of the first event,
// and the last one ends at the time of the last event.

import type { Axis, Span } from '../protocol.js';
import type { Counts } from './columns.js';
import { lowerBound } from './curve.js';

/** The moments [from, to) of each pixel column; empty if both are equal. */
export interface Ranges {
  readonly from: Int32Array;
  readonly to: Int32Array;
}

export class Clock {
  /** Microseconds of each event since the first one; null without times. */
  constructor(
    private readonly events: number,
    private readonly times: Counts | null,
  ) {}

  /** The moments of each column; columns divide a span evenly. */
  ranges(axis: Axis, span: Span, columns: number): Ranges {
    const from = new Int32Array(columns);
    const to = new Int32Array(columns);
    const step = (span.to - span.from) / columns;
    const moments = this.events + 1;
    const times = axis === 'time' ? this.known() : null;
    for (let c = 0; c < columns; c++) {
      const left = span.from + c * step;
      const right = span.from + (c + 1) * step;
      let first: number;
      let stop: number;
      if (times) {
        // A column shows moments that begin before its right edge and don't end before its left
        // edge.
        if (right <= 0 || left > times[times.length - 1]!) continue;
        first = lowerBound(times, left);
        stop = lowerBound(times, right) + 1;
      } else {
        first = Math.floor(left);
        stop = Math.max(first + 1, Math.floor(right));
        first = Math.max(first, 0);
        stop = Math.min(stop, moments);
      }
      if (first >= stop) continue;
      from[c] = first;
      to[c] = stop;
    }
    return { from, to };
  }

  /** The moment at a position: the last one that has begun there, or the first one if none has. */
  momentAt(axis: Axis, x: number): number {
    if (axis === 'event') return Math.min(Math.max(Math.floor(x), 0), this.events);
    const times = this.known();
    let from = 0;
    let to = times.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (times[middle]! <= x) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** Where a moment begins. */
  xOf(axis: Axis, moment: number): number {
    const at = Math.min(Math.max(moment, 0), this.events);
    if (axis === 'event') return at;
    const times = this.known();
    return at === 0 ? 0 : times[at - 1]!;
  }

  private known(): Counts {
    if (!this.times?.length) throw new Error('this snapshot has no times');
    return this.times;
  }
}
