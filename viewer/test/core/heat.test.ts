import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aboveMedian,
  diverging,
  evenScale,
  gridOf,
  painted,
  plainScale,
  rising,
  shade,
  shareOf,
} from '../../src/core/heat.js';
import { random } from '../random.js';

test("a cell shows the number furthest from the middle, whatever the picture's size", () => {
  const next = random(5);
  for (let round = 0; round < 300; round++) {
    const [ranks, columns] = [1 + next(12), 1 + next(12)];
    const values = Float64Array.from({ length: ranks * columns }, () =>
      next(5) ? next(21) - 10 : NaN,
    );
    const order = [...Array(ranks).keys()].sort(() => next(3) - 1);
    const most = { rows: 1 + next(15), columns: 1 + next(15) };
    for (const middle of [-10, 0]) {
      const grid = gridOf(values, columns, order, most, middle);
      assert.deepEqual(
        [grid.rows, grid.columns],
        [Math.min(ranks, most.rows), Math.min(columns, most.columns)],
      );
      for (let y = 0; y < grid.rows; y++) {
        for (let x = 0; x < grid.columns; x++) {
          const inside = [...values.keys()]
            .filter((at) => {
              const row = order.indexOf(Math.floor(at / columns));
              return (
                Math.floor((row * grid.rows) / ranks) === y &&
                Math.floor(((at % columns) * grid.columns) / columns) === x
              );
            })
            .map((at) => values[at]!)
            .filter((one) => !Number.isNaN(one))
            .sort((a, b) => Math.abs(b - middle) - Math.abs(a - middle) || b - a);
          assert.equal(grid.values[y * grid.columns + x], inside[0] ?? NaN);
        }
      }
    }
  }
});

test('scales', () => {
  const values = Float64Array.of(3, NaN, -1, 2);
  assert.deepEqual(plainScale(values), { low: -1, middle: -1, high: 3 });
  assert.deepEqual(evenScale(values), { low: -3, middle: 0, high: 3 });
  assert.deepEqual(plainScale(Float64Array.of(NaN)), { low: 0, middle: 0, high: 0 });
  assert.equal(shareOf({ low: 0, middle: 0, high: 4 }, 1), 0.25);
  assert.equal(shareOf({ low: 4, middle: 4, high: 4 }, 4), 0.5);
});

test("distance from the column's median", () => {
  const found = aboveMedian(Float64Array.of(2, 5, 1, NaN, 3, 0), 2, [2, 0]);
  assert.deepEqual([...found], [0, NaN, -0.5, NaN, 0.5, NaN]);
});

test('colours', () => {
  const ramp = rising();
  assert.deepEqual(shade(ramp, 0), ramp[0]);
  assert.deepEqual(shade(ramp, 1), ramp.at(-1));
  assert.deepEqual(shade(ramp, 7), ramp.at(-1));
  const three = diverging([0, 0, 200], [100, 100, 100], [200, 0, 0]);
  assert.deepEqual(shade(three, 0.5), [100, 100, 100]);
  assert.deepEqual(shade(three, 0.75), [150, 50, 50]);
  const grid = { rows: 1, columns: 2, values: Float64Array.of(NaN, 1) };
  const pixels = painted(grid, { low: 0, middle: 0, high: 1 }, three, [9, 8, 7]);
  assert.deepEqual([...pixels], [9, 8, 7, 255, 200, 0, 0, 255]);
});
