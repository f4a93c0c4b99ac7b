// Measures how long it takes to paint a million allocations, all of them and parts, and to list the holders,
// with this many live at once: milliseconds of CPU time, the minimum of a few rounds.
//
//     npm run bench

import { Clock } from '../src/core/clock.js';
import { holders } from '../src/core/holders.js';
import { Ends, Timeline } from '../src/core/lives.js';
import { paint } from '../src/core/stack.js';

const ALLOCATIONS = 1_000_000;
const WIDTH = 1280;
const HEIGHT = 500;
const ROUNDS = 12;

let state = 1;
function next(below: number): number {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
}

/** Makes this many allocations. Once `live` of them exist, each new one ends another: a random one
 * or, if `recent`, mostly one of the latest. */
function program(live: number, recent: boolean): Timeline {
  const begin = new Int32Array(ALLOCATIONS);
  const end = new Int32Array(ALLOCATIONS);
  const bytes = new Uint32Array(ALLOCATIONS);
  const open: number[] = [];
  let event = 0;
  for (let i = 0; i < ALLOCATIONS; i++) {
    if (open.length >= live) {
      const most = recent && next(20) ? Math.min(open.length, 30) : open.length;
      const k = open.length - 1 - next(most);
      end[open[k]!] = event++;
      if (recent) open.splice(k, 1);
      else {
        open[k] = open[open.length - 1]!;
        open.pop();
      }
    }
    begin[i] = event++;
    bytes[i] = 512 * (1 + next(next(10) ? 100 : 20_000));
    open.push(i);
  }
  for (const i of open) end[i] = event;
  return new Timeline(bytes, new Ends(begin, end, event));
}

function least(times: number[]): string {
  return Math.min(...times)
    .toFixed(1)
    .padStart(7);
}

for (const [live, recent] of [
  [1_000, false],
  [10_000, false],
  [100_000, false],
  [1_000, true],
  [10_000, true],
] as const) {
  const made = performance.now();
  const timeline = program(live, recent);
  const found = [`${String(live).padStart(7)} live${recent ? ', recent ones go' : ''}:`];
  const clock = new Clock(timeline.events, null);
  for (const part of [1, 0.3, 0.1, 0.01, 0.001]) {
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const from = Math.floor((timeline.events * (1 - part) * (round + 1)) / (ROUNDS + 1));
      const span = { from, to: from + part * timeline.events };
      const high = timeline.usage.highest(0, timeline.events + 1);
      const before = process.cpuUsage().user;
      const { from: first, to } = clock.ranges('event', span, WIDTH);
      const moments = first.map((m, x) => timeline.usage.highestAt(m, to[x]!));
      paint(timeline, moments, { low: 0, high, height: HEIGHT });
      times.push((process.cpuUsage().user - before) / 1000);
    }
    found.push(least(times));
  }
  const groups = { at: (id: number) => id & 1023 };
  const held = Array.from({ length: ROUNDS }, (_, round) => {
    const before = process.cpuUsage().user;
    holders(timeline, Math.floor((timeline.events * (round + 1)) / (ROUNDS + 1)), groups, null);
    return (process.cpuUsage().user - before) / 1000;
  });
  found.push(`, holders ${least(held)}`);
  console.log(...found, `   (made in ${(performance.now() - made).toFixed(0)})`);
}
