import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SortKey } from '../../src/protocol.js';
import { opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { bytesOf, world } from '../world.js';

test('sorted rows, a few at a time', () => {
  const next = random(17);
  for (let seed = 0; seed < 80; seed++) {
    const of = world(seed, 1 + next(200));
    const engine = opened(of);
    const measure = next(2) ? 'requested' : 'allocated';
    const moment = next(of.events + 1);
    const live = slow.live(of, measure, moment);
    const value: Record<SortKey, (id: number) => number> = {
      bytes: (id) => bytesOf(of.lives[id]!, measure),
      made: (id) => of.lives[id]!.begin,
      life: (id) => of.lives[id]!.end - of.lives[id]!.begin,
      address: (id) => of.lives[id]!.address ?? -1,
    };
    for (const sort of ['bytes', 'made', 'life', 'address'] as const) {
      for (const descending of [false, true]) {
        const key = value[sort];
        const order = [...live].sort((a, b) => (key(a) - key(b)) * (descending ? -1 : 1) || a - b);
        const [offset, limit] = [next(live.length + 3), next(8)];
        const place = { snapshot: 0, device: 0 };
        const query = { place, measure, moment, filter: null, sort, descending, offset, limit };
        const found = engine.live(query as Parameters<typeof engine.live>[0]);
        assert.equal(found.total, live.length);
        assert.equal(found.bytes, slow.usage(of, measure, moment));
        assert.deepEqual(
          found.rows.map(({ id }) => id),
          order.slice(offset, offset + limit),
        );
      }
    }
  }
});
