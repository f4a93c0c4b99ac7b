// Columns of integers, as export/page/coding.py writes them: byte planes of numbers, which may be differences and are folded so that -1 becomes 1 and 1 becomes 2.

/** A column's position and encoding. */
export interface Coded {
  readonly rows: number;
  readonly width: number;
  readonly differences: boolean;
  readonly at: number;
  /** If present, each number is the distance to the previous row with the same value, or 0 if there
   * is none; the value is then the next one in `fresh`. */
  readonly fresh?: Coded | null;
}

/** Non-negative integers, four bytes each if that's enough. */
export type Counts = Uint32Array | Float64Array;

const BYTE = 256;
/** Number of planes of a 32-bit number. */
const SMALL = 4;
const BEYOND = 2 ** 32;

/** The numbers of a column, exact up to 2^53. */
export function decoded(data: Uint8Array, column: Coded): Float64Array {
  const { rows, width, at } = column;
  if (column.fresh)
    return recurring(integers(data, { ...column, fresh: null }), data, column.fresh);
  if (width <= SMALL && !column.differences) return new Float64Array(integers(data, column));
  const found = new Float64Array(rows);
  const folded = lowPlanes(data, column);
  if (width <= SMALL) {
    // The highest bit of a folded 32-bit number may be set, so `>>> 1` treats it as unsigned.
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

/** Decodes a column of 32-bit numbers, e.g. of events, stacks or groups. */
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

const TOO_LARGE = 'the page is damaged: a number is too large';

function checked(numbers: Float64Array): Int32Array {
  for (const one of numbers) if (one !== (one | 0)) throw new Error(TOO_LARGE);
  return new Int32Array(numbers);
}

/** Decodes a column without negative numbers. */
export function counts(data: Uint8Array, column: Coded): Counts {
  if (column.width <= SMALL && !column.differences && !column.fresh) {
    return new Uint32Array(integers(data, column).buffer);
  }
  return narrowed(decoded(data, column));
}

/** Non-negative numbers, in four bytes each if all fit. */
export function narrowed(numbers: Float64Array): Counts {
  let most = 0;
  for (let i = 0; i < numbers.length; i++) if (numbers[i]! > most) most = numbers[i]!;
  return most < BEYOND ? new Uint32Array(numbers) : numbers;
}

/** The lowest four bytes of each folded number. */
function lowPlanes(data: Uint8Array, { rows, width, at }: Coded): Uint32Array {
  const folded = new Uint32Array(rows);
  const plane = (k: number): Uint8Array => data.subarray(at + k * rows, at + (k + 1) * rows);
  // One loop over all planes is far quicker than one per plane.
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

/** Numbers encoded as the distance to the previous row with the same number. */
function recurring(back: Int32Array, data: Uint8Array, fresh: Coded): Float64Array {
  const found = decoded(data, fresh);
  const all = new Float64Array(back.length);
  let next = 0;
  for (let i = 0; i < back.length; i++) all[i] = back[i] ? all[i - back[i]!]! : found[next++]!;
  return all;
}
