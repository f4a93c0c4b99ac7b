// The visible bytes: zooming keeps the byte under the pointer, and the view stays inside the stack.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lookedAt, scrolled, zoomedBytes } from '../../src/ui/vertical.js';

const GIB = 2 ** 30;

test('zooming keeps the height under the pointer', () => {
  const { low, high } = zoomedBytes({ low: 100, high: 300 }, 250, 0.5);
  assert.deepEqual([low, high], [175, 275]);
});

test('4 MiB at the top of 22 GiB can fill much of the picture', () => {
  let seen = { low: 0, high: 23 * GIB };
  const fixed = 22 * GIB + 2 * 2 ** 20;
  for (let i = 0; i < 30 && seen.high - seen.low > 2 ** 23; i++) {
    const { low, high } = lookedAt(zoomedBytes(seen, fixed, 0.5), 23 * GIB);
    seen = { low: low!, high: high! };
  }
  assert.ok(seen.high - seen.low <= 2 ** 23);
  assert.ok(seen.low < fixed && seen.high > fixed);
});

test('the view stays inside the stack, in whole bytes', () => {
  assert.deepEqual(lookedAt({ low: -500.5, high: 99_499.5 }, 1e6), { low: 0, high: 100_000 });
  assert.deepEqual(lookedAt({ low: 950_000, high: 1_050_000 }, 1e6), { low: 900_000, high: 1e6 });
  assert.deepEqual(lookedAt({ low: 0, high: 2e6 }, 1e6), { low: null, high: null });
  // Never fewer bytes than can be told apart.
  const { low, high } = lookedAt({ low: 5000.3, high: 5000.4 }, 1e6);
  assert.deepEqual([low, high], [5000, 5000 + 4096]);
});

test('scrolling keeps the number of bytes, and stays inside what there is to see', () => {
  const seen = { low: 4096, high: 12_288 };
  assert.deepEqual(scrolled(seen, 1000.4, 1e6), { low: 5096, high: 13_288 });
  assert.deepEqual(scrolled(seen, -1e6, 1e6), { low: 0, high: 8192 });
  assert.deepEqual(scrolled(seen, 1e7, 1e6), { low: 1e6 - 8192, high: 1e6 });
  // Where the stack is lower than the view, the view can only go down.
  assert.deepEqual(scrolled(seen, 500, 3000), seen);
  assert.deepEqual(scrolled(seen, -500, 3000), { low: 3596, high: 11_788 });
});
