// Two recordings in sync: steps fall on steps, and what is between them in proportion.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapped } from '../../src/ui/comparing.js';

test('steps fall on steps', () => {
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

test('where there are fewer steps the rest goes to the end', () => {
  const [a, b] = [
    [0, 10, 20, 30, 40],
    [0, 5, 9],
  ];
  assert.equal(mapped(a, b, 10), 5);
  assert.equal(mapped(a, b, 40), 9);
  assert.ok(mapped(a, b, 30) > 5 && mapped(a, b, 30) < 9);
  assert.equal(mapped(b, a, 9), 40);
});

test('an empty recording has its start', () => {
  assert.equal(mapped([0, 1], [0, 1], 0), 0);
  assert.ok(Number.isFinite(mapped([0, 0], [0, 7], 0)));
});
