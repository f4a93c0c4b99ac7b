// Ticks are within the range, at round numbers, and not more than requested.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byteAxis, byteTicks, eventTicks, label, timeTicks } from '../../src/ui/axes.js';

test('byte ticks are at round numbers of their unit', () => {
  assert.deepEqual(
    byteTicks(0, 5.2 * 2 ** 30, 6).map(({ label }) => label),
    ['0', '1 GiB', '2 GiB', '3 GiB', '4 GiB', '5 GiB'],
  );
  assert.deepEqual(
    byteTicks(0, 1000, 4).map(({ at }) => at),
    [0, 256, 512, 768],
  );
});

/** The bytes that a label means. */
function meant(text: string): number {
  const [, number, unit] = /^\+?([\d,.]+)(?: (\w+))?$/.exec(text)!;
  const power = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'].indexOf(unit ?? 'B');
  return Number(number!.replaceAll(',', '')) * 1024 ** power;
}

test('a label means exactly the bytes at which it is', () => {
  assert.deepEqual(
    byteTicks(0, 1.3 * 2 ** 30, 6).map(({ label }) => label),
    ['0', '256 MiB', '512 MiB', '768 MiB', '1 GiB', '1.25 GiB'],
  );
  assert.equal(label(9 * 2 ** 27, 2 ** 27), '1,152 MiB');
  for (const low of [0, 1000, 5e6, 22 * 2 ** 30, 2 ** 40 + 12345]) {
    for (const height of [4096, 1e5, 3e6, 4 * 2 ** 20, 7e9, 2 ** 41]) {
      const { ticks, base } = byteAxis(low, low + height, 7);
      assert.ok(ticks.length >= 2);
      for (const { at, label } of ticks) {
        assert.equal(base + meant(label), at);
        assert.ok(label.length <= 12, label);
      }
      if (base) assert.equal(meant(label(base, 1024)), base);
    }
  }
});

test('ticks are few, ascending and within the range', () => {
  for (const high of [1, 7, 1023, 1024, 5e6, 3.3e9, 2 ** 40, 2 ** 52]) {
    for (const most of [1, 2, 5, 9]) {
      const found = byteTicks(0, high, most).map(({ at }) => at);
      const more = Math.max(most, 2) + 1;
      assert.ok(found.length >= 2 && found.length <= more, `${high} ${most} ${found}`);
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
