import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bits } from '../../src/core/groups.js';
import { opened } from '../build.js';
import * as slow from '../slow.js';
import { NOTHING, world } from '../world.js';

test('number of bits in a number', () => {
  for (let n = 0; n < 54; n++) {
    assert.equal(bits(2 ** n), n + 1);
    if (n < 53) assert.equal(bits(2 ** n - 1), n);
  }
});

test("each allocation's group", () => {
  for (let seed = 0; seed < 20; seed++) {
    const of = world(seed, 80);
    const engine = opened(of);
    for (const measure of ['requested', 'allocated'] as const) {
      for (const { way } of of.groups) {
        assert.deepEqual(
          [...engine.groups({ snapshot: 0, device: 0 }, measure, way)],
          of.lives.map((_, id) => slow.group(of, way, measure, id)),
        );
      }
    }
  }
});

test('keys that distinguish nothing', () => {
  const place = { snapshot: 0, device: 0 };
  const of = world(3, 80);
  assert.throws(() => opened(of).groups(place, 'held', 'module'), /group by module/);
  assert.deepEqual([...opened(NOTHING).groups(place, 'held', 'module')], []);
});
