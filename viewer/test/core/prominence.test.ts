import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from '../build.js';
import * as slow from '../slow.js';
import { bytesOf, world } from '../world.js';

const place = { snapshot: 0, device: 0 };

test("a group's prominence is the sum over all moments", () => {
  for (let seed = 0; seed < 30; seed++) {
    const of = world(seed, 1 + 7 * seed);
    const engine = opened(of);
    const groups = engine.groups(place, 'requested', 'stack');
    const want = new Map<number, number>();
    for (let moment = 0; moment <= of.events; moment++) {
      for (const id of slow.live(of, 'requested', moment)) {
        const bytes = bytesOf(of.lives[id]!, 'requested');
        want.set(groups[id]!, (want.get(groups[id]!) ?? 0) + bytes);
      }
    }
    const found = engine.prominence(place, 'stack');
    assert.ok(found.length > Math.max(-1, ...want.keys()));
    for (const [group, sum] of found.entries()) assert.equal(sum, want.get(group) ?? 0);
  }
});
