import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ends, Timeline } from '../../src/core/lives.js';
import { MEASURES } from '../../src/core/page.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { bytesOf, endOf, world } from '../world.js';

test('a timeline has the live set of every moment', () => {
  for (let seed = 0; seed < 30; seed++) {
    const events = seed * 30;
    const of = world(seed, events);
    for (const measure of MEASURES) {
      if (measure === 'reserved') continue;
      const begin = Int32Array.from(of.lives, (one) => one.begin);
      const end = Int32Array.from(of.lives, (one) => endOf(one, measure));
      const bytes = Uint32Array.from(of.lives, (one) => bytesOf(one, measure));
      const timeline = new Timeline(bytes, new Ends(begin, end, events));
      for (let m = 0; m <= events; m++) {
        assert.deepEqual([...timeline.live(m)], slow.live(of, measure, m));
        assert.equal(timeline.usage.at(m), slow.usage(of, measure, m));
        assert.equal(timeline.begunBefore(m), begin.filter((one) => one < m).length);
        assert.deepEqual(
          [...timeline.ends.ended.subarray(0, timeline.ends.endedBefore(m))].sort((a, b) => a - b),
          [...begin.keys()].filter((i) => begin[i]! < end[i]! && end[i]! < m),
        );
      }
    }
  }
});

test('a few of many allocations are live', () => {
  const next = random(8);
  const n = 20_000;
  const begin = Int32Array.from({ length: n }, (_, i) => i);
  const end = begin.map((from) => from + (next(500) ? 1 + next(3) : next(n)));
  const timeline = new Timeline(new Uint32Array(n).fill(1), new Ends(begin, end, n));
  for (let round = 0; round < 50; round++) {
    const m = next(n + 1);
    const wanted = [...begin.keys()].filter((i) => begin[i]! < m && end[i]! >= m);
    assert.deepEqual([...timeline.live(m)], wanted);
    assert.equal(timeline.usage.at(m), wanted.length);
  }
});

test('an allocation that ends before it begins is never live', () => {
  const ends = new Ends(Int32Array.of(-1, 2, 3, 4), Int32Array.of(-1, 0, 3, 5), 6);
  const timeline = new Timeline(Uint32Array.of(1, 10, 100, 1000), ends);
  const moments = [0, 1, 2, 3, 4, 5, 6];
  assert.deepEqual(
    moments.map((m) => timeline.usage.at(m)),
    [0, 0, 0, 0, 0, 1000, 0],
  );
  assert.deepEqual(
    moments.map((m) => [...timeline.live(m)]),
    [[], [], [], [], [], [3], []],
  );
  assert.deepEqual([...ends.ended], [3]);
});
