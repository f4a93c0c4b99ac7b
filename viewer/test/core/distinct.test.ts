import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COLOURS, distinctColours } from '../../src/core/distinct.js';
import { Ends, Timeline } from '../../src/core/lives.js';
import * as slow from '../slow.js';
import { bytesOf, endOf, world } from '../world.js';

test('allocations that are ever on top of each other have different colours', () => {
  const seen = new Set<number>();
  for (let seed = 0; seed < 60; seed++) {
    const of = world(seed, 20 + seed * 10);
    for (const measure of ['requested', 'held'] as const) {
      const begin = Int32Array.from(of.lives, (one) => one.begin);
      const end = Int32Array.from(of.lives, (one) => endOf(one, measure));
      const bytes = Uint32Array.from(of.lives, (one) => bytesOf(one, measure));
      const colours = distinctColours(new Timeline(bytes, new Ends(begin, end, of.events)));
      for (let m = 0; m <= of.events; m++) {
        const live = slow.live(of, measure, m).filter((id) => bytes[id]);
        live.forEach((id, i) => {
          assert.ok(colours[id]! < COLOURS);
          seen.add(colours[id]!);
          if (i) assert.notEqual(colours[id], colours[live[i - 1]!], `seed ${seed}, ${id} at ${m}`);
        });
      }
    }
  }
  assert.equal(seen.size, COLOURS);
});

test('a long stack that loses allocations in any order', () => {
  const n = 3000;
  const begin = Int32Array.from({ length: n }, (_, i) => i);
  // Every third stays; the rest are freed in an order that makes distant ones neighbours.
  const end = begin.map((i) => (i % 3 ? n + ((i * 1571) % n) : 2 * n));
  const order = [...end.keys()].sort((a, b) => end[a]! - end[b]! || a - b);
  order.forEach((id, k) => {
    if (end[id]! < 2 * n) end[id] = n + k;
  });
  const timeline = new Timeline(new Uint32Array(n).fill(1), new Ends(begin, end, 2 * n));
  const colours = distinctColours(timeline);
  for (let m = n - 5; m <= 2 * n; m += 7) {
    const live = timeline.live(m);
    for (let i = 1; i < live.length; i++) assert.notEqual(colours[live[i]!], colours[live[i - 1]!]);
  }
});
