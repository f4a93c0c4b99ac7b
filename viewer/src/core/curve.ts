// The curve of a measure: the exact minimum and maximum of any range of moments, and where they
// are. It uses a pyramid of indices: for each 32 values, the indices of the highest and the lowest
// one; then the same for each 32 of these indices, and so on.

/** Each entry of a level summarizes 2 ** SHIFT entries of the previous level. */
const SHIFT = 5;
const WIDE = 1 << SHIFT;

export class Series {
  private readonly above: readonly Int32Array[];
  private readonly below: readonly Int32Array[];

  /** `values`: bytes. `starts`: the moment from which on each value holds, 0 for the first; null if
   * there is one value per moment. `moments`: the number of moments. */
  constructor(
    readonly values: Float64Array,
    private readonly starts: Int32Array | null,
    readonly moments: number,
  ) {
    const { above, below } = levels(values);
    this.above = above;
    this.below = below;
  }

  /** Bytes at a moment. */
  at(moment: number): number {
    return this.values[this.place(moment)]!;
  }

  /** The first moment with the most bytes in [from, to). */
  highestAt(from: number, to: number): number {
    const best = this.best(this.above, 1, from, to);
    return this.starts ? Math.max(this.starts[best]!, from) : best;
  }

  highest(from: number, to: number): number {
    return this.values[this.best(this.above, 1, from, to)]!;
  }

  least(from: number, to: number): number {
    return this.values[this.best(this.below, -1, from, to)]!;
  }

  /** The values within [from, to), as indices [first, stop) of `values`. */
  within(from: number, to: number): { first: number; stop: number } {
    return { first: this.place(from), stop: this.place(to - 1) + 1 };
  }

  /** The moment at which the value at an index begins. */
  startOf(place: number): number {
    return this.starts ? this.starts[place]! : place;
  }

  /** The index of the value at a moment: the last value that has begun. */
  private place(moment: number): number {
    if (!this.starts) return moment;
    return lowerBound(this.starts, moment + 1) - 1;
  }

  private best(tree: readonly Int32Array[], sign: number, first: number, last: number): number {
    const { values } = this;
    let from = this.place(first);
    let to = this.place(last - 1) + 1;
    let best = from;
    let most = sign * values[from]!;
    for (let level = 0; from < to; level++) {
      // Values at the left and right end that don't fill an entry of the next level.
      const entries = level ? tree[level - 1]! : null;
      const top = level === tree.length;
      const left = top ? to : Math.min(to, (from + WIDE - 1) & -WIDE);
      const right = top ? to : Math.max(left, to & -WIDE);
      for (let i = from; i < to; i++) {
        if (i === left) i = right;
        if (i >= to) break;
        const k = entries ? entries[i]! : i;
        const value = sign * values[k]!;
        if (value > most || (value === most && k < best)) {
          most = value;
          best = k;
        }
      }
      from = left >> SHIFT;
      to = right >> SHIFT;
      if (top) break;
    }
    return best;
  }
}

/** For each level, the indices of the highest and lowest values; the first of equal ones. */
function levels(values: Float64Array): { above: Int32Array[]; below: Int32Array[] } {
  const above: Int32Array[] = [];
  const below: Int32Array[] = [];
  for (let size = values.length; size > WIDE; size = above[above.length - 1]!.length) {
    const [high, low] = [above[above.length - 1], below[below.length - 1]];
    const next = new Int32Array(Math.ceil(size / WIDE));
    above.push(high ? extremes(values, high, 1) : first(values, next, 1));
    below.push(low ? extremes(values, low, -1) : first(values, next.slice(), -1));
  }
  return { above, below };
}

/** For each 32 values, the index of the highest (or the lowest, if the sign is -1). */
function first(values: Float64Array, found: Int32Array, sign: number): Int32Array {
  for (let i = 0; i < found.length; i++) {
    const stop = Math.min((i + 1) << SHIFT, values.length);
    let best = i << SHIFT;
    let most = sign * values[best]!;
    for (let k = best + 1; k < stop; k++) {
      const value = sign * values[k]!;
      if (value > most) {
        most = value;
        best = k;
      }
    }
    found[i] = best;
  }
  return found;
}

/** Like `first`, but for each 32 indices. */
function extremes(values: Float64Array, places: Int32Array, sign: number): Int32Array {
  const found = new Int32Array(Math.ceil(places.length / WIDE));
  for (let i = 0; i < found.length; i++) {
    const stop = Math.min((i + 1) << SHIFT, places.length);
    let best = places[i << SHIFT]!;
    for (let j = (i << SHIFT) + 1; j < stop; j++) {
      if (sign * values[places[j]!]! > sign * values[best]!) best = places[j]!;
    }
    found[i] = best;
  }
  return found;
}

/** The number of smaller entries in a sorted list. */
export function lowerBound(sorted: Int32Array | Uint32Array | Float64Array, than: number): number {
  let from = 0;
  let to = sorted.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle]! < than) from = middle + 1;
    else to = middle;
  }
  return from;
}

export interface Maximum {
  readonly moment: number;
  readonly bytes: number;
}

/** Between two separate maxima, bytes fall by at least this part of their range, as on the command
 * line (SEPARATION in snapshot/measured.py). */
const SEPARATION = 0.05;

/** The highest separate maxima in moments [from, to), highest first; the first of equal ones. */
export function maxima(series: Series, from: number, to: number, most: number): Maximum[] {
  const peak = series.highestAt(from, to);
  if (most <= 1) return [{ moment: peak, bytes: series.at(peak) }].slice(0, most);
  const drop = Math.floor((series.at(peak) - series.least(from, to)) * SEPARATION);
  const { values } = series;
  const { first, stop } = series.within(from, to);
  const places: number[] = [];
  let rising = true; // since the last accepted maximum
  let top = first;
  let low = values[first]!;
  for (let k = first + 1; k < stop; k++) {
    const bytes = values[k]!;
    if (rising) {
      const most = values[top]!;
      if (bytes > most) top = k;
      else if (most > bytes && most - bytes >= drop) {
        places.push(top);
        rising = false;
        low = bytes;
      }
    } else if (bytes < low) low = bytes;
    else if (bytes > low && bytes - low >= drop) {
      rising = true;
      top = k;
    }
  }
  if (rising) places.push(top);
  const found = places.map((place) => ({
    moment: Math.max(series.startOf(place), from),
    bytes: values[place]!,
  }));
  found.sort((a, b) => b.bytes - a.bytes || a.moment - b.moment);
  return found.slice(0, most);
}
