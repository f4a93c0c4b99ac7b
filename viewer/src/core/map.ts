// The allocator at a moment: which segments there are, which blocks are in them, what is free; as
// engine/replay/blockmap.pyx has it.

import type { MapBlock, MapSegment, SegmentMap } from '../protocol.js';
import { poolText } from './allocation.js';
import type { Device } from './device.js';
import type { SegmentColumns } from './page.js';

/** The pieces of a device's segments, over all of its events. Addresses in bytes from the base on. */
export class Pieces {
  private readonly begin: Float64Array;
  private readonly end: Float64Array;
  private readonly address: Float64Array;
  private readonly size: Float64Array;
  private readonly segment: Float64Array;
  private readonly pool: Float64Array;
  private readonly stream: Float64Array;

  constructor(
    private readonly device: Device,
    columns: SegmentColumns,
  ) {
    const unit = device.said.address_unit;
    this.begin = device.numbers(columns.begin);
    this.end = device.numbers(columns.life).map((life, i) => life + this.begin[i]!);
    this.address = device.numbers(columns.address).map((units) => units * unit);
    this.size = device.numbers(columns.size);
    this.segment = device.numbers(columns.segment);
    this.pool = device.numbers(columns.pool);
    this.stream = device.numbers(columns.stream);
    if (this.address.some((one, i) => one + this.size[i]! > Number.MAX_SAFE_INTEGER)) {
      throw new Error('the segments are too far apart to be shown');
    }
  }

  /** Segments and what is in them. */
  at(moment: number): SegmentMap {
    const segments = this.segments(moment);
    const blocks = this.blocks(moment);
    const found: MapSegment[] = [];
    let reserved = 0;
    let active = 0;
    let next = 0;
    let all = 0;
    for (const block of blocks) all += block.size;
    for (const one of segments) {
      const within: MapBlock[] = [];
      const end = one.address + one.size;
      let at = one.address;
      let free = 0;
      let used = 0;
      for (; next < blocks.length && blocks[next]!.address < end; next++) {
        const { address, size, ...said } = blocks[next]!;
        // Where events were lost a block may lie where another is, or reach out of its segment.
        const from = Math.max(address, at);
        const to = Math.min(address + size, end);
        if (to <= from) continue;
        free = Math.max(free, from - at);
        used += to - from;
        at = to;
        within.push({ ...said, offset: from - one.address, size: to - from });
      }
      free = Math.max(free, end - at);
      reserved += one.size;
      active += used;
      found.push({
        address: this.text(one.address),
        size: one.size,
        pool: poolText(this.device.said.pools[one.pool]),
        stream: this.device.said.streams[one.stream] ?? null,
        active: used,
        largestFree: free,
        blocks: within,
      });
    }
    return { reserved, active, outside: all - active, segments: found };
  }

  private text(bytes: number): string {
    return `0x${(BigInt(this.device.said.address_base) + BigInt(bytes)).toString(16)}`;
  }

  /** Pieces of one segment that touch are one, unless their pools are known and differ. */
  private segments(
    moment: number,
  ): { address: number; size: number; pool: number; stream: number }[] {
    const { begin, end, address, size, segment, pool, stream } = this;
    const { pools } = this.device.said;
    const live: number[] = [];
    for (let i = 0; i < begin.length && begin[i]! < moment; i++)
      if (end[i]! >= moment) live.push(i);
    live.sort((a, b) => address[a]! - address[b]!);
    const found: { address: number; size: number; pool: number; stream: number }[] = [];
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
      } else {
        found.push({
          address: address[i]!,
          size: size[i]!,
          pool: pool[i]!,
          stream: stream[i]!,
        });
      }
      before = i;
    }
    return found;
  }

  /** What is active, by address. What nobody knows where it is comes behind all. */
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
    return found.sort((a, b) => (a.address === b.address ? a.id - b.id : a.address - b.address));
  }
}
