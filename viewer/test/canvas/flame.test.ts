// Flame graphs: compares boxes with widths computed node by node, and moves through small trees.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tree } from '../../src/protocol.js';
import {
  ancestors,
  boxAt,
  boxesOf,
  type Extents,
  extentsOf,
} from '../../src/ui/canvas/flame/layout.js';
import { type Move, moved, nodeAt, pathOf, placeOf } from '../../src/ui/canvas/flame/moves.js';
import { described, restTip, type Shown, tipOf } from '../../src/ui/canvas/flame/words.js';
import { random } from './random.js';

/** A call: its frame, its own bytes, and its callees. */
interface Call {
  readonly frame: number;
  readonly own: number;
  readonly calls: readonly Call[];
}

const sum = (call: Call): number => call.own + call.calls.reduce((all, one) => all + sum(one), 0);

function treeOf(root: Call): Tree {
  const rows: { parent: number; depth: number; call: Call }[] = [];
  const add = (call: Call, parent: number, depth: number) => {
    const node = rows.push({ parent, depth, call }) - 1;
    for (const one of call.calls) add(one, node, depth + 1);
  };
  add(root, -1, 0);
  return {
    parent: Int32Array.from(rows, (row) => row.parent),
    depth: Int32Array.from(rows, (row) => row.depth),
    frame: Int32Array.from(rows, (row) => row.call.frame),
    bytes: Float64Array.from(rows, (row) => sum(row.call)),
    own: Float64Array.from(rows, (row) => row.call.own),
    count: Int32Array.from(rows, (_, i) => i + 1),
  };
}

const call = (frame: number, own: number, ...calls: Call[]): Call => ({ frame, own, calls });
/** all 100: a 60 (b 40 (d 40), c 10), e 30 (b 30). Bytes include those of callees. */
const SMALL = treeOf(
  call(-1, 10, call(0, 10, call(1, 0, call(3, 40)), call(2, 10)), call(4, 0, call(1, 30))),
);

function anyTree(seed: number, nodes: number): Tree {
  const next = random(seed);
  let left = nodes;
  const grow = (depth: number): Call => {
    left--;
    const calls: Call[] = [];
    const wanted = depth < 9 ? next(5) : 0;
    for (let i = 0; i < wanted && left > 0; i++) calls.push(grow(depth + 1));
    return { frame: next(6), own: next(3) ? next(2 ** next(20)) : 0, calls };
  };
  return treeOf(call(-1, 0, ...Array.from({ length: 6 }, () => grow(1))));
}

/** Computes every node's box recursively. */
function slow({ tree, end }: Extents, zoom: number, width: number): Map<number, [number, number]> {
  const found = new Map<number, [number, number]>();
  const scale = width / tree.bytes[zoom]!;
  const place = (node: number, x: number) => {
    found.set(node, [x, tree.bytes[node]! * scale]);
    for (let child = node + 1; child < end[node]!; child++) {
      if (tree.parent[child] !== node) continue;
      place(child, x);
      x += tree.bytes[child]! * scale;
    }
  };
  place(zoom, 0);
  return found;
}

test('a small tree, box by box', () => {
  const extents = extentsOf(SMALL, null);
  assert.equal(extents.rows, 4);
  const boxes = boxesOf(extents, { zoom: 0, width: 200, least: 0.5, first: 0, last: 9 });
  assert.deepEqual(
    boxes.node.map((node, i) => [node, boxes.row[i], boxes.x[i], boxes.width[i], boxes.merged[i]]),
    [
      [0, 0, 0, 200, 0],
      [1, 1, 0, 120, 0],
      [2, 2, 0, 80, 0],
      [3, 3, 0, 80, 0],
      [4, 2, 80, 20, 0],
      [5, 1, 120, 60, 0],
      [6, 2, 120, 60, 0],
    ],
  );
  const zoomed = boxesOf(extents, { zoom: 2, width: 200, least: 0.5, first: 1, last: 4 });
  assert.deepEqual(
    zoomed.node.map((node, i) => [node, zoomed.row[i], zoomed.x[i], zoomed.width[i]]),
    [
      [1, 1, 0, 200],
      [2, 2, 0, 200],
      [3, 3, 0, 200],
    ],
  );
});

test('boxes are where the sums say, and narrow siblings share a box', () => {
  for (let seed = 0; seed < 40; seed++) {
    const tree = anyTree(seed, 400);
    const extents = extentsOf(tree, null);
    const zoom = seed % 4 ? random(seed)(tree.parent.length) : 0;
    if (!(tree.bytes[zoom]! > 0)) continue;
    const [width, least] = [300, 0.5];
    const wanted = slow(extents, zoom, width);
    const boxes = boxesOf(extents, { zoom, width, least, first: 0, last: 99 });
    const above = new Set(ancestors(tree, zoom));
    const seen = new Set<number>();
    boxes.node.forEach((node, i) => {
      if (above.has(node)) {
        assert.deepEqual([boxes.x[i], boxes.width[i]], [0, width]);
        return;
      }
      let together = 0;
      let one = node;
      for (let k = 0; k < Math.max(boxes.merged[i]!, 1); k++, one = extents.end[one]!) {
        assert.equal(tree.parent[one], tree.parent[node]);
        assert.ok(boxes.merged[i] ? wanted.get(one)![1] < least : wanted.get(one)![1] >= least);
        together += wanted.get(one)![1];
        seen.add(one);
      }
      assert.ok(Math.abs(boxes.x[i]! - wanted.get(node)![0]) < 1e-6);
      assert.ok(Math.abs(boxes.width[i]! - together) < 1e-6);
    });
    // Every wide node has a box.
    for (const [node, [, wide]] of wanted) if (wide >= least + 1e-9) assert.ok(seen.has(node));
  }
});

test('the box under a pointer is the one that is drawn there', () => {
  const extents = extentsOf(anyTree(7, 400), null);
  const boxes = boxesOf(extents, { zoom: 0, width: 300, least: 0.5, first: 0, last: 99 });
  for (let row = 0; row < extents.rows; row++) {
    for (let x = 0.25; x < 300; x += 0.5) {
      const wanted = boxes.node.findIndex(
        (_, i) => boxes.row[i] === row && boxes.x[i]! <= x && x < boxes.x[i]! + boxes.width[i]!,
      );
      assert.equal(boxAt(boxes, row, x), wanted);
    }
  }
  assert.equal(boxAt(boxes, 99, 1), -1);
  assert.equal(boxAt(boxes, -1, 1), -1);
});

test('in differences, a box is as wide as the larger number, and contains its children', () => {
  const before = Float64Array.from([40, 40, 40, 40, 0, 0, 0]);
  const { width, left } = extentsOf(SMALL, before);
  // e (30) and c are new; b existed before and after.
  assert.deepEqual([...width], [100, 60, 40, 40, 10, 30, 30]);
  assert.deepEqual([...left], [0, 0, 0, 0, 40, 60, 60]);
  // One callee is freed and another is new, so their caller is wider than it ever was.
  const turned = extentsOf(
    treeOf(call(-1, 0, call(0, 0), call(1, 50))),
    Float64Array.from([50, 50, 0]),
  );
  assert.deepEqual([...turned.width], [100, 50, 50]);
});

test('an empty tree and a tree without bytes are drawn', () => {
  const view = { zoom: 0, width: 100, least: 0.5, first: 0, last: 9 };
  const none = extentsOf(treeOf(call(-1, 0, call(0, 0))), null);
  assert.deepEqual(boxesOf(none, view).node, [0]);
  const empty: Tree = {
    parent: new Int32Array(0),
    depth: new Int32Array(0),
    frame: new Int32Array(0),
    bytes: new Float64Array(0),
    own: new Float64Array(0),
    count: new Int32Array(0),
  };
  assert.deepEqual(boxesOf(extentsOf(empty, null), view).node, []);
});

test('keys lead to callers, callees and siblings', () => {
  const extents = extentsOf(SMALL, null);
  const go = (from: number, ...moves: Move[]) =>
    moves.reduce((node, move) => moved(extents, node, move), from);
  assert.equal(go(0, 'child'), 1);
  assert.equal(go(0, 'child', 'child', 'child'), 3);
  assert.equal(go(3, 'child'), 3);
  assert.equal(go(2, 'next'), 4);
  assert.equal(go(4, 'next'), 4);
  assert.equal(go(1, 'next'), 5);
  assert.equal(go(5, 'previous'), 1);
  assert.equal(go(1, 'previous'), 1);
  assert.equal(go(0, 'previous'), 0);
  assert.equal(go(6, 'parent', 'parent', 'parent'), 0);
  assert.equal(go(6, 'first'), 0);
  // The widest callee, whatever its position.
  assert.equal(moved(extentsOf(treeOf(call(-1, 0, call(0, 1), call(1, 9))), null), 0, 'child'), 2);
  assert.deepEqual(placeOf(extents, 4), { place: 2, of: 2 });
  assert.deepEqual(placeOf(extents, 0), { place: 1, of: 1 });
});

test('a path leads to the same node in another tree, or to its nearest ancestor', () => {
  const extents = extentsOf(SMALL, null);
  for (let node = 0; node < SMALL.parent.length; node++) {
    assert.deepEqual(nodeAt(extents, pathOf(SMALL, node)), { node, whole: true });
  }
  const path = pathOf(SMALL, 3);
  assert.deepEqual(path, [0, 1, 3]);
  const other = extentsOf(treeOf(call(-1, 0, call(4, 90), call(0, 1, call(1, 5)))), null);
  assert.deepEqual(nodeAt(other, path), { node: 3, whole: false });
  // Frames of different snapshots aren't confused, even if they have the same number.
  const of = Uint8Array.from([0, 1, 0, 0, 1, 0, 1]);
  assert.deepEqual(nodeAt(extents, pathOf(SMALL, 4, of), of), { node: 4, whole: true });
  assert.equal(nodeAt(extents, pathOf(SMALL, 1), of).whole, false);
});

test('descriptions of a box', () => {
  const shown: Shown = {
    extents: extentsOf(SMALL, null),
    before: null,
    total: 100,
    names: (frame) => ({ title: `f${frame}`, detail: frame < 0 ? '' : `model.py:${frame}` }),
  };
  assert.equal(described(shown, 0), 'f-1, 100 B, 100.0% of 100 B, 1 allocation');
  assert.equal(described(shown, 4), 'f2 model.py:2, 10 B, 10.0% of 100 B, 5 allocations');
  const filtered = { ...shown, total: 400 };
  assert.equal(described(filtered, 4), 'f2 model.py:2, 10 B, 2.5% of 400 B, 5 allocations');
  assert.deepEqual(tipOf(filtered, 4, 'red').rows[1], ['of all', '2.5%']);
  assert.deepEqual(tipOf(shown, 4, 'red'), {
    title: 'f2',
    detail: 'model.py:2',
    rows: [
      ['bytes', '10 B'],
      ['of all', '10.0%'],
      ['of its caller', '16.7%'],
      ['allocations', '5'],
    ],
    colour: 'red',
  });
  assert.deepEqual(tipOf(shown, 1, 'red').rows.slice(2), [
    ['its own', '10 B'],
    ['allocations', '2'],
  ]);
  const rest = restTip(shown, 2, 2);
  assert.equal(rest.title, '2 smaller ones, too narrow to draw');
  assert.deepEqual(rest.rows[0], ['bytes', '50 B']);
  const before = Float64Array.from([40, 40, 40, 40, 0, 0, 0]);
  const changed = { ...shown, extents: extentsOf(SMALL, before), before };
  assert.equal(described(changed, 1), 'f0 model.py:0, 40 B before, 60 B after, +20 B');
  assert.deepEqual(tipOf(changed, 1, 'red').rows, [
    ['before', '40 B'],
    ['after', '60 B'],
    ['change', '+20 B (+20 B, +50.0%)'],
  ]);
});
