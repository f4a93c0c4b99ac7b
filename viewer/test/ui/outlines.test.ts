// Shapes cover the same pixels as the picture that they are made from.

import assert from 'node:assert/strict';
import test from 'node:test';
import { pathsOf } from '../../src/ui/outlines.js';
import { random } from '../random.js';

/** The colour in each pixel of paths made of horizontal and vertical lines. */
function filled(svg: string, width: number, height: number): string[] {
  const found = new Array<string>(width * height).fill('');
  for (const [, colour, path] of svg.matchAll(/<path fill="([^"]*)" d="M([^"]*)z"/g)) {
    const points = path!.split('L').map((one) => one.split(',').map(Number) as [number, number]);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        let inside = false;
        points.forEach(([x1, y1], i) => {
          const [x2, y2] = points[(i + 1) % points.length]!;
          // A ray to the left from the pixel's middle crosses only vertical lines.
          const crosses = Math.min(y1, y2) < y + 0.5 && y + 0.5 < Math.max(y1, y2);
          if (x1 === x2 && crosses && x1 < x + 0.5) inside = !inside;
        });
        if (inside) found[y * width + x] = colour!;
      }
    }
  }
  return found;
}

test('shapes have the pixels of each allocation', () => {
  const next = random(5);
  for (let run = 0; run < 60; run++) {
    const [width, height] = [1 + next(12), 1 + next(14)];
    const ids = new Int32Array(width * height).fill(-1);
    let order = [0, 1, 2, 3, 4, 5];
    for (let x = 0; x < width; x++) {
      // Sometimes an allocation is freed, and may not come back in the next column.
      order = order.filter(() => next(6) > 0);
      if (!next(4)) order.push(6 + next(3));
      let y = height;
      for (const id of new Set(order)) {
        for (let n = next(4); n > 0 && y > 0; n--) ids[--y * width + x] = id;
      }
    }
    const colours = new Uint32Array(ids.length).map((_, i) =>
      ids[i]! < 0 ? 0 : 0xff000000 + ids[i]!,
    );
    const pixels = new Uint8ClampedArray(colours.buffer);
    const svg = pathsOf({ ids, pixels, width, height })!;
    const wanted = Array.from(ids, (id) => (id < 0 ? '' : `rgb(${id},0,0)`));
    assert.deepEqual(filled(svg, width, height), wanted);
    assert.equal(svg.split('<path').length - 1 >= new Set(ids).size - 1, true);
    assert.equal(
      pathsOf({ ids, pixels, width, height }, 0),
      new Set(ids).size > 1 || ids[0]! >= 0 ? null : svg,
    );
  }
});
