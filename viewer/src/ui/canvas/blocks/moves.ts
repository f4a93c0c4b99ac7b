// Moves from block to block in a map with the keyboard.

import { type BlockLayout, blocksOf, type Piece, pieceAt } from './layout.js';
import type { Spot } from './paint.js';

export type BlockMove = 'next' | 'previous' | 'down' | 'up';

/** The segments in the order in which they are shown. */
export function shownOrder({ groups }: BlockLayout): number[] {
  return groups.flatMap(({ segments }) => segments);
}

export function pieceOf({ segments }: BlockLayout, { segment, offset }: Spot): Piece | null {
  const found = segments[segment];
  return found ? pieceAt(found, offset) : null;
}

/** Returns the spot that a key leads to: the next piece of the segment, or about the same position
 * in the neighbouring segment. If there is none, it's the same spot. */
export function movedSpot(
  layout: BlockLayout,
  order: readonly number[],
  spot: Spot,
  move: BlockMove,
): Spot {
  const piece = pieceOf(layout, spot);
  const segment = layout.segments[spot.segment];
  if (!piece || !segment) return spot;
  if (move === 'next') {
    const offset = piece.offset + piece.size;
    return offset < segment.size ? { segment: spot.segment, offset } : spot;
  }
  if (move === 'previous') {
    return piece.offset > 0 ? { segment: spot.segment, offset: piece.offset - 1 } : spot;
  }
  const { rowBytes } = layout;
  // Goes through a segment with several rows row by row.
  const further = spot.offset + (move === 'down' ? rowBytes : -rowBytes);
  if (rowBytes > 0 && further >= 0 && further < segment.size) {
    return { segment: spot.segment, offset: further };
  }
  const beside = order[order.indexOf(spot.segment) + (move === 'down' ? 1 : -1)];
  if (beside === undefined) return spot;
  const { size } = layout.segments[beside]!;
  const column =
    rowBytes > 0 ? spot.offset % rowBytes : Math.floor((spot.offset / segment.size) * size);
  const lastRow = rowBytes > 0 && move === 'up' ? Math.floor((size - 1) / rowBytes) * rowBytes : 0;
  return { segment: beside, offset: Math.min(lastRow + column, size - 1) };
}

/** Finds an allocation's block. */
export function spotOf({ segments }: BlockLayout, id: number): Spot | null {
  for (let segment = 0; segment < segments.length; segment++) {
    const block = blocksOf(segments[segment]!).find((one) => one.id === id);
    if (block) return { segment, offset: block.offset };
  }
  return null;
}
