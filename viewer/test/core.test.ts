import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Coded, decoded } from '../src/core/columns.js';
import { type Lives, Timeline } from '../src/core/lives.js';
import { lookUp, moment, paint, type View, walk } from '../src/core/stack.js';
import * as slow from './slow.js';

/** Numbers at random, the same each time (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** As export/page/coding.py writes a column. */
function coded(numbers: readonly bigint[], differences: boolean): [Uint8Array, Coded] {
  const kept = differences ? numbers.map((one, i) => one - (i ? numbers[i - 1]! : 0n)) : numbers;
  const folded = kept.map((one) => (one < 0n ? -2n * one - 1n : 2n * one));
  const highest = folded.reduce((most, one) => (one > most ? one : most), 0n);
  const width = highest ? Math.ceil(highest.toString(2).length / 8) : 0;
  const at = 3;
  const data = new Uint8Array(at + width * numbers.length);
  for (let plane = 0; plane < width; plane++) {
    folded.forEach((one, i) => {
      data[at + plane * numbers.length + i] = Number((one >> BigInt(8 * plane)) & 255n);
    });
  }
  return [data, { rows: numbers.length, width, differences, at }];
}

test('columns come back', () => {
  const next = random(1);
  const edges = [0, 1, -1, 127, -128, 2 ** 31 - 1, -(2 ** 31), 2 ** 32, 2 ** 40, -(2 ** 52)];
  for (let round = 0; round < 300; round++) {
    const most = 2 ** next(52);
    const numbers = Array.from({ length: next(12) }, () =>
      next(4)
        ? Math.floor((next(2 ** 30) / 2 ** 30) * most) * (next(2) ? 1 : -1)
        : edges[next(10)]!,
    );
    const wanted = numbers.map((one) => one + 0);
    for (const differences of [false, true]) {
      const [data, column] = coded(numbers.map(BigInt), differences);
      assert.deepEqual(
        Array.from(decoded(data, column), (one) => one + 0),
        wanted,
      );
    }
  }
});

test('numbers that come again', () => {
  const numbers = [7, 7, 3, 2 ** 40, 3, 7, 0, 2 ** 40, 0];
  const back = numbers.map((one, i) => {
    const before = numbers.lastIndexOf(one, i - 1);
    return BigInt(i && before >= 0 ? i - before : 0);
  });
  const [planes, column] = coded(back, false);
  const [more, fresh] = coded([7n, 3n, 2n ** 40n, 0n], true);
  const data = new Uint8Array([...planes, ...more]);
  const moved = { ...fresh, at: fresh.at + planes.length };
  assert.deepEqual([...decoded(data, { ...column, fresh: moved })], numbers);
});

/** Allocations over some events, an event at most for each begin and end. */
function made(seed: number, events: number): Lives {
  const next = random(seed);
  const begin: number[] = [];
  const end: number[] = [];
  const bytes: number[] = [];
  const open: number[] = [];
  for (let i = next(4); i > 0; i--) {
    open.push(begin.length);
    begin.push(-1);
    end.push(events);
    bytes.push(next(5) * 100);
  }
  for (let e = 0; e < events; e++) {
    const kind = next(5);
    if (kind < 2) {
      open.push(begin.length);
      begin.push(e);
      end.push(next(9) ? events : -1); // some count at no moment
      bytes.push(next(3) ? 1 + next(1000) : 0);
      if (end.at(-1) === -1) open.pop();
    } else if (kind < 4 && open.length) {
      end[open.splice(next(open.length), 1)[0]!] = e;
    }
  }
  return {
    begin: Float64Array.from(begin),
    end: Float64Array.from(end),
    bytes: Float64Array.from(bytes),
  };
}

test('a timeline has what is live at every moment', () => {
  for (let seed = 0; seed < 20; seed++) {
    const events = seed * 40;
    const lives = made(seed, events);
    const timeline = new Timeline(lives, events);
    for (let m = 0; m <= events; m++) {
      const wanted = slow.live(lives, m);
      assert.deepEqual([...timeline.live(m)], wanted);
      assert.equal(timeline.count[m], wanted.length);
      assert.equal(timeline.usage[m], slow.usage(lives, m));
    }
  }
});

test('the picture shows who is in each pixel', () => {
  const next = random(9);
  for (let seed = 0; seed < 40; seed++) {
    const events = 1 + next(700);
    const lives = made(seed, events);
    const timeline = new Timeline(lives, events);
    const from = next(events);
    const highest = Math.max(...timeline.usage, 1);
    const low = next(3) ? 0 : next(highest);
    const view: View = {
      from,
      to: from + 1 + next(events + 1 - from),
      low,
      high: low + 1 + next(highest),
      width: 1 + next(30),
      height: 1 + next(30),
    };
    const columns = Int32Array.from({ length: view.width }, (_, x) => moment(timeline, view, x));
    const wanted: number[] = [];
    for (let y = 0; y < view.height; y++) {
      for (let x = 0; x < view.width; x++) {
        wanted.push(slow.pixel(lives, events, view, x, view.height - 1 - y));
      }
    }
    assert.deepEqual(
      [...columns],
      Array.from({ length: view.width }, (_, x) => slow.moment(lives, events, view, x)),
    );
    for (const way of [walk, lookUp]) {
      const ids = new Int32Array(view.width * view.height).fill(-1);
      way(timeline, view, columns, ids);
      assert.deepEqual([...ids], wanted, way.name);
    }
    assert.deepEqual([...paint(timeline, view)], wanted);
  }
});
