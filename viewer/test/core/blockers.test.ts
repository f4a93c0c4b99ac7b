import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blocking, type Laid } from '../../src/core/blockers.js';
import type { Blocker, Blocking, MapBlock, MapSegment, PoolShare } from '../../src/protocol.js';
import { opened } from '../build.js';
import { type Next, random } from '../random.js';
import * as slow from '../slow.js';
import { type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };
const MIB = 1 << 20;
const POOLS = [null, '0:0', '0:7'];
const STREAMS = ['0', '94', null];
const named = ({ pool, stream }: Laid) => ({ pool: POOLS[pool]!, stream: STREAMS[stream]! });

/** A segment's bytes per unit: a handle of 20 or 2 MiB if handles fill it, otherwise all of it. */
function handle({ size, expandable, small }: Laid): number {
  const fits = (each: number) => size % each === 0;
  if (!expandable) return size;
  if (!small && fits(20 * MIB)) return 20 * MIB;
  return fits(2 * MIB) ? 2 * MIB : size;
}

/** Computes the result of `blocking` unit by unit. Bytes outside all blocks are free. */
function slowly(
  segments: readonly Laid[],
  groupOf: (id: number) => number,
): Omit<Blocking, 'pools'> {
  const found = { free: 0, blocked: 0, returned: 0, privateReturned: 0 };
  const pending = { returnedPending: 0, privatePending: 0 };
  const rows = new Map<
    number,
    { bytes: number; alone: number; blocks: Set<number>; segments: Set<Laid> }
  >();
  for (const segment of segments) {
    const step = handle(segment);
    for (let start = 0; start < segment.size; start += step) {
      const inside = ({ offset, size }: MapBlock) =>
        Math.max(0, Math.min(offset + size, start + step) - Math.max(offset, start));
      const there = segment.blocks.filter((block) => inside(block) > 0);
      const free = step - there.reduce((sum, block) => sum + inside(block), 0);
      const used = there.filter(({ awaiting }) => !awaiting);
      found.free += free;
      if (used.length === 0) {
        const ofDefault = POOLS[segment.pool] === '0:0';
        found[ofDefault ? 'returned' : 'privateReturned'] += step;
        pending[ofDefault ? 'returnedPending' : 'privatePending'] += step - free;
        continue;
      }
      found.blocked += free;
      if (free === 0) continue;
      const groups = new Set(used.map(({ id }) => groupOf(id)));
      used.forEach(({ id, offset }, i) => {
        const group = groupOf(id);
        const row = rows.get(group) ?? {
          bytes: 0,
          alone: 0,
          blocks: new Set(),
          segments: new Set(),
        };
        rows.set(group, row);
        row.bytes += Math.floor(free / used.length) + (i < free % used.length ? 1 : 0);
        row.blocks.add(segment.address + offset);
        row.segments.add(segment);
      });
      if (groups.size === 1) for (const group of groups) rows.get(group)!.alone += free;
    }
  }
  const blockers = [...rows].map(([group, { bytes, alone, blocks, segments: within }]): Blocker => {
    return { group, bytes, alone, count: blocks.size, segments: within.size };
  });
  blockers.sort((a, b) => b.bytes - a.bytes || b.count - a.count || a.group - b.group);
  return { ...found, ...pending, blockers };
}

/** Random segments with blocks of any size at any offset. */
function segmentsOf(next: Next): Laid[] {
  const found: Laid[] = [];
  let id = 0;
  for (let k = next(4); k >= 0; k--) {
    const size = [2 * MIB, 4 * MIB, 20 * MIB, 22 * MIB, 40 * MIB, 60 * MIB, 3 * MIB, 512][next(8)]!;
    const expandable = next(4) > 0;
    const blocks: MapBlock[] = [];
    const step = 1 + next(size / (1 + next(6)));
    for (let at = next(2) * next(step); ; ) {
      const bytes = next(4) ? 1 + next(step) : Math.min(size, (1 + next(20)) * 2 * MIB);
      if (at + bytes > size) break;
      const awaiting = next(5) === 0;
      if (next(3)) blocks.push({ id: id++, offset: at, size: bytes, requested: 1, awaiting });
      at += bytes + next(2) * next(step);
    }
    const address = found.reduce((end, one) => Math.max(end, one.address + one.size), 0);
    const kind = { expandable, small: next(3) === 0 };
    found.push({ address, size, pool: next(3), stream: next(2), ...kind, blocks });
  }
  return found;
}

/** Sums over the segments that serve the same requests, computed from their blocks. */
function shares(segments: readonly Laid[], groupOf: (id: number) => number): PoolShare[] {
  const alike = new Map<string, Laid[]>();
  for (const one of segments) {
    const key = JSON.stringify([one.pool, one.stream, one.small]);
    alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  const bytes = (blocks: readonly MapBlock[]) => blocks.reduce((sum, { size }) => sum + size, 0);
  return [...alike.values()].map((some) => {
    const blocks = some.flatMap((one) => one.blocks);
    const whole = slowly(some, groupOf);
    const holes = some.flatMap((one) => {
      const begins = [...one.blocks.map(({ offset }) => offset), one.size];
      const ends = [0, ...one.blocks.map(({ offset, size }) => offset + size)];
      return begins.map((begin, i) => begin - ends[i]!);
    });
    return {
      ...named(some[0]!),
      small: some[0]!.small,
      segments: some.length,
      reserved: some.reduce((sum, { size }) => sum + size, 0),
      inUse: bytes(blocks.filter(({ awaiting }) => !awaiting)),
      pending: bytes(blocks.filter(({ awaiting }) => awaiting)),
      free: whole.free,
      largest: Math.max(...holes),
      returnable: whole.returned + whole.privateReturned,
    };
  });
}

test('groups that block free memory', () => {
  const next = random(21);
  const met = { handles: 0, odd: 0, border: 0, alone: 0, pending: 0, shared: 0 };
  for (let i = 0; i < 1500; i++) {
    const segments = segmentsOf(next);
    const groups = 1 + next(4);
    const groupOf = (id: number) => (id * 7) % groups;
    const { pools, ...found } = blocking(segments, { at: groupOf }, named);
    const wanted = slowly(segments, groupOf);
    assert.deepEqual(found, wanted);
    const order = (a: PoolShare, b: PoolShare) => b.free - a.free || b.reserved - a.reserved;
    const text = (all: readonly PoolShare[]) =>
      all.map((one) => JSON.stringify(Object.entries(one).sort())).sort();
    assert.deepEqual(text(pools), text(shares(segments, groupOf)));
    assert.deepEqual(pools, [...pools].sort(order));
    const sum = found.blockers.reduce((all, { bytes }) => all + bytes, 0);
    assert.equal(sum, found.blocked);
    const given = found.returned + found.privateReturned;
    const waits = found.returnedPending + found.privatePending;
    assert.equal(found.blocked + given - waits, found.free);
    for (const one of segments) {
      const step = handle(one);
      if (step < one.size) met.handles++;
      const last = (at: number) => Math.floor(at / step);
      met.border += one.blocks.filter((b) => last(b.offset) < last(b.offset + b.size - 1)).length;
    }
    met.odd += found.blockers.some(({ bytes }) => bytes % 512) ? 1 : 0;
    met.alone += found.blockers.some(({ alone }) => alone > 0) ? 1 : 0;
    met.shared += found.blockers.some(({ alone, bytes }) => alone < bytes) ? 1 : 0;
    met.pending += found.returnedPending > 0 ? 1 : 0;
  }
  assert.ok(
    Object.values(met).every((one) => one > 100),
    JSON.stringify(met),
  );
});

/** A random program whose sizes are scaled up, so that segments have several handles. */
function large(seed: number, events: number): World {
  const of = world(seed, events);
  const by = MIB / of.unit;
  return {
    ...of,
    // Some allocations belong to checkpoints of CUDA graphs.
    texts: of.texts.map((one) => (one === 'step' ? 'at::setCheckpointPoolState(int)' : one)),
    unit: MIB,
    reservedStart: of.reservedStart * by,
    reserved: of.reserved.map(([event, bytes]) => [event, bytes * by]),
    lives: of.lives.map((one) => ({
      ...one,
      requested: one.requested * by,
      block: one.block * by,
      address: one.address === null ? null : one.address * by,
    })),
    pieces: of.pieces!.map((one) => ({
      ...one,
      address: one.address * by,
      size: one.size * by,
    })),
  };
}

/** A segment of the map. Its pieces or, failing that, its blocks show whether it's small. */
function laid(of: World, moment: number, segment: MapSegment, base: bigint): Laid {
  const address = Number(BigInt(segment.address) - base);
  const pieces = of.pieces!.filter(
    (one) =>
      one.begin < moment &&
      one.end >= moment &&
      one.address >= address &&
      one.address < address + segment.size,
  );
  const { expandable } = pieces[0]!;
  const tells = ({ id, requested }: MapBlock) => {
    const frames = of.stacks[of.lives[id]!.stack]?.frames ?? [];
    const names = frames.map((frame) => of.texts[of.frames[frame]![0]]!);
    return requested <= MIB && !names.some((name) => name.includes('setCheckpointPoolState'));
  };
  return {
    address,
    size: segment.size,
    pool: POOLS.indexOf(segment.pool),
    stream: STREAMS.indexOf(segment.stream),
    expandable,
    small: pieces.some((one) => one.small) || (expandable && segment.blocks.some(tells)),
    blocks: segment.blocks,
  };
}

test('blocking groups at a moment of a program, by each key', () => {
  const next = random(22);
  const met = { handles: 0, told: 0, synthetic: 0, blocked: 0 };
  for (let seed = 0; seed < 500; seed++) {
    const of = large(seed, 1 + next(150));
    const engine = opened(of);
    const moment = next(of.events + 1);
    const map = engine.map(place, moment);
    const base = BigInt(0x7f00_0000_0000);
    const segments = map.segments.map((one) => laid(of, moment, one, base));
    for (const { way } of of.groups) {
      const { pools, ...found } = engine.blockers(place, moment, way);
      const groupOf = (id: number) => slow.group(of, way, 'active', id);
      assert.deepEqual(found, slowly(segments, groupOf));
      assert.equal(found.free, map.reserved - map.active);
      const reserved = pools.reduce((sum, one) => sum + one.reserved, 0);
      assert.equal(reserved, map.reserved);
      const small = pools.reduce((sum, one) => sum + (one.small ? one.segments : 0), 0);
      assert.equal(small, segments.filter((one) => one.small).length);
      met.blocked += found.blocked > 0 ? 1 : 0;
    }
    for (const one of segments) {
      met.handles += handle(one) < one.size ? 1 : 0;
      met.told += one.small ? 1 : 0;
      const little = one.blocks.some(({ requested }) => requested <= MIB);
      met.synthetic += one.expandable && !one.small && little ? 1 : 0;
    }
  }
  assert.ok(
    Object.values(met).every((one) => one > 10),
    JSON.stringify(met),
  );
});

test('no segments', () => {
  const of = world(2, 20);
  assert.throws(
    () => opened({ ...of, pieces: null }).blockers(place, 3, 'stack'),
    /has no segments/,
  );
});
