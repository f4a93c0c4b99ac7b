// A heat map: rows and columns of numbers as colours, at most one per pixel.
//
// A cell of the picture covers some rows and columns of numbers, and shows the number that is
// furthest from the middle of the scale. This way, no spike or dip is lost, however small the
// picture is. If the middle of the scale is its low end, a cell shows its highest number. NaN
// doesn't count as a number. A cell without numbers has the colour of holes.

export type Channels = readonly [number, number, number];

/** The range of the numbers: `middle` is the low end, or halfway between both ends. */
export interface Scale {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

/** Rows by columns, row by row. */
export interface Grid {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
}

/** Reduces the numbers to as many cells as fit; `order` has the rows from top to bottom. */
export function gridOf(
  values: Float64Array,
  columns: number,
  order: readonly number[],
  most: { readonly rows: number; readonly columns: number },
  middle: number,
): Grid {
  const rows = Math.min(order.length, Math.max(most.rows, 1));
  const wide = Math.min(columns, Math.max(most.columns, 1));
  const found = new Float64Array(rows * wide).fill(Number.NaN);
  order.forEach((row, place) => {
    const y = Math.floor((place * rows) / order.length);
    for (let column = 0; column < columns; column++) {
      const value = values[row * columns + column]!;
      if (Number.isNaN(value)) continue;
      const at = y * wide + Math.floor((column * wide) / columns);
      const now = found[at]!;
      if (Number.isNaN(now) || further(value, now, middle)) found[at] = value;
    }
  });
  return { rows, columns: wide, values: found };
}

/** If two are equally far, the higher one wins. */
function further(value: number, than: number, middle: number): boolean {
  const [a, b] = [Math.abs(value - middle), Math.abs(than - middle)];
  return a > b || (a === b && value > than);
}

/** The lowest and highest number. */
export function plainScale(values: Float64Array): Scale {
  const [low, high] = ends(values);
  return { low, middle: low, high };
}

/** A scale that goes as far below 0 as above. */
export function evenScale(values: Float64Array): Scale {
  const [low, high] = ends(values);
  const far = Math.max(Math.abs(low), Math.abs(high));
  return { low: -far, middle: 0, high: far };
}

function ends(values: Float64Array): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const one of values) {
    if (one < low) low = one;
    if (one > high) high = one;
  }
  return low > high ? [0, 0] : [low, high];
}

/** How far each number is above its column's median, as a fraction of the median. */
export function aboveMedian(
  values: Float64Array,
  columns: number,
  medians: readonly number[],
): Float64Array {
  return values.map((value, at) => {
    const median = medians[at % columns]!;
    return median > 0 ? value / median - 1 : Number.NaN;
  });
}

/** viridis (CC0), from the low end to the high end; higher is lighter. */
const RISING: readonly Channels[] = [
  [68, 1, 84],
  [71, 44, 122],
  [59, 81, 139],
  [44, 113, 142],
  [33, 144, 141],
  [39, 173, 129],
  [92, 200, 99],
  [170, 220, 50],
  [253, 231, 37],
];

/** A ramp from low numbers through the background's colour to high numbers. */
export function diverging(less: Channels, background: Channels, more: Channels): Channels[] {
  return [less, background, more];
}

export function rising(): readonly Channels[] {
  return RISING;
}

/** The colour at a fraction from 0 to 1, interpolated in a ramp. */
export function shade(ramp: readonly Channels[], share: number): Channels {
  const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const below = Math.min(Math.floor(at), ramp.length - 2);
  const [a, b] = [ramp[below]!, ramp[below + 1]!];
  const rest = at - below;
  const mixed = (i: 0 | 1 | 2) => Math.round(a[i] + (b[i] - a[i]) * rest);
  return [mixed(0), mixed(1), mixed(2)];
}

/** A number's position on a scale, from 0 to 1. */
export function shareOf({ low, high }: Scale, value: number): number {
  return high > low ? (value - low) / (high - low) : 0.5;
}

/** The cells as opaque RGBA, row by row. */
export function painted(
  grid: Grid,
  scale: Scale,
  ramp: readonly Channels[],
  hole: Channels,
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(grid.values.length * 4);
  grid.values.forEach((value, at) => {
    const colour = Number.isNaN(value) ? hole : shade(ramp, shareOf(scale, value));
    pixels.set([...colour, 255], at * 4);
  });
  return pixels;
}
