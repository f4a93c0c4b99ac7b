// A colour for each allocation, such that no two that are ever on top of each other have the same one.
//
// New allocations go on top of the stack, and any of them may leave it. So an allocation gets a new
// neighbour only when it's made, or when the one between them ends: there are at most twice as many
// pairs of neighbours as allocations. As regions of a picture they form a planar graph, in which
// some allocation always has at most five neighbours. Removing such allocations one after the other
// and colouring them in reverse order takes six colours; the rest is for variety.

import type { Timeline } from './lives.js';

/** The key that colours each allocation separately; its groups are colours. */
export const ALLOCATION = 'allocation';
export const COLOURS = 12;

const MOST = 5;
/** Scatters numbers (Knuth's multiplicative hash), because programs repeat themselves. */
const SCATTER = 2_654_435_761;

/** Returns a number below COLOURS for each allocation. */
export function distinctColours(timeline: Timeline): Uint8Array {
  const { starts, neighbours } = adjacent(timeline);
  const n = starts.length - 1;
  const left = new Int32Array(n); // the number of neighbours that haven't been removed
  const order = new Int32Array(n);
  let found = 0;
  for (let id = 0; id < n; id++) {
    left[id] = starts[id + 1]! - starts[id]!;
    if (left[id]! <= MOST) order[found++] = id;
  }
  for (let k = 0; k < found; k++) {
    for (let i = starts[order[k]!]!; i < starts[order[k]! + 1]!; i++) {
      const other = neighbours[i]!;
      left[other]!--;
      if (left[other] === MOST) order[found++] = other;
    }
  }
  const colours = new Uint8Array(n).fill(COLOURS);
  for (let k = found - 1; k >= 0; k--) {
    const id = order[k]!;
    let taken = 0;
    for (let i = starts[id]!; i < starts[id + 1]!; i++) taken |= 1 << colours[neighbours[i]!]!;
    let colour = (Math.imul(id, SCATTER) >>> 16) % COLOURS;
    while ((taken >> colour) & 1) colour = (colour + 1) % COLOURS;
    colours[id] = colour;
  }
  return colours;
}

/** The neighbours of each allocation that holds bytes: `neighbours` from `starts[id]` on. */
function adjacent({ bytes, ends, events }: Timeline): {
  starts: Int32Array;
  neighbours: Int32Array;
} {
  const { begin, end, ended } = ends;
  const n = begin.length;
  const below = new Int32Array(n).fill(-1);
  const above = new Int32Array(n).fill(-1);
  const pairs = new Int32Array(4 * n);
  let size = 0;
  const meet = (one: number, other: number) => {
    pairs[size++] = one;
    pairs[size++] = other;
  };
  let top = -1;
  let next = 0;
  let over = 0;
  const advance = (event: number) => {
    for (; over < ended.length && end[ended[over]!]! === event; over++) {
      const id = ended[over]!;
      if (!bytes[id]) continue;
      const [low, high] = [below[id]!, above[id]!];
      if (low >= 0) above[low] = high;
      if (high >= 0) below[high] = low;
      else top = low;
      if (low >= 0 && high >= 0) meet(low, high);
    }
    for (; next < n && begin[next]! === event; next++) {
      if (!bytes[next] || end[next]! <= event) continue;
      if (top >= 0) {
        meet(top, next);
        above[top] = next;
      }
      below[next] = top;
      top = next;
    }
  };
  for (let event = -1; event < events; event++) advance(event);
  const starts = new Int32Array(n + 1);
  for (let i = 0; i < size; i++) starts[pairs[i]! + 1]!++;
  for (let id = 0; id < n; id++) starts[id + 1]! += starts[id]!;
  const filled = starts.slice();
  const neighbours = new Int32Array(size);
  for (let i = 0; i < size; i++) neighbours[filled[pairs[i]!]!++] = pairs[i ^ 1]!;
  return { starts, neighbours };
}
