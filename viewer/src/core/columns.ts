// Columns of integers, as export/page/coding.py writes them: planes of bytes, of numbers that were
// folded so that -1 is 1 and 1 is 2, and that may be differences.

/** Where a column's bytes are, and how to read them. */
export interface Coded {
  readonly rows: number;
  readonly width: number;
  readonly differences: boolean;
  readonly at: number;
  /** Where it is there, numbers say how many rows before the same one stood, 0 where none did: then
   * it is the next one of `fresh`. */
  readonly fresh?: Coded | null;
}

/** Integers that are not negative, four bytes each where that is enough. */
export type Counts = Uint32Array | Float64Array;

const BYTE = 256;
/** As many planes as a number has that 32 bits hold. */
const SMALL = 4;
const BEYOND = 2 ** 32;

/** The numbers of a column. They are exact up to 2^53, as everything is that a page counts. */
export function decoded(data: Uint8Array, column: Coded): Float64Array {
  const { rows, width, at } = column;
  if (column.fresh)
    return recurring(integers(data, { ...column, fresh: null }), data, column.fresh);
  if (width <= SMALL && !column.differences) return new Float64Array(integers(data, column));
  const found = new Float64Array(rows);
  const folded = lowPlanes(data, column);
  if (width <= SMALL) {
    // A folded number of 32 bits may have its highest bit set: `>>> 1` takes it as it is.
    for (let i = 0; i < rows; i++) found[i] = (folded[i]! >>> 1) ^ -(folded[i]! & 1);
  } else {
    for (let i = 0; i < rows; i++) {
      let high = 0;
      for (let plane = width - 1; plane >= SMALL; plane--) {
        high = high * BYTE + data[at + plane * rows + i]!;
      }
      const whole = high * 2 ** 31 + (folded[i]! >>> 1);
      found[i] = folded[i]! & 1 ? -whole - 1 : whole;
    }
  }
  if (column.differences) {
    let before = 0;
    for (let i = 0; i < rows; i++) {
      before += found[i]!;
      found[i] = before;
    }
  }
  return found;
}

/** The same of a column whose numbers fit 32 bits: numbers of events, of stacks, of groups. */
export function integers(data: Uint8Array, column: Coded): Int32Array {
  if (column.width > SMALL || column.fresh) return checked(decoded(data, column));
  const folded = lowPlanes(data, column);
  const found = new Int32Array(folded.buffer);
  const { rows } = column;
  if (!column.differences) {
    for (let i = 0; i < rows; i++) found[i] = (folded[i]! >>> 1) ^ -(folded[i]! & 1);
    return found;
  }
  let now = 0;
  let low = 0;
  let high = 0;
  for (let i = 0; i < rows; i++) {
    now += (folded[i]! >>> 1) ^ -(folded[i]! & 1);
    if (now < low) low = now;
    else if (now > high) high = now;
    found[i] = now;
  }
  if (low !== (low | 0) || high !== (high | 0)) throw new Error(TOO_LARGE);
  return found;
}

const TOO_LARGE = 'the page has a number that is larger than it can be';

function checked(numbers: Float64Array): Int32Array {
  for (const one of numbers) if (one !== (one | 0)) throw new Error(TOO_LARGE);
  return new Int32Array(numbers);
}

/** The same of a column without negative numbers. */
export function counts(data: Uint8Array, column: Coded): Counts {
  if (column.width <= SMALL && !column.differences && !column.fresh) {
    return new Uint32Array(integers(data, column).buffer);
  }
  return narrowed(decoded(data, column));
}

/** Numbers in four bytes each where all of them fit. None is negative. */
export function narrowed(numbers: Float64Array): Counts {
  let most = 0;
  for (let i = 0; i < numbers.length; i++) if (numbers[i]! > most) most = numbers[i]!;
  return most < BEYOND ? new Uint32Array(numbers) : numbers;
}

/** Of each folded number the lowest four bytes. */
function lowPlanes(data: Uint8Array, { rows, width, at }: Coded): Uint32Array {
  const folded = new Uint32Array(rows);
  const plane = (k: number): Uint8Array => data.subarray(at + k * rows, at + (k + 1) * rows);
  // One loop for as many planes as there are is far quicker than one a plane.
  const [a, b, c, d] = [plane(0), plane(1), plane(2), plane(3)];
  if (width === 1) folded.set(a);
  else if (width === 2) for (let i = 0; i < rows; i++) folded[i] = a[i]! | (b[i]! << 8);
  else if (width === 3) {
    for (let i = 0; i < rows; i++) folded[i] = a[i]! | (b[i]! << 8) | (c[i]! << 16);
  } else if (width >= SMALL) {
    for (let i = 0; i < rows; i++) {
      folded[i] = a[i]! | (b[i]! << 8) | (c[i]! << 16) | (d[i]! << 24);
    }
  }
  return folded;
}

/** Numbers of which it is said how many rows before the same one stood. */
function recurring(back: Int32Array, data: Uint8Array, fresh: Coded): Float64Array {
  const found = decoded(data, fresh);
  const all = new Float64Array(back.length);
  let next = 0;
  for (let i = 0; i < back.length; i++) all[i] = back[i] ? all[i - back[i]!]! : found[next++]!;
  return all;
}
