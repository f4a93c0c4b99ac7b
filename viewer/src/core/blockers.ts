// Blocks in use that keep free memory from being released, as in engine/query/blockers.pyx and
// engine/replay/blockmap.pyx.
//
// A unit is the memory that empty_cache() releases as a whole: a segment, or one handle of an
// expandable segment. A unit with blocks in use isn't released. Each of these blocks counts as
// blocking an equal part of the unit's free bytes.

import type { Blocker, Blocking, MapBlock, PoolShare } from '../protocol.js';
import type { Grouping } from './groups.js';

/** A segment at a moment, or the mapped part of an expandable one, with its blocks by offset. */
export interface Laid {
  /** Bytes from the base on. */
  readonly address: number;
  readonly size: number;
  /** Indices into the device's lists. */
  readonly pool: number;
  readonly stream: number;
  readonly expandable: boolean;
  readonly small: boolean;
  readonly blocks: readonly MapBlock[];
}

/** Handles have PyTorch's default size. */
const SMALL_HANDLE = 2 << 20;
const LARGE_HANDLE = 20 << 20;

/** Bytes [from, to) of a segment: a block, or the free bytes between two (null). */
interface Tile {
  readonly from: number;
  readonly to: number;
  readonly block: MapBlock | null;
}

interface Unit {
  readonly size: number;
  readonly free: number;
  readonly inUse: readonly MapBlock[];
}

function tilesOf({ size, blocks }: Laid): Tile[] {
  const found: Tile[] = [];
  let at = 0;
  for (const block of blocks) {
    if (block.offset > at) found.push({ from: at, to: block.offset, block: null });
    at = block.offset + block.size;
    found.push({ from: block.offset, to: at, block });
  }
  if (at < size) found.push({ from: at, to: size, block: null });
  return found;
}

/** A part of a segment that is released as a whole. */
function handleOf({ size, expandable, small }: Laid): number {
  if (!expandable) return size;
  const handle = small || size % LARGE_HANDLE ? SMALL_HANDLE : LARGE_HANDLE;
  return size % handle ? size : handle;
}

/** The units of a segment. All handles within one tile count as one unit. */
function* unitsOf(segment: Laid, tiles: readonly Tile[]): Generator<Unit> {
  const handle = handleOf(segment);
  let next = 0;
  for (let start = 0; start < segment.size; ) {
    // The last tile of the previous unit may reach into this one.
    if (next && tiles[next - 1]!.to > start) next--;
    const within = Math.floor((tiles[next]!.to - start) / handle);
    const end = start + Math.max(within, 1) * handle;
    let free = 0;
    const inUse: MapBlock[] = [];
    for (; next < tiles.length && tiles[next]!.from < end; next++) {
      const { from, to, block } = tiles[next]!;
      if (!block) free += Math.min(to, end) - Math.max(from, start);
      else if (!block.awaiting) inUse.push(block);
    }
    yield { size: end - start, free, inUse };
    start = end;
  }
}

type Sums<T> = { -readonly [K in keyof T]: T[K] };

/** Groups of blocks, and the bytes they block. */
class Blockers {
  private readonly sums = new Map<number, Sums<Blocker> & { seen: Laid | null }>();

  constructor(private readonly grouping: Grouping) {}

  /** Divides a unit's free bytes equally among its blocks in use; the first blocks get the
   * remainder. `counted`: the blocks of this segment that were already counted, because a block on
   * the border of two handles occurs in both. */
  share({ free, inUse }: Unit, segment: Laid, counted: Set<MapBlock>): void {
    const part = Math.floor(free / inUse.length);
    let odd = free % inUse.length;
    const groups = new Set<number>();
    for (const block of inUse) {
      const sum = this.of(this.grouping.at(block.id));
      groups.add(sum.group);
      sum.bytes += part + (odd > 0 ? 1 : 0);
      odd--;
      if (!counted.has(block)) sum.count++;
      counted.add(block);
      if (sum.seen !== segment) sum.segments++;
      sum.seen = segment;
    }
    if (groups.size === 1) for (const group of groups) this.of(group).alone += free;
  }

  private of(group: number) {
    const known = this.sums.get(group);
    if (known) return known;
    const made = { group, bytes: 0, count: 0, alone: 0, segments: 0, seen: null };
    this.sums.set(group, made);
    return made;
  }

  /** The groups, sorted by bytes, descending. */
  all(): Blocker[] {
    const found = Array.from(this.sums.values(), ({ seen: _, ...said }) => said);
    return found.sort((a, b) => b.bytes - a.bytes || b.count - a.count || a.group - b.group);
  }
}

/** Sums up the free memory in segments: how much empty_cache() can release, and which groups block
 * the rest. `named` returns the names of a segment's pool and stream. */
export function blocking(
  segments: readonly Laid[],
  grouping: Grouping,
  named: (segment: Laid) => Pick<PoolShare, 'pool' | 'stream'>,
): Blocking {
  const blockers = new Blockers(grouping);
  const shares = new Map<string, Sums<PoolShare>>();
  const sums = { free: 0, blocked: 0 };
  const ofDefault = { returned: 0, free: 0 };
  const ofPrivate = { returned: 0, free: 0 };
  for (const segment of segments) {
    const tiles = tilesOf(segment);
    const names = named(segment);
    const share = shareOf(shares, segment, names);
    share.segments++;
    share.reserved += segment.size;
    for (const { from, to, block } of tiles) {
      if (block?.awaiting) share.pending += to - from;
      else if (block) share.inUse += to - from;
      else {
        share.free += to - from;
        share.largest = Math.max(share.largest, to - from);
        sums.free += to - from;
      }
    }
    const given = names.pool === DEFAULT_POOL ? ofDefault : ofPrivate;
    const counted = new Set<MapBlock>();
    for (const unit of unitsOf(segment, tiles)) {
      if (unit.inUse.length === 0) {
        given.returned += unit.size;
        given.free += unit.free;
        share.returnable += unit.size;
      } else if (unit.free) {
        sums.blocked += unit.free;
        blockers.share(unit, segment, counted);
      }
    }
  }
  return {
    ...sums,
    returned: ofDefault.returned,
    returnedPending: ofDefault.returned - ofDefault.free,
    privateReturned: ofPrivate.returned,
    privatePending: ofPrivate.returned - ofPrivate.free,
    blockers: blockers.all(),
    pools: [...shares.values()].sort((a, b) => b.free - a.free || b.reserved - a.reserved),
  };
}

const DEFAULT_POOL = '0:0';

/** The sum of all segments that serve the same requests. */
function shareOf(
  shares: Map<string, Sums<PoolShare>>,
  { pool, stream, small }: Laid,
  names: Pick<PoolShare, 'pool' | 'stream'>,
): Sums<PoolShare> {
  const key = `${pool} ${stream} ${small}`;
  const known = shares.get(key);
  if (known) return known;
  const sums = { reserved: 0, inUse: 0, pending: 0, free: 0, largest: 0, returnable: 0 };
  const made = { ...names, small, segments: 0, ...sums };
  shares.set(key, made);
  return made;
}
