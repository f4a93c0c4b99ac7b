// Moves through a tree: from node to node with the keyboard, and to the same node in another tree.

import type { Tree } from '../../../protocol.js';
import { ancestors, type Extents } from './layout.js';

/** A node's path from the root, which is the same in another tree of the same frames. */
export type Path = readonly number[];

/** The codes of the nodes from below the root down to this one. `of` distinguishes frames of different snapshots. */
export function pathOf(tree: Tree, node: number, of?: Uint8Array): number[] {
  return [...ancestors(tree, node), node].slice(1).map((one) => code(tree, one, of));
}

function code(tree: Tree, node: number, of?: Uint8Array): number {
  return of ? 2 * tree.frame[node]! + of[node]! : tree.frame[node]!;
}

/** The node at the end of a path, or the last node of the path that exists. */
export function nodeAt(
  extents: Extents,
  path: Path,
  of?: Uint8Array,
): { node: number; whole: boolean } {
  const { tree, end } = extents;
  let node = 0;
  for (const wanted of path) {
    let child = node + 1;
    while (child < end[node]! && code(tree, child, of) !== wanted) child = end[child]!;
    if (child >= end[node]!) return { node, whole: false };
    node = child;
  }
  return { node, whole: true };
}

export type Move = 'parent' | 'child' | 'next' | 'previous' | 'first';

/** The node that a move leads to; the same node if there's none in that direction. */
export function moved(extents: Extents, node: number, move: Move): number {
  const { tree, end } = extents;
  const parent = tree.parent[node]!;
  switch (move) {
    case 'first':
      return 0;
    case 'parent':
      return parent < 0 ? node : parent;
    case 'child':
      return node + 1 < end[node]! ? widest(extents, node) : node;
    case 'next':
      return parent >= 0 && end[node]! < end[parent]! ? end[node]! : node;
    case 'previous': {
      if (parent < 0) return node;
      let before = node;
      for (let child = parent + 1; child < node; child = end[child]!) before = child;
      return before;
    }
  }
}

/** The widest child of a node; the first one if several are equally wide. */
function widest({ end, width }: Extents, node: number): number {
  let found = node + 1;
  for (let child = end[found]!; child < end[node]!; child = end[child]!) {
    if (width[child]! > width[found]!) found = child;
  }
  return found;
}

/** A node's position among its siblings, from 1, and their number. */
export function placeOf({ tree, end }: Extents, node: number): { place: number; of: number } {
  const parent = tree.parent[node]!;
  if (parent < 0) return { place: 1, of: 1 };
  let [place, of] = [0, 0];
  for (let child = parent + 1; child < end[parent]!; child = end[child]!) {
    of++;
    if (child === node) place = of;
  }
  return { place, of };
}
