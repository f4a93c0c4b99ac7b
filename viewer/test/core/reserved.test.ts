// The picture of reserved memory, against a slow one: pieces in order, each with its active bytes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { darkened } from '../../src/core/colour.js';
import type { PictureQuery, SegmentKey } from '../../src/protocol.js';
import { BASE, opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };
const BACKGROUND = 0xffffff;
const COLOURS = [0x102030, 0x405060, 0x708090, 0xa0b0c0];

/** The pieces at a moment, in order, with the active bytes that were allocated in them. */
function pieces(of: World, moment: number) {
  const blocks = slow.live(of, 'active', moment).map((id) => of.lives[id]!);
  return of.pieces!.flatMap((piece, id) => {
    if (piece.begin >= moment || piece.end < moment) return [];
    let active = 0;
    for (const { address, block, begin } of blocks) {
      if (address === null || piece.begin > begin || piece.end <= begin) continue;
      const from = Math.max(address, piece.address);
      active += Math.max(Math.min(address + block, piece.address + piece.size) - from, 0);
    }
    return [{ id, ...piece, active: Math.min(active, piece.size) }];
  });
}

function groupOf(piece: { pool: number; expandable: boolean; small: boolean }, key: SegmentKey) {
  if (key === 'pool') return piece.pool;
  return piece.expandable ? 2 : Number(piece.small);
}

test('each pixel shows its piece and state', () => {
  const next = random(7);
  let [parts, free] = [0, 0];
  for (let seed = 0; seed < 60; seed++) {
    const of = world(seed, 1 + next(120));
    const engine = opened(of);
    const high = 1 + next(2 * Math.max(...of.reserved.map(([, bytes]) => bytes), 1));
    for (const way of ['pool', 'size', 'state'] as const) {
      const query: PictureQuery = {
        place,
        measure: 'reserved',
        axis: 'event',
        span: { from: 0, to: of.events + 1 },
        low: next(high),
        high,
        width: of.events + 1,
        height: 40,
        colour: {
          way,
          colours: COLOURS.map((one, i) => [i, one] as const),
          others: [0],
          background: BACKGROUND,
        },
        highlight: null,
      };
      const { ids, moments, pixels } = engine.picture(query);
      moments.forEach((moment, x) => {
        assert.equal(moment, x);
        const live = pieces(of, moment);
        for (let y = 0; y < query.height; y++) {
          const byte = query.low + ((query.height - y - 0.5) * (high - query.low)) / query.height;
          let bottom = 0;
          const seen = live.find((one) => {
            bottom += one.size;
            return byte < bottom;
          });
          const i = y * query.width + x;
          assert.equal(ids[i], seen?.id ?? -1);
          const [r, g, b] = pixels.subarray(4 * i, 4 * i + 3);
          const colour = (r! << 16) | (g! << 8) | b!;
          if (!seen) assert.equal(colour, BACKGROUND);
          else {
            const active = byte - (bottom - seen.size) < seen.active;
            const wanted = COLOURS[way === 'state' ? Number(active) : groupOf(seen, way)]!;
            assert.ok(colour === wanted || colour === darkened(wanted), `${colour} ${wanted}`);
            parts += Number(active);
            free += Number(!active);
          }
        }
      });
    }
  }
  assert.ok(parts > 1000 && free > 1000);
});

test('the bytes of groups and of a piece', () => {
  const next = random(8);
  for (let seed = 0; seed < 100; seed++) {
    const of = world(seed, 1 + next(150));
    const engine = opened(of);
    const moment = next(of.events + 1);
    const live = pieces(of, moment);
    for (const key of ['pool', 'size', 'state'] as const) {
      const wanted: Record<number, { bytes: number; count: number }> = {};
      const add = (group: number, bytes: number) => {
        if (!bytes) return;
        wanted[group] ??= { bytes: 0, count: 0 };
        wanted[group].bytes += bytes;
        wanted[group].count++;
      };
      for (const one of live) {
        if (key !== 'state') add(groupOf(one, key), one.size);
        else {
          add(1, one.active);
          add(0, one.size - one.active);
        }
      }
      const found = engine.segments(place, moment, key);
      assert.deepEqual(
        Object.fromEntries(found.map(({ group, ...rest }) => [group, rest])),
        wanted,
      );
    }
    for (const one of live) {
      assert.deepEqual(engine.segment(place, one.id, moment), {
        address: `0x${(BASE + one.address).toString(16)}`,
        size: one.size,
        active: one.active,
        expandable: one.expandable,
        pool: of.pools[one.pool]?.join(':') ?? null,
        stream: of.streams[one.stream] ?? null,
        made: one.begin < 0 ? null : one.begin + of.firstEvent,
        freed: one.end < of.events ? one.end + of.firstEvent : null,
      });
    }
  }
});
