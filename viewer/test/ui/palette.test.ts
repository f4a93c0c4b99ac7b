// Neighbouring greys can be told apart, from each other and from the background, in both themes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contrast, parsed } from '../../src/ui/canvas/colour.js';
import { css, DARK, LIGHT } from '../../src/ui/palette.js';

test('greys differ from each other and from the background', () => {
  for (const { others, background } of [LIGHT, DARK]) {
    const all = [...others, background].map((one) => parsed(css(one))!);
    for (const [i, one] of all.entries()) {
      for (const other of all.slice(0, i)) {
        assert.ok(contrast(one, other) >= 1.2, `${one} ${other}: ${contrast(one, other)}`);
      }
    }
  }
});
