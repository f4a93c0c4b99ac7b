import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ends, Timeline } from '../../src/core/lives.js';
import { paint } from '../../src/core/stack.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { type World, world } from '../world.js';

function timelineOf(of: World): Timeline {
  const begin = Int32Array.from(of.lives, (one) => one.begin);
  const end = Int32Array.from(of.lives, (one) => one.end);
  const bytes = Uint32Array.from(of.lives, (one) => one.requested);
  return new Timeline(bytes, new Ends(begin, end, of.events));
}

test('the picture shows the allocation in each pixel', () => {
  const next = random(9);
  for (let seed = 0; seed < 120; seed++) {
    const events = 1 + next(700);
    const of = world(seed, events);
    const timeline = timelineOf(of);
    const width = 1 + next(40);
    const highest = timeline.usage.highest(0, events + 1);
    const low = next(3) ? 0 : next(highest + 2) - 1;
    const view = { low, high: low + 1 + next(highest + 1), height: 1 + next(40) };
    // Moments never decrease; some columns show none.
    const moments = Array.from({ length: width }, () => next(events + 1)).sort((a, b) => a - b);
    for (let x = 0; x < width; x++) if (!next(9)) moments[x] = -1;
    const wanted: number[] = [];
    for (let y = 0; y < view.height; y++) {
      for (const moment of moments) {
        wanted.push(slow.pixel(of, 'requested', moment, view, view.height - 1 - y));
      }
    }
    assert.deepEqual([...paint(timeline, Int32Array.from(moments), view)], wanted, `seed ${seed}`);
  }
});

/** Many allocations that are live at once: more than `Places` initially has room for. */
function crowd(seed: number, n: number, live: number): Timeline {
  const next = random(seed);
  const begin = new Int32Array(n);
  const end = new Int32Array(n);
  const bytes = new Uint32Array(n);
  const open: number[] = [];
  let event = 0;
  for (let i = 0; i < n; i++) {
    while (open.length >= live || (open.length && !next(3))) {
      end[open.splice(next(open.length), 1)[0]!] = event++;
    }
    begin[i] = event++;
    bytes[i] = next(5) ? next(100) : next(10_000);
    open.push(i);
  }
  for (const i of open) end[i] = event;
  return new Timeline(bytes, new Ends(begin, end, event));
}

test('crowded pictures', () => {
  const next = random(10);
  for (let seed = 0; seed < 12; seed++) {
    const timeline = crowd(seed, 6000, 1 + next(3000));
    const { events, bytes } = timeline;
    const width = 1 + next(300);
    const view = { low: 0, high: timeline.usage.highest(0, events + 1) * 1.1, height: 60 };
    const first = next(events);
    const moments = Int32Array.from(
      { length: width },
      (_, x) => first + Math.floor(((events - first) * x) / width),
    );
    const ids = paint(timeline, moments, view);
    moments.forEach((m, x) => {
      const live = [...timeline.live(m)];
      for (let row = 0; row < view.height; row++) {
        const byte = ((row + 0.5) * view.high) / view.height;
        let top = 0;
        const who = live.find((id) => {
          top += bytes[id]!;
          return byte < top;
        });
        assert.equal(ids[(view.height - 1 - row) * width + x], who ?? -1);
      }
    });
  }
});

test('a byte on a border belongs to the allocation that begins there', () => {
  const begin = Int32Array.of(-1, -1, -1, -1);
  const end = new Int32Array(4).fill(1);
  const timeline = new Timeline(Uint32Array.of(1, 2, 0, 3), new Ends(begin, end, 1));
  // The pixels' middles are at bytes 1, 3, 5 and 7.
  const ids = paint(timeline, Int32Array.of(0), { low: 0, high: 8, height: 4 });
  assert.deepEqual([...ids], [-1, 3, 3, 1]);
});
