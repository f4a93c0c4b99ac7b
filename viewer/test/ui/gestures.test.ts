// Zooming keeps the position under the pointer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { factorOf, zoomed } from '../../src/ui/gestures.js';

test('zooming keeps the position under the pointer', () => {
  for (const part of [0, 0.3, 1]) {
    for (const delta of [-500, -3, 3, 500]) {
      const { from, to } = zoomed({ from: 100, to: 300 }, part, factorOf(delta));
      assert.ok(Math.abs(from + part * (to - from) - (100 + part * 200)) < 1e-9);
      assert.equal(to - from > 200, delta > 0);
    }
  }
});
