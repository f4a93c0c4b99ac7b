// Lanes: checks the rules for rows, and compares bars with the ranges that they show.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  barAt,
  barsOf,
  firstEnding,
  laid,
  ordered,
  type Ranges,
} from '../../src/ui/canvas/lanes/layout.js';
import { modelOf, union } from '../../src/ui/canvas/lanes/model.js';
import { joined } from '../../src/ui/canvas/lanes/paint.js';
import { random } from './random.js';

function rangesOf(pairs: readonly (readonly [number, number])[]): Ranges {
  return {
    from: Float64Array.from(pairs, ([from]) => from),
    to: Float64Array.from(pairs, ([, to]) => to),
  };
}

/** Random ranges: nested or overlapping, as with several threads; some are only a point. */
function anyRanges(seed: number, count: number, reach: number): Ranges {
  const next = random(seed);
  return rangesOf(
    Array.from({ length: count }, () => {
      const from = next(reach);
      return [from, from + (next(6) ? next(2 ** next(Math.ceil(Math.log2(reach)))) : 0)];
    }),
  );
}

test('ranges are sorted by start, longer ones first', () => {
  for (let seed = 0; seed < 60; seed++) {
    const ranges = anyRanges(seed, random(seed)(80), 30);
    const wanted = Array.from(ranges.from, (_, i) => i).sort(
      (a, b) => ranges.from[a]! - ranges.from[b]! || ranges.to[b]! - ranges.to[a]! || a - b,
    );
    assert.deepEqual([...ordered(ranges)], wanted);
    // Fractions and negative numbers.
    const real = {
      from: ranges.from.map((x) => (x - 15) / 7),
      to: ranges.to.map((x) => (x - 15) / 7),
    };
    assert.deepEqual([...ordered(real)], wanted);
  }
});

test('ranges inside another go below it; others go to the highest free row', () => {
  const ranges = rangesOf([
    [0, 100], // a step
    [10, 50], // inside the step
    [20, 30], // inside the previous range
    [40, 70], // from another thread; overlaps the second range
    [60, 90], // fits in the second row, which is free again
    [100, 120], // after the step
    [110, 110], // a point inside the previous range
  ]);
  const { rows, more } = laid(ranges, 9);
  assert.deepEqual(
    rows.map((row) => [...row]),
    [
      [0, 5],
      [1, 4, 6],
      [2, 3],
    ],
  );
  assert.equal(more.length, 0);
});

test('equal ranges and equal points nest', () => {
  const ranges = rangesOf([
    [5, 5],
    [5, 5],
    [1, 3],
    [1, 3],
  ]);
  assert.deepEqual(
    laid(ranges, 9).rows.map((row) => [...row]),
    [
      [2, 0],
      [3, 1],
    ],
  );
});

test("ranges in a row don't overlap, outer ones are above inner ones, and none is lost", () => {
  for (let seed = 0; seed < 80; seed++) {
    const ranges = anyRanges(seed, 60, 100);
    const { from, to } = ranges;
    const { rows, more } = laid(ranges, 4);
    assert.deepEqual(
      [...rows.flatMap((row) => [...row]), ...more].sort((a, b) => a - b),
      Array.from(from, (_, i) => i),
    );
    assert.ok(rows.length === 4 || more.length === 0);
    const rowOf = new Map(rows.flatMap((row, r) => [...row].map((one) => [one, r] as const)));
    for (const row of rows) {
      for (let i = 1; i < row.length; i++) assert.ok(to[row[i - 1]!]! <= from[row[i]!]!);
    }
    for (let outer = 0; outer < from.length; outer++) {
      for (let inner = 0; inner < from.length; inner++) {
        const holds =
          from[outer]! < from[inner]! && to[inner]! <= to[outer]! && from[inner]! < to[outer]!;
        if (!holds || !rowOf.has(inner)) continue;
        assert.ok(rowOf.has(outer), 'the range around a shown range is shown');
        assert.ok(rowOf.get(outer)! < rowOf.get(inner)!);
      }
    }
  }
});

test('each range in a row is in exactly one bar', () => {
  for (let seed = 0; seed < 60; seed++) {
    const next = random(seed);
    const ranges = anyRanges(seed, 300, 2000);
    const { from, to } = ranges;
    const row = laid(ranges, 5).rows[next(2)]!;
    const [start, width] = [next(1000), 100];
    const scale = width / (50 + next(1500));
    const bars = barsOf(ranges, row, { start, scale, width });
    const shown = [...row].filter(
      (one) => (to[one]! > start || from[one]! >= start) && (from[one]! - start) * scale < width,
    );
    // Each range is in exactly one bar.
    assert.equal(
      bars.reduce((all, bar) => all + Math.max(bar.merged, 1), 0),
      shown.length,
    );
    let k = 0;
    for (const bar of bars) {
      const own = shown.slice(k, k + Math.max(bar.merged, 1));
      k += own.length;
      assert.equal(own[0], bar.range);
      for (const one of own) {
        const [left, right] = [(from[one]! - start) * scale, (to[one]! - start) * scale];
        assert.ok(bar.from <= left + 1e-9);
        assert.ok(bar.to >= Math.min(right, left + 1) - 1e-9);
        if (bar.merged) assert.ok(right - left < 1);
      }
      // A bar for several ranges ends at most one pixel after the last one's start.
      const last = own.at(-1)!;
      if (bar.merged) assert.ok(bar.to <= (from[last]! - start) * scale + 2);
    }
    for (let i = 1; i < bars.length; i++) assert.ok(bars[i - 1]!.from <= bars[i]!.from);
  }
});

test('the bar under a pointer, or the nearest bar', () => {
  const bars = [
    { range: 0, merged: 0, from: 0, to: 10 },
    { range: 1, merged: 0, from: 20, to: 20.2 },
    { range: 2, merged: 0, from: 24, to: 24.1 },
  ];
  assert.equal(barAt(bars, 5, 4), 0);
  assert.equal(barAt(bars, 12, 4), 0);
  assert.equal(barAt(bars, 15, 4), -1);
  assert.equal(barAt(bars, 21, 4), 1);
  assert.equal(barAt(bars, 23, 4), 2);
});

test('points near each other are one bar, with their number', () => {
  const near = joined(
    [0, 4, 8.9, 9, 30].map((from, range) => ({
      range,
      merged: range === 1 ? 3 : 0,
      from,
      to: from,
    })),
    9,
  );
  assert.deepEqual(
    near.map(({ range, merged, from, to }) => [range, merged, from, to]),
    [
      [0, 5, 0, 8.9],
      [3, 0, 9, 9],
      [4, 0, 30, 30],
    ],
  );
});

test('the first range that ends after a position', () => {
  const ranges = rangesOf([
    [0, 10],
    [10, 10],
    [12, 20],
  ]);
  const row = Int32Array.from([0, 1, 2]);
  assert.deepEqual(
    [0, 9, 10, 11, 19, 20, 30].map((x) => firstEnding(ranges, row, x)),
    [0, 0, 1, 2, 2, 3, 3],
  );
});

test("ranges that don't fit in rows are shown as one row", () => {
  const ranges = rangesOf([
    [0, 10],
    [5, 12],
    [12, 13],
    [20, 20],
    [30, 40],
  ]);
  const { from, to } = union(ranges, ordered(ranges));
  assert.deepEqual([...from], [0, 20, 30]);
  assert.deepEqual([...to], [13, 20, 40]);
});

test('points, steps and annotations have separate lanes', () => {
  const { lanes } = modelOf(
    [
      { name: 'inner', from: 2, to: 3 },
      { name: 'outer', from: 0, to: 9 },
      { name: 'third', from: 2, to: 2.5 },
    ],
    [
      { kind: 'step', text: 'step 1', from: 0, to: 5 },
      { kind: 'oom', text: 'out of memory', from: 7, to: null },
      { kind: 'step', text: 'step 2', from: 5, to: null },
    ],
    2,
  );
  assert.deepEqual(
    lanes.map(({ kind, label, row, item }) => [
      kind,
      label,
      kind === 'more' ? row.length : [...row].map((one) => item(one).name),
    ]),
    [
      ['point', '', ['out of memory']],
      ['step', 'steps', ['step 1', 'step 2']],
      ['span', 'annotations', ['outer']],
      ['span', '', ['inner']],
      ['more', '+1 more', 1],
    ],
  );
});

test('a million annotations are arranged and drawn quickly', () => {
  const count = 1_000_000;
  const next = random(1);
  const from = Float64Array.from({ length: count }, (_, i) => i + next(1000) / 1000);
  const to = from.map((x) => x + 2 ** next(12) / 3);
  const ranges = { from, to };
  const began = performance.now();
  const { rows } = laid(ranges, 6);
  const layout = performance.now() - began;
  // Use the best of several times, because a busy machine may interrupt the process.
  let bars = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 10; i++) {
    const drawn = performance.now();
    for (const row of rows) barsOf(ranges, row, { start: 0, scale: 2000 / count, width: 2000 });
    bars = Math.min(bars, performance.now() - drawn);
  }
  // The limits are far above the usual times, because the machine may be busy.
  assert.ok(layout < 5000, `laid out in ${layout} ms`);
  assert.ok(bars < 200, `bars in ${bars} ms`);
  console.log(
    `# a million annotations: laid out in ${layout.toFixed(0)} ms, bars in ${bars.toFixed(1)} ms`,
  );
});
