import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coloured, darkened, faded } from '../../src/core/colour.js';
import { random } from '../random.js';
import * as slow from '../slow.js';

test("a picture's colours follow the rules", () => {
  const next = random(19);
  for (let round = 0; round < 200; round++) {
    const [width, height] = [1 + next(6), 1 + next(20)];
    // Fill each column with runs of a few pixels.
    const ids = new Int32Array(width * height);
    for (let x = 0; x < width; x++) {
      let id = next(6) - 1;
      for (let y = 0; y < height; y++) {
        if (!next(3)) id = next(6) - 1;
        ids[y * width + x] = id;
      }
    }
    const colouring = {
      way: 'stack',
      colours: [[1, 0x12f3a7] as const, [4, next(2 ** 24)] as const],
      others: Array.from({ length: 1 + next(2) }, () => next(2 ** 24)),
      background: next(2 ** 24),
    } as const;
    const group = (id: number): number => [0, 1, 2, 2, 4][id]!;
    const only = next(2) ? null : { has: (id: number) => id % 2 === 0 };
    const found = coloured(ids, width, colouring, { at: group }, only);
    const wanted = slow.colours([...ids], width, colouring, group, (id) => !only || only.has(id));
    assert.deepEqual(
      [...found],
      wanted.flatMap((rgb) => [...rgb, 255]),
    );
  }
});

test("without colours, everything has the background's colour", () => {
  const colouring = { way: 'stack', colours: [], others: [], background: 0x010203 } as const;
  const found = coloured(Int32Array.of(0, -1), 1, colouring, { at: () => 7 }, null);
  assert.deepEqual([...found], [1, 2, 3, 255, 1, 2, 3, 255]);
});

test('faded and darkened', () => {
  assert.equal(faded(0xff0080, 0xffffff), 0xffbfdf);
  assert.equal(faded(0xff0080, 0x000000), 0x400020);
  assert.equal(darkened(0xff0580), 0xcc0466);
});
