// Columns of integers, as export/page/coding.py writes them: planes of bytes, of numbers that were
// folded so that -1 is 1 and 1 is 2, and that may be differences.

/** Where a column's bytes are, and how to read them. */
export interface Coded {
  readonly rows: number;
  readonly width: number;
  readonly differences: boolean;
  readonly at: number;
  /** Where it is there, numbers say how many rows before the same one stood, 0 where none did: then
   * it is the next one of these. */
  readonly fresh?: Coded | null;
}

const BYTE = 256;
/** As many planes as a number has that 32 bits hold. */
const SMALL = 4;

/** The numbers of a column. They are exact up to 2^53, as everything is that a page counts. */
export function decoded(data: Uint8Array, column: Coded): Float64Array {
  const { rows, width, at } = column;
  const found = new Float64Array(rows);
  const folded = new Uint32Array(rows);
  for (let plane = 0; plane < Math.min(width, SMALL); plane++) {
    const shift = 8 * plane;
    const bytes = data.subarray(at + plane * rows, at + (plane + 1) * rows);
    for (let i = 0; i < rows; i++) folded[i]! |= bytes[i]! << shift;
  }
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
    for (let i = 1; i < rows; i++) found[i] = found[i]! + found[i - 1]!;
  }
  if (column.fresh) {
    const fresh = decoded(data, column.fresh);
    let next = 0;
    for (let i = 0; i < rows; i++) found[i] = found[i] ? found[i - found[i]!]! : fresh[next++]!;
  }
  return found;
}
