// Ticks are within the range, at round numbers, and not more than requested.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byteTicks, eventTicks, timeTicks } from '../../src/ui/axes.js';

test('byte ticks are at round numbers of their unit', () => {
  assert.deepEqual(
    byteTicks(0, 5.2 * 2 ** 30, 6).map(({ label }) => label),
    ['0', '1.0 GiB', '2.0 GiB', '3.0 GiB', '4.0 GiB', '5.0 GiB'],
  );
  assert.deepEqual(
    byteTicks(0, 1000, 4).map(({ at }) => at),
    [0, 256, 512, 768],
  );
});

test('ticks are few, ascending and within the range', () => {
  for (const high of [1, 7, 1023, 1024, 5e6, 3.3e9, 2 ** 40, 2 ** 52]) {
    for (const most of [2, 5, 9]) {
      const found = byteTicks(0, high, most).map(({ at }) => at);
      assert.ok(found.length >= 1 && found.length <= most + 1, `${high} ${most} ${found}`);
      assert.ok(found.every((at, i) => at >= 0 && at <= high && (i === 0 || at > found[i - 1]!)));
    }
  }
});

test("event ticks use the recording's event numbers", () => {
  assert.deepEqual(eventTicks(0, 100, 1950, 3), [
    { at: 0, label: '1,950' },
    { at: 50, label: '2,000' },
    { at: 100, label: '2,050' },
  ]);
  assert.deepEqual(
    eventTicks(0, 3, 0, 10).map(({ at }) => at),
    [0, 1, 2, 3],
  );
});

test('the unit of time ticks depends on their distance', () => {
  assert.deepEqual(
    timeTicks(0, 2_500_000, 3).map(({ label }) => label),
    ['0', '1 s', '2 s'],
  );
  assert.deepEqual(
    timeTicks(300, 900, 3).map(({ label }) => label),
    ['400 µs', '600 µs', '800 µs'],
  );
  assert.deepEqual(
    timeTicks(1_500, 3_200, 4).map(({ label }) => label),
    ['1.5 ms', '2 ms', '2.5 ms', '3 ms'],
  );
});
