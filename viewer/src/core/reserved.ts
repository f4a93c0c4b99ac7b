// The picture of reserved memory: the pieces of segments, stacked in the order in which they were
// reserved. If it's coloured by state, each piece's active bytes are at its bottom.

import type { Holder, Picture, PictureQuery, Reservation, SegmentKey } from '../protocol.js';
import { poolText } from './allocation.js';
import { coloured } from './colour.js';
import { type Counts, narrowed } from './columns.js';
import type { Device } from './device.js';
import { Ends, Timeline } from './lives.js';
import type { SegmentColumns } from './page.js';
import { NOBODY, paint } from './stack.js';

/** Bits of `SegmentColumns.kind`. */
export const EXPANDABLE = 1;
export const SMALL = 2;

/** The part of an allocation in a piece. */
interface Part {
  readonly piece: number;
  readonly bytes: number;
}

/** The piece that contains each allocation's block, or -1 if there isn't exactly one; then its parts. */
interface Held {
  readonly pieces: Int32Array;
  readonly parts: ReadonlyMap<number, readonly Part[]>;
}

export class Reserved {
  readonly timeline: Timeline;
  readonly address: Float64Array;
  readonly keys: Readonly<Record<'pool' | 'size', Float64Array>>;
  readonly stream: Float64Array;
  readonly kind: Float64Array;
  private held: Held | null = null;

  constructor(
    protected readonly device: Device,
    columns: SegmentColumns,
  ) {
    const { events, address_unit } = device.said;
    const begin = Int32Array.from(device.numbers(columns.begin));
    const life = device.numbers(columns.life);
    const end = begin.map((one, i) => Math.min(one + life[i]!, events));
    const bytes: Counts = narrowed(device.numbers(columns.size));
    this.timeline = new Timeline(bytes, new Ends(begin, end, events));
    this.address = device.numbers(columns.address).map((units) => units * address_unit);
    this.kind = device.numbers(columns.kind);
    this.stream = device.numbers(columns.stream);
    this.keys = {
      pool: device.numbers(columns.pool),
      size: this.kind.map((kind) => (kind & EXPANDABLE ? 2 : kind & SMALL ? 1 : 0)),
    };
  }

  /** Draws what's seen at these moments. */
  picture(query: PictureQuery, moments: Int32Array): Picture {
    const { width, colour } = query;
    const ids = paint(this.timeline, moments, query);
    const key = colour.way as SegmentKey;
    const pixels =
      key === 'state'
        ? coloured(this.states(ids, moments, query), width, colour, { at: (id) => id & 1 }, null)
        : coloured(ids, width, colour, { at: (id) => this.keys[key][id]! }, null);
    return { pixels, ids, moments };
  }

  /** Twice the piece in each pixel, plus 1 if the byte in the pixel's middle is active. */
  private states(ids: Int32Array, moments: Int32Array, { low, high, height }: PictureQuery) {
    const width = moments.length;
    const { bytes, ends } = this.timeline;
    const found = ids.map((id) => (id === NOBODY ? NOBODY : 2 * id));
    const tops = new Float64Array(bytes.length);
    this.walk(moments, (active, x) => {
      const moment = moments[x]!;
      let sum = 0;
      for (let piece = 0; piece < bytes.length && ends.begin[piece]! < moment; piece++) {
        if (ends.end[piece]! < moment) continue;
        tops[piece] = sum + Math.min(active[piece]!, bytes[piece]!);
        sum += bytes[piece]!;
      }
      for (let row = 0, i = (height - 1) * width + x; row < height; row++, i -= width) {
        const id = ids[i]!;
        const byte = low + ((row + 0.5) * (high - low)) / height;
        if (id !== NOBODY && byte < tops[id]!) found[i]!++;
      }
    });
    return found;
  }

  /** Bytes and numbers of pieces at a moment by a key, in the order of groups; by state, 1 is
   * active, and 0 is free. */
  holders(moment: number, key: SegmentKey): Holder[] {
    const { bytes } = this.timeline;
    const found: { group: number; bytes: number; count: number }[] = [];
    const add = (group: number, n: number) => {
      found[group] ??= { group, bytes: 0, count: 0 };
      found[group].bytes += n;
      found[group].count++;
    };
    const live = this.timeline.live(moment);
    if (key !== 'state') for (const piece of live) add(this.keys[key][piece]!, bytes[piece]!);
    else {
      this.walk([moment], (active) => {
        for (const piece of live) {
          const held = Math.min(active[piece]!, bytes[piece]!);
          if (held) add(1, held);
          if (held < bytes[piece]!) add(0, bytes[piece]! - held);
        }
      });
    }
    return found.filter(Boolean);
  }

  /** One piece, at a moment. */
  piece(id: number, moment: number): Reservation {
    const { bytes, ends, events } = this.timeline;
    const { said } = this.device;
    const [made, freed] = [ends.begin[id]!, ends.end[id]!];
    let active = 0;
    this.walk([moment], (of) => {
      active = Math.min(of[id]!, bytes[id]!);
    });
    return {
      address: this.device.addressText(this.address[id]! / said.address_unit),
      size: bytes[id]!,
      active,
      expandable: (this.kind[id]! & EXPANDABLE) !== 0,
      pool: poolText(said.pools[this.keys.pool[id]!]),
      stream: said.streams[this.stream[id]!] ?? null,
      made: made < 0 ? null : made + said.first_event,
      freed: freed < events ? freed + said.first_event : null,
    };
  }

  /** Calls `see` with each piece's active bytes at each of these moments, which never decrease. */
  private walk(
    moments: ArrayLike<number>,
    see: (active: Float64Array, index: number) => void,
  ): void {
    this.held ??= this.place();
    const { pieces, parts } = this.held;
    const { bytes, ends } = this.device.timeline('active');
    const active = new Float64Array(this.timeline.bytes.length);
    const change = (id: number, sign: number) => {
      if (pieces[id]! >= 0) active[pieces[id]!]! += sign * bytes[id]!;
      else for (const one of parts.get(id) ?? []) active[one.piece]! += sign * one.bytes;
    };
    let begun = 0;
    let over = 0;
    for (let i = 0; i < moments.length; i++) {
      const moment = moments[i]!;
      if (moment < 0) continue;
      for (; begun < pieces.length && ends.begin[begun]! < moment; begun++) {
        if (ends.end[begun]! > ends.begin[begun]!) change(begun, 1);
      }
      for (const stop = ends.endedBefore(moment); over < stop; over++)
        change(ends.ended[over]!, -1);
      see(active, i);
    }
  }

  /** Finds the pieces that each allocation's block is in when it's made. */
  private place(): Held {
    const { address, device, timeline } = this;
    const { bytes: sizes, ends: pieces } = timeline;
    const { bytes, ends } = device.timeline('active');
    const unit = device.said.address_unit;
    const live: number[] = []; // pieces by address
    /** Where a piece at this address is or would be. */
    const spot = (at: number) => {
      let [from, to] = [0, live.length];
      while (from < to) {
        const middle = (from + to) >> 1;
        if (address[live[middle]!]! < at) from = middle + 1;
        else to = middle;
      }
      return from;
    };
    let [begun, over] = [0, 0];
    const parts = new Map<number, Part[]>();
    const held = new Int32Array(bytes.length).map((_, id) => {
      const size = bytes[id]!;
      const event = ends.begin[id]!;
      // Memory is released before other memory is reserved at its address.
      const until = pieces.endedBefore(event + 1);
      for (; over < until; over++) {
        const piece = pieces.ended[over]!;
        const at = spot(address[piece]!);
        if (live[at] === piece) live.splice(at, 1);
      }
      for (; begun < sizes.length && pieces.begin[begun]! <= event; begun++) {
        if (pieces.end[begun]! > event) live.splice(spot(address[begun]!), 0, begun);
      }
      const units = device.addresses[id]!;
      if (!units) return -1;
      const found: Part[] = [];
      const from = (units - 1) * unit;
      for (
        let at = Math.max(spot(from + 1) - 1, 0);
        at < live.length && address[live[at]!]! < from + size;
        at++
      ) {
        const piece = live[at]!;
        const start = Math.max(address[piece]!, from);
        const within = Math.min(address[piece]! + sizes[piece]!, from + size) - start;
        if (within > 0) found.push({ piece, bytes: within });
      }
      if (found.length === 1 && found[0]!.bytes === size) return found[0]!.piece;
      parts.set(id, found);
      return -1;
    });
    return { pieces: held, parts };
  }
}
