// The layout of a flame graph's boxes: each as wide as its bytes, below (or above) its caller's box.

import type { Tree } from '../../../protocol.js';

/** A tree, laid out once. Left edges and widths are in bytes, because zooming moves and stretches all boxes alike. */
export interface Extents {
  readonly tree: Tree;
  /** For each node, the first node after all those below it. */
  readonly end: Int32Array;
  readonly left: Float64Array;
  readonly width: Float64Array;
  /** How many rows of nodes there are. */
  readonly rows: number;
}

/** Lays out a tree. If bytes of an earlier moment are given, a node is as wide as the larger of its
 * two numbers, or as its children together if that's more: some children may have grown while
 * others shrank. */
export function extentsOf(tree: Tree, before: Float64Array | null): Extents {
  const { parent, depth, bytes } = tree;
  const nodes = parent.length;
  const end = new Int32Array(nodes);
  const left = new Float64Array(nodes);
  const width = new Float64Array(nodes);
  let rows = 0;
  for (let node = nodes - 1; node >= 0; node--) {
    const own = before ? Math.max(bytes[node]!, before[node]!) : bytes[node]!;
    width[node] = Math.max(width[node]!, own, 0);
    end[node] = Math.max(end[node]!, node + 1);
    const above = parent[node]!;
    if (above >= 0) {
      width[above]! += width[node]!;
      end[above] = Math.max(end[above]!, end[node]!);
    }
    rows = Math.max(rows, depth[node]! + 1);
  }
  const next = new Float64Array(nodes);
  for (let node = 0; node < nodes; node++) {
    const above = parent[node]!;
    if (above >= 0) {
      left[node] = next[above]!;
      next[above]! += width[node]!;
    }
    next[node] = left[node]!;
  }
  return { tree, end, left, width, rows };
}

/** Boxes to draw, row by row from the root on. */
export interface Boxes {
  /** Each box's node; for a box with several nodes, the first. */
  readonly node: number[];
  /** 0: a single node's box; otherwise the number of siblings, each too narrow for its own box. */
  readonly merged: number[];
  /** In pixels. */
  readonly x: number[];
  readonly width: number[];
  readonly row: number[];
  /** Each row's boxes, from left to right. */
  readonly rows: number[][];
}

export interface FlameView {
  /** The node that fills the whole width, as do all nodes above it. */
  readonly zoom: number;
  /** Pixels. */
  readonly width: number;
  /** Boxes narrower than this many pixels are merged with their neighbours. */
  readonly least: number;
  /** The visible rows [first, last). */
  readonly first: number;
  readonly last: number;
}

export function boxesOf(extents: Extents, view: FlameView): Boxes {
  const { tree, end, left, width } = extents;
  const { parent, depth } = tree;
  const boxes: Boxes = { node: [], merged: [], x: [], width: [], row: [], rows: [] };
  if (parent.length === 0) return boxes;
  const push = (node: number, row: number, merged: number, x: number, wide: number) => {
    if (row < view.first || row >= view.last) return;
    let ofRow = boxes.rows[row];
    if (!ofRow) {
      ofRow = [];
      boxes.rows[row] = ofRow;
    }
    ofRow.push(boxes.node.length);
    boxes.node.push(node);
    boxes.merged.push(merged);
    boxes.x.push(x);
    boxes.width.push(wide);
    boxes.row.push(row);
  };
  for (const node of ancestors(tree, view.zoom)) push(node, depth[node]!, 0, 0, view.width);
  const all = width[view.zoom]!;
  if (!(all > 0)) {
    push(view.zoom, depth[view.zoom]!, 0, 0, view.width);
    return boxes;
  }
  const scale = view.width / all;
  const least = view.least / scale;
  const start = left[view.zoom]!;
  const stop = end[view.zoom]!;
  for (let node = view.zoom; node < stop; ) {
    const row = depth[node]!;
    if (width[node]! >= least) {
      push(node, row, 0, (left[node]! - start) * scale, width[node]! * scale);
      node = row + 1 < view.last ? node + 1 : end[node]!;
      continue;
    }
    const first = node;
    const behind = end[parent[node]!]!;
    let together = 0;
    let merged = 0;
    for (; node < behind && width[node]! < least; node = end[node]!) {
      together += width[node]!;
      merged++;
    }
    if (together >= least)
      push(first, row, merged, (left[first]! - start) * scale, together * scale);
  }
  return boxes;
}

/** The box at a position in a row; -1 for none. */
export function boxAt(boxes: Boxes, row: number, x: number): number {
  const ofRow = boxes.rows[row];
  if (!ofRow) return -1;
  let low = 0;
  let high = ofRow.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.x[ofRow[middle]!]! <= x) low = middle + 1;
    else high = middle;
  }
  const box = ofRow[low - 1];
  return box !== undefined && x < boxes.x[box]! + boxes.width[box]! ? box : -1;
}

/** A node's ancestors, the root first. */
export function ancestors(tree: Tree, node: number): number[] {
  const found: number[] = [];
  for (let one = tree.parent[node]!; one >= 0; one = tree.parent[one]!) found.push(one);
  return found.reverse();
}
