import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock } from '../../src/core/clock.js';
import type { Axis } from '../../src/protocol.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { NOTHING, type World } from '../world.js';

function timed(seed: number): World {
  const next = random(seed);
  const events = 1 + next(60);
  const times: number[] = [0];
  while (times.length < events) times.push(times[times.length - 1]! + (next(2) ? next(9) : 0));
  return { ...NOTHING, events, times };
}

test('columns cover the moments that they touch', () => {
  const next = random(7);
  for (let seed = 0; seed < 300; seed++) {
    const world = timed(seed);
    const clock = new Clock(world.events, Uint32Array.from(world.times!));
    for (const axis of ['event', 'time'] as const satisfies Axis[]) {
      const end = axis === 'event' ? world.events + 1 : world.times![world.events - 1]! + 1;
      const from = next(end + 8) - 4 + next(4) / 4;
      const span = { from, to: from + (next(4) ? next(end) + 1 : 0.3) };
      const columns = 1 + next(20);
      const found = clock.ranges(axis, span, columns);
      for (let c = 0; c < columns; c++) {
        const wanted = slow.covered(world, axis, span, columns, c);
        const mine = Array.from(
          { length: found.to[c]! - found.from[c]! },
          (_, i) => found.from[c]! + i,
        );
        assert.deepEqual(mine, wanted, `${axis} ${JSON.stringify(span)} ${c} of ${columns}`);
      }
    }
  }
});

test('moments and positions', () => {
  for (let seed = 0; seed < 60; seed++) {
    const world = timed(seed);
    const clock = new Clock(world.events, Uint32Array.from(world.times!));
    for (let m = 0; m <= world.events; m++) {
      assert.equal(clock.xOf('time', m), slow.lasts(world, m)[0]);
      assert.equal(clock.xOf('event', m), m);
      assert.equal(clock.momentAt('event', m + 0.9), m);
    }
    for (let x = -2; x < world.times![world.events - 1]! + 3; x++) {
      let last = 0;
      for (let m = 0; m <= world.events; m++) if (slow.lasts(world, m)[0] <= x) last = m;
      if (x < 0) last = 0;
      assert.equal(clock.momentAt('time', x), last);
    }
    assert.deepEqual([clock.momentAt('event', -3), clock.xOf('event', -3)], [0, 0]);
    assert.deepEqual(
      [clock.momentAt('event', 1e9), clock.xOf('event', 1e9)],
      [world.events, world.events],
    );
  }
});

test("without times, there's no time axis", () => {
  const clock = new Clock(3, null);
  for (const ask of [
    () => clock.ranges('time', { from: 0, to: 1 }, 2),
    () => clock.momentAt('time', 0),
    () => clock.xOf('time', 1),
  ]) {
    assert.throws(ask, /this snapshot has no times/);
  }
});
