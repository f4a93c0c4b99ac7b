// The allocator at a moment: its segments, their blocks and free memory, as in
// engine/replay/blockmap.pyx.

import type { Blocking, MapBlock, MapSegment, SegmentMap } from '../protocol.js';
import { poolText } from './allocation.js';
import { blocking, type Laid } from './blockers.js';
import type { Code } from './code.js';
import type { Device } from './device.js';
import type { Grouping } from './groups.js';
import type { SegmentColumns } from './page.js';
import { EXPANDABLE, Reserved, SMALL } from './reserved.js';

interface Layout {
  readonly segments: readonly Laid[];
  readonly outside: number;
}

type Bare = { -readonly [K in keyof Omit<Laid, 'blocks'>]: Laid[K] };

/** The pieces of a device's segments over all of its events. Addresses are in bytes from the base. */
export class Pieces extends Reserved {
  private readonly segment: Float64Array;
  private last: (Layout & { readonly moment: number }) | null = null;

  constructor(
    device: Device,
    columns: SegmentColumns,
    private readonly code: Code,
  ) {
    super(device, columns);
    this.segment = device.numbers(columns.segment);
    const { bytes } = this.timeline;
    if (this.address.some((one, i) => one + bytes[i]! > Number.MAX_SAFE_INTEGER)) {
      throw new Error('the segments are too far apart to show');
    }
  }

  /** Segments and their contents. */
  at(moment: number): SegmentMap {
    const { segments, outside } = this.laid(moment);
    let reserved = 0;
    let all = 0;
    const found = segments.map((one): MapSegment => {
      let end = 0;
      let active = 0;
      let largestFree = 0;
      for (const { offset, size } of one.blocks) {
        largestFree = Math.max(largestFree, offset - end);
        active += size;
        end = offset + size;
      }
      reserved += one.size;
      all += active;
      return {
        address: this.text(one.address),
        size: one.size,
        kind: one.expandable ? 2 : Number(one.small),
        ...this.named(one),
        active,
        largestFree: Math.max(largestFree, one.size - end),
        blocks: one.blocks,
      };
    });
    return { reserved, active: all, outside, segments: found };
  }

  /** Which groups block free memory. */
  blocking(moment: number, grouping: Grouping): Blocking {
    return blocking(this.laid(moment).segments, grouping, (one) => this.named(one));
  }

  private named({ pool, stream }: Laid): { pool: string | null; stream: string | null } {
    const { pools, streams } = this.device.said;
    return { pool: poolText(pools[pool]), stream: streams[stream] ?? null };
  }

  /** Segments with their blocks; and the bytes of blocks outside all segments, or on top of another block. */
  private laid(moment: number): Layout {
    // Cached, because a request for the map is followed by one for the groups that block free memory.
    if (this.last?.moment !== moment) this.last = { moment, ...this.lay(moment) };
    return this.last;
  }

  private lay(moment: number): Layout {
    const segments = this.segments(moment);
    const blocks = this.blocks(moment);
    const { synthetic } = this.code;
    const { stacks } = this.device;
    const { small_limit } = this.device.said;
    const found: Laid[] = [];
    let next = 0;
    let outside = 0;
    for (const block of blocks) outside += block.size;
    for (const one of segments) {
      const within: MapBlock[] = [];
      const end = one.address + one.size;
      let at = one.address;
      let { small } = one;
      for (; next < blocks.length && blocks[next]!.address < end; next++) {
        const { address, size, ...said } = blocks[next]!;
        // If events were lost, a block may overlap another, or extend beyond its segment.
        const from = Math.max(address, at);
        const to = Math.min(address + size, end);
        if (to <= from) continue;
        at = to;
        outside -= to - from;
        within.push({ ...said, offset: from - one.address, size: to - from });
        // Only small segments serve small requests. A checkpoint's block doesn't show this.
        if (one.expandable && said.requested <= small_limit && !synthetic[stacks[said.id]!]) {
          small = true;
        }
      }
      found.push({ ...one, small, blocks: within });
    }
    return { segments: found, outside };
  }

  private text(bytes: number): string {
    return `0x${(BigInt(this.device.said.address_base) + BigInt(bytes)).toString(16)}`;
  }

  /** Adjacent pieces of a segment are merged, unless their pools are known and differ. */
  private segments(moment: number): Bare[] {
    const { address, segment, stream, kind } = this;
    const { pool } = this.keys;
    const { bytes: size, ends } = this.timeline;
    const { begin, end } = ends;
    const { pools } = this.device.said;
    const live: number[] = [];
    for (let i = 0; i < begin.length && begin[i]! < moment; i++)
      if (end[i]! >= moment) live.push(i);
    live.sort((a, b) => address[a]! - address[b]!);
    const found: Bare[] = [];
    let before = -1;
    for (const i of live) {
      const last = found[found.length - 1];
      if (
        last &&
        segment[i] === segment[before] &&
        address[i] === last.address + last.size &&
        (pool[i] === last.pool || !pools[pool[i]!] || !pools[last.pool])
      ) {
        last.size += size[i]!;
        if (!pools[last.pool]) last.pool = pool[i]!;
        if (kind[i]! & SMALL) last.small = true;
      } else {
        found.push({
          address: address[i]!,
          size: size[i]!,
          pool: pool[i]!,
          stream: stream[i]!,
          expandable: (kind[i]! & EXPANDABLE) !== 0,
          small: (kind[i]! & SMALL) !== 0,
        });
      }
      before = i;
    }
    return found;
  }

  /** Active blocks by address. Blocks with an unknown address come last. */
  private blocks(moment: number): (Omit<MapBlock, 'offset'> & { address: number })[] {
    const { device } = this;
    const timeline = device.timeline('active');
    const { end: asked } = device.ends(true);
    const { addresses } = device;
    const requested = device.bytes('requested');
    const unit = device.said.address_unit;
    const found = Array.from(timeline.live(moment), (id) => ({
      id,
      address: addresses[id] ? (addresses[id]! - 1) * unit : Number.POSITIVE_INFINITY,
      size: timeline.bytes[id]!,
      requested: requested[id]!,
      awaiting: asked[id]! < moment,
    }));
    // If events were lost, two blocks may have the same address; the trace's blocks then come first.
    const before = (id: number) => (device.ends(true).begin[id]! < 0 ? 1 : 0);
    return found.sort((a, b) =>
      a.address === b.address ? before(a.id) - before(b.id) || a.id - b.id : a.address - b.address,
    );
  }
}
