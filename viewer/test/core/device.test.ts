import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Device } from '../../src/core/device.js';
import { MEASURES } from '../../src/core/page.js';
import { BASE, built, opened } from '../build.js';
import * as slow from '../slow.js';
import { NOTHING, type World, world } from '../world.js';

function deviceOf(of: World): Device {
  const { page, data } = built(of);
  return new Device(page.snapshots[0]!.devices[0]!, data[0]!);
}

test('bytes at each moment by every measure', () => {
  for (let seed = 0; seed < 25; seed++) {
    const of = world(seed, 6 * seed);
    const device = deviceOf(of);
    assert.equal(device.lives, of.lives.length);
    for (const measure of MEASURES) {
      for (let m = 0; m <= of.events; m++) {
        assert.equal(device.usage(measure).at(m), slow.usage(of, measure, m));
      }
    }
  }
});

test('a page with inconsistent numbers', () => {
  for (const measure of MEASURES) {
    const { page, data } = built(world(5, 60));
    const said = page.snapshots[0]!.devices[0]!;
    const { bytes, moment } = said.peaks[measure];
    for (const wrong of [
      { bytes: bytes + 1, moment },
      { bytes, moment: moment + 1 },
    ]) {
      const device = new Device({ ...said, peaks: { ...said.peaks, [measure]: wrong } }, data[0]!);
      assert.throws(() => device.usage(measure), /damaged/, measure);
    }
  }
});

test('measures that count until the same events share them', () => {
  const of = world(5, 60);
  const lives = of.lives.map((one) => ({ ...one, asked: one.end, block: one.requested }));
  const device = deviceOf({ ...of, lives });
  assert.equal(device.ends(true), device.ends(false));
  assert.equal(device.timeline('requested').ends, device.timeline('active').ends);
  assert.equal(device.bytes('held'), device.bytes('requested'));
});

test('large allocations', () => {
  const one = { begin: -1, end: 1, asked: 1, stack: 0, pool: 0, stream: 0, address: null };
  const large = { ...one, requested: 2 ** 40, block: 2 ** 40 + 512 };
  const device = deviceOf({ ...NOTHING, events: 1, stacks: [], lives: [large, large] });
  assert.equal(device.usage('active').at(0), 2 * (2 ** 40 + 512));
});

test('addresses and times', () => {
  const of = world(1, 40);
  const device = deviceOf({ ...of, times: of.lives.length ? [...Array(40).keys()] : null });
  assert.equal(device.addressText(3), `0x${(BASE + 3 * of.unit).toString(16)}`);
  assert.equal(device.timeOf(17), 17);
  assert.equal(deviceOf({ ...of, times: null }).timeOf(17), null);
});

test('numbers over 32 bits: a block much larger than its request, and a line', () => {
  const of: World = {
    ...NOTHING,
    lives: [
      {
        begin: -1,
        end: 0,
        asked: 0,
        requested: 5 * 2 ** 30,
        block: 8 * 2 ** 30,
        stack: 0,
        pool: 0,
        stream: 0,
        address: null,
      },
    ],
    texts: ['f'],
    frames: [[0, 0, 2 ** 32 - 1]],
    stacks: [{ frames: [0], code: [1] }],
    pools: [null],
    streams: ['0'],
  };
  const engine = opened(of);
  const place = { snapshot: 0, device: 0 };
  const both = (['requested', 'active'] as const).map((one) => engine.bytesAt(place, one, 0));
  assert.deepEqual(both, [5 * 2 ** 30, 8 * 2 ** 30]);
  assert.equal(engine.allocation(place, 0).block, 8 * 2 ** 30);
  assert.deepEqual([...engine.frames(0).lines], [2 ** 32 - 1]);
});
