import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MapBlock } from '../../src/protocol.js';
import { BASE, opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { type PieceRow, type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };

/** The segments at a moment, by address, each with its pieces. */
function segments(of: World, moment: number): PieceRow[][] {
  const live = of
    .pieces!.filter((one) => one.begin < moment && one.end >= moment)
    .sort((a, b) => a.address - b.address);
  const found: PieceRow[][] = [];
  for (const piece of live) {
    const last = found[found.length - 1];
    const before = last?.[last.length - 1];
    const pools = new Set([...(last ?? []), piece].map((one) => one.pool).filter((one) => one));
    const one =
      before?.segment === piece.segment &&
      before.address + before.size === piece.address &&
      pools.size < 2;
    if (one) last!.push(piece);
    else found.push([piece]);
  }
  return found;
}

test('segments and their blocks', () => {
  const next = random(18);
  let merged = 0;
  let outside = 0;
  for (let seed = 0; seed < 150; seed++) {
    const of = world(seed, 1 + next(150));
    const moment = next(of.events + 1);
    const map = opened(of).map(place, moment);
    const wanted = segments(of, moment);
    // The owner of each 512 bytes: the block with the lowest address or, if equal, from the trace.
    const owner = new Map<number, number>();
    const live = slow.live(of, 'active', moment);
    const placed = live.filter((id) => of.lives[id]!.address !== null);
    const before = (id: number) => (of.lives[id]!.begin < 0 ? 1 : 0);
    placed.sort(
      (a, b) => of.lives[a]!.address! - of.lives[b]!.address! || before(a) - before(b) || a - b,
    );
    let covered = 0;
    assert.equal(map.segments.length, wanted.length);
    wanted.forEach((pieces, k) => {
      const segment = map.segments[k]!;
      const size = pieces.reduce((sum, one) => sum + one.size, 0);
      const from = pieces[0]!.address;
      // A block is shown in the first segment that ends after the block's address.
      while (placed.length && of.lives[placed[0]!]!.address! < from + size) {
        const id = placed.shift()!;
        const { address, block } = of.lives[id]!;
        for (let at = address!; at < address! + block; at += of.unit) {
          if (at >= from && at < from + size && !owner.has(at)) {
            owner.set(at, id);
            covered += of.unit;
          }
        }
      }
      const pool = of.pools[pieces.find((one) => one.pool)?.pool ?? 0];
      merged += pieces.length > 1 ? 1 : 0;
      assert.deepEqual(
        [segment.address, segment.size, segment.pool, segment.stream],
        [
          `0x${(BASE + from).toString(16)}`,
          size,
          pool ? `${pool[0]}:${pool[1]}` : null,
          of.streams[pieces[0]!.stream],
        ],
      );
      const blocks: MapBlock[] = [];
      let hole = 0;
      let free = 0;
      let active = 0;
      for (let offset = 0; offset < size; offset += of.unit) {
        const id = owner.get(from + offset);
        if (id === undefined) {
          hole += of.unit;
          free = Math.max(free, hole);
          continue;
        }
        hole = 0;
        active += of.unit;
        const last = blocks[blocks.length - 1];
        const { requested, asked } = of.lives[id]!;
        if (last?.id === id && last.offset + last.size === offset) {
          blocks[blocks.length - 1] = { ...last, size: last.size + of.unit };
        } else {
          blocks.push({ id, offset, size: of.unit, requested, awaiting: asked < moment });
        }
      }
      assert.deepEqual(segment.blocks, blocks);
      assert.deepEqual([segment.active, segment.largestFree], [active, free]);
      const small = pieces.some((one) => one.small);
      assert.equal(segment.kind, pieces[0]!.expandable ? 2 : small ? 1 : 0);
    });
    assert.equal(map.reserved, slow.usage(of, 'reserved', moment));
    assert.equal(map.active, covered);
    assert.equal(map.active + map.outside, slow.usage(of, 'active', moment));
    outside += map.outside ? 1 : 0;
  }
  assert.ok(merged > 10 && outside > 10, `${merged} ${outside}`);
});

test('no segments, or segments too far apart', () => {
  const of = world(2, 20);
  assert.throws(() => opened({ ...of, pieces: null }).map(place, 3), /has no segments/);
  const piece = { ...of.pieces![0]!, begin: -1, end: 20, address: 2 ** 53 };
  assert.throws(() => opened({ ...of, pieces: [piece] }).map(place, 3), /too far apart/);
});
