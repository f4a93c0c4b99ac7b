// Two recordings in sync: steps map to steps, and positions between them are interpolated.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PageDevice } from '../../src/core/page.js';
import type { Axis, Place } from '../../src/protocol.js';
import { mapped, matching, type Side } from '../../src/ui/comparing.js';
import type { Remote } from '../../src/worker/rpc.js';

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

function side(snapshot: number, events: number, axis: Axis): Side {
  const device = { events, marks: [], last_us: 1 } as unknown as PageDevice;
  return { place: { snapshot, device: 0 }, device, axis };
}

// Moments of the first snapshot take 10 us, those of the second 30 us.
const engine = {
  xOf: async ({ snapshot }: Place, axis: Axis, moment: number) =>
    axis === 'event' ? moment : moment * (snapshot ? 30 : 10),
  momentAt: async ({ snapshot }: Place, axis: Axis, x: number) =>
    Math.floor(axis === 'event' ? x : x / (snapshot ? 30 : 10)),
} as unknown as Remote;

test('moments and positions match by step, time or event, on either axis', async () => {
  const wanted = {
    step: { moment: 200, event: 200, time: 6000 },
    time: { moment: 33, event: 33, time: 1000 },
    event: { moment: 100, event: 100, time: 3000 },
  };
  for (const sync of ['step', 'time', 'event'] as const) {
    for (const axis of ['event', 'time'] as const) {
      // Without steps, both recordings as a whole are one step.
      const there = matching(engine, sync, side(0, 999, axis), side(1, 1999, axis));
      assert.equal(await there.moment(100), wanted[sync].moment, sync);
      const x = axis === 'event' ? 100 : 1000;
      assert.equal(await there.position(x), wanted[sync][axis], `${sync} on the ${axis} axis`);
      assert.equal(typeof there.moment(1) === 'number', there.quick.moment);
      assert.equal(typeof there.position(1) === 'number', there.quick.position);
    }
    // One recording has no times.
    const mixed = matching(engine, sync, side(0, 999, 'time'), side(1, 1999, 'event'));
    assert.equal(await mixed.position(1000), wanted[sync].event);
  }
});
