import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lowerBound, maxima, Series } from '../../src/core/curve.js';
import { random } from '../random.js';

/** The same random values as two series: one value per moment, and only the changes. */
function made(seed: number, moments: number): { values: number[]; all: Series[] } {
  const next = random(seed);
  const values: number[] = [next(100)];
  const starts: number[] = [0];
  for (let m = 1; m < moments; m++) {
    const same = next(3) === 0;
    values.push(same ? values[m - 1]! : next(2) ? next(100) : next(5));
    if (!same) starts.push(m);
  }
  const steps = Float64Array.from(starts, (m) => values[m]!);
  return {
    values,
    all: [
      new Series(Float64Array.from(values), null, moments),
      new Series(steps, Int32Array.from(starts), moments),
    ],
  };
}

test('the minimum and maximum of any range, and their moments', () => {
  const next = random(5);
  for (const moments of [1, 2, 31, 32, 33, 700, 1024, 1025, 5000]) {
    const { values, all } = made(moments, moments);
    for (let round = 0; round < 200; round++) {
      const from = next(moments);
      const to = from + 1 + next(moments - from);
      const part = values.slice(from, to);
      const most = Math.max(...part);
      for (const series of all) {
        assert.equal(series.at(from), values[from]);
        assert.equal(series.highest(from, to), most);
        assert.equal(series.least(from, to), Math.min(...part));
        assert.equal(series.highestAt(from, to), from + part.indexOf(most));
      }
    }
  }
});

/** Maxima between which the curve falls and rises by at least 5% of its range, highest first. */
function slowMaxima(values: readonly number[], from: number, to: number): [number, number][] {
  const part = values.slice(from, to);
  const drop = Math.floor((Math.max(...part) - Math.min(...part)) * 0.05);
  const found: [number, number][] = [];
  // A maximum is complete after a fall by `drop`. The next one begins after a rise by `drop`.
  let rising = true;
  let top = 0;
  let low = part[0]!;
  part.forEach((value, i) => {
    if (rising) {
      if (value > part[top]!) top = i;
      if (part[top]! > value && part[top]! - value >= drop) {
        found.push([from + top, part[top]!]);
        rising = false;
        low = value;
      }
    } else {
      low = Math.min(low, value);
      if (value > low && value - low >= drop) {
        rising = true;
        top = i;
      }
    }
  });
  if (rising) found.push([from + top, part[top]!]);
  return found.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

test('separate maxima, highest first', () => {
  const next = random(6);
  for (let seed = 0; seed < 60; seed++) {
    const moments = 1 + next(300);
    const { values, all } = made(seed, moments);
    const from = next(moments);
    const to = from + 1 + next(moments - from);
    const wanted = slowMaxima(values, from, to);
    for (const series of all) {
      const found = maxima(series, from, to, 1000);
      assert.deepEqual(
        found.map(({ moment, bytes }) => [moment, bytes]),
        wanted,
      );
      assert.deepEqual(maxima(series, from, to, 1), found.slice(0, 1));
      assert.deepEqual(maxima(series, from, to, 0), []);
    }
  }
});

test("a ripple isn't a separate peak", () => {
  const series = new Series(Float64Array.of(0, 100, 97, 99, 20, 60, 10), null, 7);
  assert.deepEqual(maxima(series, 0, 7, 9), [
    { moment: 1, bytes: 100 },
    { moment: 5, bytes: 60 },
  ]);
});

test('number of smaller entries', () => {
  const sorted = Int32Array.of(1, 1, 3, 7);
  assert.deepEqual(
    [0, 1, 2, 3, 7, 8].map((than) => lowerBound(sorted, than)),
    [0, 0, 2, 2, 3, 4],
  );
});
