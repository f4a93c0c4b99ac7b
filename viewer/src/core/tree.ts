// Live allocations as a tree of calls, as in engine/query/calltree.pyx; and two such trees merged.
//
// It differs from the command line's tree in two ways: every call is a node, whereas a line of the
// command line can show a chain of calls; and it can be inverted, with the calls that allocate at
// the root.

import type { Tree, TreeOfBoth, TreeQuery } from '../protocol.js';
import { type Code, NAMED, ROOT } from './code.js';
import { grown, type Timeline } from './lives.js';
import type { Selection } from './search.js';

/** A growing tree: nodes with their parents, in the order in which they were found. */
class Growing {
  size = 1;
  parent = new Int32Array(1 << 10).fill(-1, 0, 1);
  /** The nodes' keys: equal keys under one parent are one node. */
  key = new Int32Array(1 << 10).fill(ROOT, 0, 1);
  private readonly children = new Map<number, number>();

  /** The child of a node with this 32-bit key. */
  child(node: number, key: number): number {
    const which = node * 2 ** 32 + (key + 2 ** 31);
    const known = this.children.get(which);
    if (known !== undefined) return known;
    if (this.size === this.parent.length) {
      this.parent = grown(this.parent);
      this.key = grown(this.key);
    }
    this.parent[this.size] = node;
    this.key[this.size] = key;
    this.children.set(which, this.size);
    return this.size++;
  }
}

/** The sums of a tree's nodes: first of the stacks that end there, later including all nodes below. */
class Weights {
  own = new Float64Array(1 << 10);
  count = new Int32Array(1 << 10);

  add(node: number, bytes: number, count: number): void {
    while (node >= this.own.length) {
      const own = new Float64Array(2 * this.own.length);
      own.set(this.own);
      this.own = own;
      this.count = grown(this.count);
    }
    this.own[node]! += bytes;
    this.count[node]! += count;
  }

  /** Adds to each node the sums of all nodes below it. Parents come before their children. */
  totals({ parent, size }: Growing): { bytes: Float64Array; count: Int32Array } {
    this.add(size, 0, 0); // there's room for all of them
    const bytes = this.own.slice(0, size);
    const count = this.count.slice(0, size);
    for (let i = size - 1; i > 0; i--) {
      bytes[parent[i]!]! += bytes[i]!;
      count[parent[i]!]! += count[i]!;
    }
    return { bytes, count };
  }
}

type Shape = Pick<TreeQuery, 'root' | 'frames'>;

/** Adds the selected allocations that are live at a moment; nodes are matched by `keyOf` their frame. */
function fold(
  tree: Growing,
  weights: Weights,
  of: Live,
  { root, frames }: Shape,
  keyOf: (frame: number) => number,
): void {
  const { code, timeline, moment, stacks, named, selected } = of;
  const { bytes } = timeline;
  const sums = new Float64Array(code.stacks + 2);
  const counts = new Int32Array(code.stacks + 2);
  const met: number[] = [];
  for (const id of timeline.live(moment)) {
    if (selected && !selected.has(id)) continue;
    const stack = stacks[id]!;
    if (!counts[stack]!++) met.push(stack);
    sums[stack]! += bytes[id]!;
  }
  const path: number[] = [];
  for (const stack of met) {
    code.path(stack, frames, named, path);
    let node = 0;
    if (root === 'innermost') for (const frame of path) node = tree.child(node, keyOf(frame));
    else for (let i = path.length; i > 0; i--) node = tree.child(node, keyOf(path[i - 1]!));
    weights.add(node, sums[stack]!, counts[stack]!);
  }
}

/** The data that a tree is built from. */
export interface Live {
  readonly code: Code;
  readonly timeline: Timeline;
  readonly moment: number;
  readonly stacks: Int32Array;
  /** Each stack's group by `line`, and the text lines of these groups; null without either. */
  readonly named: Int32Array | null;
  readonly lines: readonly (readonly number[])[];
  readonly selected: Selection | null;
}

/** The tree's nodes that are kept, each before all nodes below it; children are in order. */
function inOrder(
  { parent, size }: Growing,
  kept: (node: number) => boolean,
  order: (a: number, b: number) => number,
): number[] {
  const children: number[][] = [];
  for (let i = 1; i < size; i++) {
    if (!kept(i)) continue;
    const of = children[parent[i]!];
    if (of) of.push(i);
    else children[parent[i]!] = [i];
  }
  const found: number[] = [];
  const open = [0];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    found.push(node);
    const below = children[node];
    if (!below) continue;
    below.sort(order);
    for (let i = below.length; i > 0; i--) open.push(below[i - 1]!);
  }
  return found;
}

/** Parents and depths of nodes in their new order. */
function placed(
  tree: Growing,
  order: readonly number[],
): { parent: Int32Array; depth: Int32Array } {
  const places = new Int32Array(tree.size);
  const parent = new Int32Array(order.length);
  const depth = new Int32Array(order.length);
  order.forEach((node, at) => {
    places[node] = at;
    parent[at] = at ? places[tree.parent[node]!]! : -1;
    depth[at] = at ? depth[parent[at]!]! + 1 : 0;
  });
  return { parent, depth };
}

/** Frames sort by number; nodes that aren't frames come after them. */
function byKey(a: number, b: number): number {
  return (a >>> 0) - (b >>> 0);
}

/** Live allocations as a tree; children are sorted by bytes, then by number of allocations. */
export function callTree(live: Live, shape: Shape, least: number): Tree {
  const tree = new Growing();
  const weights = new Weights();
  fold(tree, weights, live, shape, (frame) => frame);
  const { bytes, count } = weights.totals(tree);
  const order = inOrder(
    tree,
    (node) => bytes[node]! >= least,
    (a, b) => bytes[b]! - bytes[a]! || count[b]! - count[a]! || byKey(tree.key[a]!, tree.key[b]!),
  );
  return {
    ...placed(tree, order),
    frame: Int32Array.from(order, (node) => tree.key[node]!),
    bytes: Float64Array.from(order, (node) => bytes[node]!),
    own: Float64Array.from(order, (node) => weights.own[node]!),
    count: Int32Array.from(order, (node) => count[node]!),
  };
}

/** A frame of each of two snapshots, if both have it, and their lines: 0 if there's no line, or
 * more than one. */
interface Same {
  readonly frames: (number | undefined)[];
  readonly lines: number[];
}

/** A function's lines in two snapshots, which may be of different versions of a program. */
class Lines {
  readonly of = [new Set<number>(), new Set<number>()] as const;
  private matched: ReadonlyMap<number, number> | null | undefined;

  /** The second snapshot's line for each of the first one's. If one of them has all lines of the
   * other, they match by number; if they have equally many, by their order; otherwise it's null, and
   * only the whole function can be compared. */
  match(): ReadonlyMap<number, number> | null {
    if (this.matched === undefined) {
      const [was, is] = this.of;
      const [a, b] = this.of.map((one) => [...one].sort((x, y) => x - y));
      const same = a!.every((one) => is.has(one)) || b!.every((one) => was.has(one));
      this.matched =
        same || was.size === is.size
          ? new Map(a!.map((line, i) => [line, same ? line : b![i]!]))
          : null;
    }
    return this.matched;
  }
}

/** The functions of two snapshots, by their names and files. */
class Functions {
  private readonly texts = new Map<string, number>();
  private readonly lines = new Map<number, Lines>();

  constructor(both: readonly [Code, Code]) {
    both.forEach((code, which) => {
      code.frames.lines.forEach((line, frame) => {
        const name = this.name(code, frame);
        const lines = this.lines.get(name) ?? new Lines();
        this.lines.set(name, lines);
        lines.of[which]!.add(line);
      });
    });
  }

  text({ texts }: Code, place: number): number {
    return numbered(this.texts, texts[place] ?? '');
  }

  /** The number of a frame's function. */
  name(code: Code, frame: number): number {
    const { functions, files } = code.frames;
    return this.text(code, functions[frame]!) * 2 ** 26 + this.text(code, files[frame]!);
  }

  match(name: number): ReadonlyMap<number, number> | null {
    return this.lines.get(name)?.match() ?? null;
  }
}

/** The functions of the snapshots that were compared last. */
const compared = new WeakMap<Code, readonly [Code, Functions]>();

function functionsOf(before: Code, after: Code): Functions {
  const known = compared.get(after);
  if (known?.[0] === before) return known[1];
  const found = new Functions([before, after]);
  compared.set(after, [before, found]);
  return found;
}

/** Numbers for the names of two snapshots' frames: frames of the same function, file and line have
 * the same number. */
class Names {
  private readonly numbers = new Map<string, number>();
  private readonly known: Same[] = [];
  private readonly functions: Functions;

  constructor(private readonly both: readonly [Live, Live]) {
    this.functions = functionsOf(both[0].code, both[1].code);
  }

  /** The keys of one snapshot's frames. */
  keys(which: 0 | 1): (frame: number) => number {
    const known = new Map<number, number>();
    const { functions } = this;
    const { code, lines } = this.both[which];
    return (frame) => {
      if (frame < 0 && frame > NAMED) return frame;
      const found = known.get(frame);
      if (found !== undefined) return found;
      const name =
        frame < 0
          ? -1 - functions.text(code, lines[NAMED - frame]?.[0] ?? -1)
          : functions.name(code, frame);
      const match = functions.match(name);
      const line = match ? code.frames.lines[frame]! : 0;
      const number = numbered(this.numbers, `${name}:${which ? line : (match?.get(line) ?? 0)}`);
      const same = this.known[number] ?? { frames: [], lines: [0, 0] };
      this.known[number] = same;
      same.frames[which] ??= frame;
      same.lines[which] = line;
      known.set(frame, number);
      return number;
    };
  }

  /** The frames with a key. */
  same(key: number): Same {
    return key < 0 ? { frames: [undefined, key], lines: [0, 0] } : this.known[key]!;
  }
}

function numbered<T>(numbers: Map<T, number>, one: T): number {
  const known = numbers.get(one);
  if (known !== undefined) return known;
  numbers.set(one, numbers.size);
  return numbers.size - 1;
}

/** Merges two trees. `before` has the first one's bytes; everything else is the second one's. A
 * node's children are sorted by the larger of their two byte counts. */
export function treeOfBoth(before: Live, after: Live, shape: Shape, least: number): TreeOfBoth {
  const tree = new Growing();
  const names = new Names([before, after]);
  const [was, is] = [new Weights(), new Weights()];
  fold(tree, was, before, shape, names.keys(0));
  fold(tree, is, after, shape, names.keys(1));
  const first = was.totals(tree);
  const { bytes, count } = is.totals(tree);
  const most = (node: number): number => Math.max(first.bytes[node]!, bytes[node]!);
  const order = inOrder(
    tree,
    (node) => most(node) >= least,
    (a, b) => most(b) - most(a) || byKey(tree.key[a]!, tree.key[b]!),
  );
  const same = order.map((node) => names.same(tree.key[node]!));
  return {
    ...placed(tree, order),
    frame: Int32Array.from(same, ({ frames: [first = 0, second = first] }) => second),
    frameOf: Uint8Array.from(same, ({ frames }) => Number(frames[1] !== undefined)),
    lineBefore: Float64Array.from(same, ({ lines }) => lines[0]!),
    lineAfter: Float64Array.from(same, ({ lines }) => lines[1]!),
    bytes: Float64Array.from(order, (node) => bytes[node]!),
    own: Float64Array.from(order, (node) => is.own[node]!),
    count: Int32Array.from(order, (node) => count[node]!),
    before: Float64Array.from(order, (node) => first.bytes[node]!),
  };
}
