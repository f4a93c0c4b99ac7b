import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BASE, opened } from '../build.js';
import * as slow from '../slow.js';
import { world } from '../world.js';

test("an allocation's details", () => {
  const place = { snapshot: 0, device: 0 };
  let without = 0;
  for (let seed = 0; seed < 30; seed++) {
    const of = world(seed, 90);
    const engine = opened(of);
    of.lives.forEach((one, id) => {
      const event = (at: number): number | null =>
        at < 0 || at >= of.events ? null : at + of.firstEvent;
      const time = (at: number): number | null =>
        at < 0 || at >= of.events ? null : (of.times?.[at] ?? null);
      const pool = of.pools[one.pool];
      without += one.address === null ? 1 : 0;
      assert.deepEqual(engine.allocation(place, id), {
        id,
        made: event(one.begin),
        freed: event(one.end),
        asked: one.asked < one.end ? event(one.asked) : null,
        madeUs: time(one.begin),
        freedUs: time(one.end),
        requested: one.requested,
        block: one.block,
        address: one.address === null ? '' : `0x${(BASE + one.address).toString(16)}`,
        stack: one.stack,
        groups: Object.fromEntries(
          of.groups.map(({ way }) => [way, slow.group(of, way, 'requested', id)]),
        ),
        stream: of.streams[one.stream],
        pool: pool ? `${pool[0]}:${pool[1]}` : null,
      });
    });
    for (const id of [-1, of.lives.length, Number.NaN]) {
      assert.throws(() => engine.allocation(place, id), /no allocation/);
    }
  }
  assert.ok(without);
});
