import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NAMED, ROOT } from '../../src/core/code.js';
import type { Tree, TreeQuery } from '../../src/protocol.js';
import { opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { bytesOf, NOTHING, type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };

type Shape = Pick<TreeQuery, 'root' | 'frames'>;

/** An allocation's path in a tree, from the root on. */
function path(of: World, id: number, { root, frames }: Shape): number[] {
  const one = of.lives[id]!;
  const stack = of.stacks[one.stack];
  if (!stack) return [one.stack === of.stacks.length ? -2 : -3];
  const kept = stack.frames.filter((_, i) => frames === 'all' || stack.code[i] === 1);
  const shown = kept.length ? kept : stack.frames.length ? [named(of, one.stack)] : [-2];
  return root === 'outermost' ? [...shown].reverse() : shown;
}

/** The number of the node that represents a stack without code. */
function named(of: World, stack: number): number {
  const groups = of.groups.find(({ way }) => way === 'line');
  return groups ? -16 - groups.ofStacks![stack]! : of.stacks[stack]!.frames[0]!;
}

/** The bytes, count and own bytes of each path from the root. */
type Sums = Map<string, { bytes: number; count: number; own: number }>;

function sums(of: World, query: TreeQuery, name: (frame: number) => string = String): Sums {
  const found: Sums = new Map([['', { bytes: 0, count: 0, own: 0 }]]);
  for (const id of slow.live(of, query.measure, query.moment)) {
    if (query.filter?.include && !slow.met(of, new RegExp(query.filter.include), id)) continue;
    const bytes = bytesOf(of.lives[id]!, query.measure);
    const all = path(of, id, query).map(name);
    for (let length = 0; length <= all.length; length++) {
      const key = all.slice(0, length).join('>');
      const sum = found.get(key) ?? { bytes: 0, count: 0, own: 0 };
      sum.bytes += bytes;
      sum.count++;
      if (length === all.length) sum.own += bytes;
      found.set(key, sum);
    }
  }
  return found;
}

/** The path of each node of a tree. Also checks the tree's depths and order. */
function paths(tree: Tree, name: (node: number) => string): string[] {
  const found: string[] = [];
  const open: number[] = []; // the previous node and its ancestors
  tree.parent.forEach((parent, node) => {
    assert.equal(tree.depth[node], node ? tree.depth[parent]! + 1 : 0);
    if (!node) {
      assert.deepEqual([parent, tree.frame[0]], [-1, -1]);
    } else {
      while (open[open.length - 1] !== parent) assert.ok(open.pop() !== undefined, 'out of order');
    }
    open.push(node);
    const above = found[parent];
    found.push(node ? (above ? `${above}>${name(node)}` : name(node)) : '');
  });
  assert.equal(new Set(found).size, found.length);
  return found;
}

function query(next: (below: number) => number, events: number): TreeQuery {
  return {
    place,
    measure: next(2) ? 'requested' : 'allocated',
    moment: next(events + 1),
    root: next(2) ? 'outermost' : 'innermost',
    frames: next(2) ? 'all' : 'code',
    filter: next(3) ? null : { include: 'a.py' },
    least: next(2) ? 0 : next(4000),
  };
}

test('calls and the bytes that they hold', () => {
  const next = random(15);
  for (let seed = 0; seed < 150; seed++) {
    const of = world(seed, 1 + next(120));
    const asked = query(next, of.events);
    const tree = opened(of).tree(asked);
    const wanted = sums(of, asked);
    const names = paths(tree, (node) => String(tree.frame[node]));
    // The root is always kept, however little it holds.
    const kept = [...wanted].filter(([key, { bytes }]) => !key || bytes >= asked.least);
    assert.deepEqual(new Set(names), new Set(kept.map(([key]) => key)));
    names.forEach((key, node) => {
      const { bytes, count, own } = wanted.get(key)!;
      assert.deepEqual([tree.bytes[node], tree.count[node], tree.own[node]], [bytes, count, own]);
    });
    // Siblings are sorted by bytes, then by allocations (both descending), then by frame.
    const before = new Map<number, number>();
    tree.parent.forEach((parent, node) => {
      const other = before.get(parent);
      if (other !== undefined) {
        const rank = (n: number): number[] => [
          -tree.bytes[n]!,
          -tree.count[n]!,
          tree.frame[n]! < 0 ? 2 ** 32 + tree.frame[n]! : tree.frame[n]!,
        ];
        const [a, b] = [rank(other), rank(node)];
        const differs = a.findIndex((one, i) => one !== b[i]);
        assert.ok(a[differs]! < b[differs]!);
      }
      before.set(parent, node);
    });
  }
});

/** The lines of a function in a snapshot's frames. */
function linesOf({ frames, texts }: World, name: string, file: string): number[] {
  const own = frames.filter(([f, path]) => texts[f] === name && texts[path] === file);
  return [...new Set(own.map(([, , line]) => line))].sort((a, b) => a - b);
}

/** The line of a function's second version that is a line of its first version; null if only the
 * whole function can be compared. */
function matched(was: readonly number[], is: readonly number[], line: number): number | null {
  const subset = (some: readonly number[], all: readonly number[]) =>
    some.every((one) => all.includes(one));
  if (subset(was, is) || subset(is, was)) return line;
  return was.length === is.length ? is[was.indexOf(line)]! : null;
}

test('lines of a function match by number, by their order, or not at all', () => {
  const of = (...lines: number[]): World => ({
    ...NOTHING,
    lives: lines.map((_, stack) => ({
      ...{ begin: -1, end: 0, asked: 0, requested: 10 + stack, block: 512, stack },
      ...{ pool: 0, stream: 0, address: null },
    })),
    stacks: lines.map((_, frame) => ({ frames: [frame], code: [1] })),
    texts: ['f', 'a.py'],
    frames: lines.map((line) => [0, 1, line] as const),
    pools: [null],
    streams: ['0'],
  });
  const asked: TreeQuery = {
    ...{ place, measure: 'requested', moment: 0, root: 'outermost', frames: 'code' },
    ...{ filter: null, least: 0 },
  };
  const lines = (a: World, b: World) => {
    const second = { ...asked, place: { snapshot: 1, device: 0 } };
    const tree = opened(a, b).treeOfDifferences(asked, second);
    const all = [...tree.lineBefore].map((line, node) => [line, tree.lineAfter[node]!] as const);
    return all.slice(1).sort(([a, b], [c, d]) => (a || b) - (c || d));
  };
  assert.deepEqual(lines(of(3, 9), of(3, 9)), [
    [3, 3],
    [9, 9],
  ]);
  // The second version runs another line.
  assert.deepEqual(lines(of(3, 9), of(3, 5, 9)), [
    [3, 3],
    [0, 5],
    [9, 9],
  ]);
  // A line was added above.
  assert.deepEqual(lines(of(3, 9), of(4, 10)), [
    [3, 4],
    [9, 10],
  ]);
  // Anything may have changed.
  assert.deepEqual(lines(of(3, 9), of(4, 5, 10)), [[0, 0]]);
});

test('two snapshots as one tree', () => {
  const next = random(16);
  for (let seed = 0; seed < 100; seed++) {
    const [first, second] = [world(seed, 1 + next(120)), world(seed + 1000, 1 + next(120))];
    // In the second snapshot, names have other numbers.
    const turned = {
      ...second,
      texts: [...second.texts].reverse(),
      groups: second.groups.map((one) => ({
        ...one,
        ...(one.lines ? { lines: one.lines.map((line) => second.texts.length - 1 - line) } : {}),
      })),
      frames: second.frames.map(
        ([name, file, line]) =>
          [second.texts.length - 1 - name, second.texts.length - 1 - file, line] as const,
      ),
    };
    const asked = { ...query(next, 0), moment: next(first.events + 1) };
    const other = {
      ...asked,
      place: { snapshot: 1, device: 0 },
      moment: next(turned.events + 1),
    };
    const tree = opened(first, turned).treeOfDifferences(asked, other);
    const called = (of: World) => (frame: number) => {
      const [name, file, line] = of.frames[frame] ?? [];
      const groups = of.groups.find(({ way }) => way === 'line');
      if (frame <= -16) return `as ${of.texts[groups!.lines![-16 - frame]!]}`;
      if (frame < 0) return String(frame);
      const [function_, path] = [of.texts[name!]!, of.texts[file!]!];
      const was = linesOf(first, function_, path);
      const is = linesOf(turned, function_, path);
      const whole = matched(was, is, was[0] ?? 0) === null;
      return `${function_} in ${path}:${whole ? '?' : of === turned ? line : matched(was, is, line!)}`;
    };
    const names = paths(tree, (node) =>
      called(tree.frameOf[node] ? turned : first)(tree.frame[node]!),
    );
    const [was, is] = [sums(first, asked, called(first)), sums(turned, other, called(turned))];
    const all = [...new Set([...was.keys(), ...is.keys()])];
    const most = (key: string): number =>
      Math.max(was.get(key)?.bytes ?? 0, is.get(key)?.bytes ?? 0);
    const kept = all.filter((key) => !key || most(key) >= asked.least);
    assert.deepEqual(new Set(names), new Set(kept));
    names.forEach((key, node) => {
      const { bytes, count, own } = is.get(key) ?? { bytes: 0, count: 0, own: 0 };
      assert.deepEqual([tree.bytes[node], tree.count[node], tree.own[node]], [bytes, count, own]);
      assert.equal(tree.before[node], was.get(key)?.bytes ?? 0);
      // Nodes say at which line they are, unless they represent a whole function.
      const said = tree.frameOf[node] ? tree.lineAfter[node] : tree.lineBefore[node];
      const frame = (tree.frameOf[node] ? turned : first).frames[tree.frame[node]!];
      assert.equal(said, /:\d+$/.test(key) ? frame![2] : 0);
    });
    const before = new Map<number, number>();
    tree.parent.forEach((parent, node) => {
      const other = before.get(parent);
      if (other !== undefined) assert.ok(most(names[other]!) >= most(names[node]!));
      before.set(parent, node);
    });
  }
});

test('a stack without code is named like its group, also in another snapshot', () => {
  const stacks = [
    { frames: [0, 1], code: [0, 0] },
    { frames: [1, 0], code: [0, 1] },
  ];
  const lives = [0, 1].map((stack) => ({
    begin: -1,
    end: 0,
    asked: 0,
    requested: 10 + stack,
    block: 512,
    stack,
    pool: 0,
    stream: 0,
    address: null,
  }));
  const first: World = {
    ...NOTHING,
    lives,
    stacks,
    texts: ['f', 'g', 'NllLossBackward0 (autograd)', 'main'],
    frames: [
      [0, 3, 1],
      [1, 3, 2],
    ],
    groups: [{ way: 'line', ofStacks: [0, 1, 2, 2], lines: [2, 3, 0] }],
    pools: [null],
    streams: ['0'],
  };
  // In the second snapshot, this name belongs to another group and has another index.
  const second: World = {
    ...first,
    texts: ['NllLossBackward0 (autograd)', 'f', 'g', 'main'],
    frames: [
      [1, 3, 5],
      [2, 3, 6],
    ],
    groups: [{ way: 'line', ofStacks: [1, 0, 2, 2], lines: [3, 0, 1] }],
  };
  const asked: TreeQuery = {
    place,
    measure: 'requested',
    moment: 0,
    root: 'outermost',
    frames: 'code',
    filter: null,
    least: 0,
  };
  assert.deepEqual([...opened(first).tree(asked).frame], [ROOT, 0, NAMED]);
  const tree = opened(first, second).treeOfDifferences(asked, {
    ...asked,
    place: { snapshot: 1, device: 0 },
  });
  assert.deepEqual([...tree.frame], [ROOT, 0, NAMED - 1]);
  assert.deepEqual([...tree.frameOf].slice(1), [1, 1]);
  assert.deepEqual(
    [[...tree.before], [...tree.bytes]],
    [
      [21, 11, 10],
      [21, 11, 10],
    ],
  );
});
