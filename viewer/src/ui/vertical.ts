// The visible bytes of the stack: zooming and scrolling up and down.

/** Bytes [low, high), from the bottom to the top. */
export interface Heights {
  readonly low: number;
  readonly high: number;
}

/** The fewest bytes that fill the picture. */
const LEAST = 4096;
/** Zooms around a height in bytes that stays where it is. */
export function zoomedBytes({ low, high }: Heights, fixed: number, factor: number): Heights {
  return { low: fixed - (fixed - low) * factor, high: fixed + (high - fixed) * factor };
}

/** The state for these heights: a part of the stack, in whole bytes, or all of it. */
export function lookedAt(
  next: Heights,
  whole: number,
): { low: number | null; high: number | null } {
  const length = Math.max(next.high - next.low, LEAST);
  if (length >= whole) return { low: null, high: null };
  const low = Math.round(Math.min(Math.max(next.low, 0), whole - length));
  return { low, high: low + Math.ceil(length) };
}

/** The same number of bytes, this far up. */
export function scrolled({ low, high }: Heights, by: number, whole: number): Heights {
  const length = high - low;
  const next = Math.round(Math.max(Math.min(low + by, Math.max(whole, high) - length), 0));
  return { low: next, high: next + length };
}
