// Two recordings in sync: steps map to steps, and positions between them are interpolated.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapped } from '../../src/ui/comparing.js';

test('steps map to steps', () => {
  const [a, b] = [
    [0, 10, 30, 50],
    [0, 100, 120, 220],
  ];
  for (const [i, at] of a.entries()) assert.equal(mapped(a, b, at), b[i]);
  assert.equal(mapped(a, b, 5), 50);
  assert.equal(mapped(a, b, 40), 170);
  for (let x = 0; x <= 50; x++) {
    assert.ok(Math.abs(mapped(b, a, mapped(a, b, x)) - x) < 1e-9);
  }
});

test("steps without a counterpart map to the other's end", () => {
  // `a` has the steps [0, 10) and [10, 20); `b` only has [0, 5).
  const [a, b] = [
    [0, 0, 10, 10, 20, 21],
    [0, 0, 5, 6],
  ];
  assert.equal(mapped(a, b, 5), 2.5);
  assert.equal(mapped(a, b, 10), 5);
  assert.equal(mapped(a, b, 21), 6);
  assert.equal(mapped(b, a, 5), 10);
  assert.equal(mapped(b, a, 6), 21);
});

test('an empty recording has a start', () => {
  assert.equal(mapped([0, 1], [0, 1], 0), 0);
  assert.equal(mapped([0, 0], [0, 7], 0), 0);
});
