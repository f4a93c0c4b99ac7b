import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesAt, lyingOf, ordered, spread } from '../../src/core/fleet.js';
import { random } from '../random.js';
import { rankOf } from '../ranks.js';

test('curves of different lengths become rows of equal length', () => {
  const curves = spread([2, 0, 3], Float64Array.of(1, 2, 3, 4, 5));
  assert.deepEqual([curves.ranks, curves.moments], [3, 3]);
  assert.deepEqual([...curves.bytes], [1, 2, NaN, NaN, NaN, NaN, 3, 4, 5]);
  assert.equal(bytesAt(curves, 2, 1), 4);
  assert.ok(Number.isNaN(bytesAt(curves, 1, 0)));
  assert.throws(() => spread([2], Float64Array.of(1)), /the page is damaged: it has 1 numbers/);
  assert.equal(spread([], new Float64Array()).moments, 0);
});

test('the distribution over all ranks matches a simple computation', () => {
  const next = random(3);
  for (let round = 0; round < 100; round++) {
    const lengths = Array.from({ length: 1 + next(9) }, () => next(4));
    const rows = lengths.map((length) => Array.from({ length }, () => next(20)));
    const curves = spread(lengths, Float64Array.from(rows.flat()));
    lyingOf(curves).forEach(({ min, median, max }, moment) => {
      const there = rows.flatMap((row) => (moment < row.length ? [row[moment]!] : []));
      const sorted = [...there].sort((a, b) => a - b);
      const [low, high] = [
        sorted[Math.ceil(sorted.length / 2) - 1]!,
        sorted[Math.floor(sorted.length / 2)]!,
      ];
      assert.equal(median, Math.floor((low + high) / 2));
      assert.deepEqual([min, max], [Math.min(...there), Math.max(...there)]);
    });
  }
  const none = lyingOf({ ranks: 1, moments: 1, bytes: Float64Array.of(NaN) });
  assert.deepEqual(none, [{ min: NaN, median: NaN, max: NaN }]);
});

test('orders', () => {
  const ranks = [
    rankOf(0, { peak_bytes: 5, group: 1, host: 'b' }),
    rankOf(1, { peak_bytes: 9, group: 0, host: 'a' }),
    rankOf(2, { status: 'unreadable', device: null, group: null }),
    rankOf(3, { peak_bytes: 9, group: 1, host: null }),
    rankOf(null, { peak_bytes: 7, group: null, host: 'a' }),
  ];
  assert.deepEqual(ordered(ranks, 'rank'), [0, 1, 2, 3, 4]);
  assert.deepEqual(ordered(ranks, 'peak'), [1, 3, 4, 0, 2]);
  assert.deepEqual(ordered(ranks, 'alike'), [1, 0, 3, 4, 2]);
  assert.deepEqual(ordered(ranks, 'host'), [1, 4, 0, 3, 2]);
});
