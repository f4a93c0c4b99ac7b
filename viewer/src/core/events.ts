// The allocator's events, rebuilt from allocations, segments and marks: what happened at each event
// of a device. An event that changed none of these (e.g. a free of an unknown block) is unknown.

import type { Action, EventRow, Events } from '../protocol.js';
import { poolText } from './allocation.js';
import type { Device } from './device.js';
import type { Pieces } from './map.js';

/** First those of allocations, then those of segments, then marks. */
const ACTIONS: readonly Action[] = [
  'unknown',
  'free_completed',
  'free_requested',
  'alloc',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'oom',
  'snapshot',
];
const [UNKNOWN, COMPLETED, REQUESTED, ALLOC, SEGMENT_ALLOC, , , , OOM, SNAPSHOT] =
  ACTIONS.keys() as unknown as number[];

/** A range of addresses, in bytes from the base. */
interface Range {
  readonly from: number;
  readonly bytes: number;
}

function isLife(action: number): boolean {
  return action > UNKNOWN! && action < SEGMENT_ALLOC!;
}

function isSegment(action: number): boolean {
  return action >= SEGMENT_ALLOC! && action < OOM!;
}

export class History {
  private readonly action: Uint8Array;
  /** The allocation, piece or mark of each event. */
  private readonly of: Int32Array;
  /** What events did to segments: an event may map or unmap several pieces. */
  private readonly ranges = new Map<number, Range>();
  private last: { readonly address: string; readonly found: Int32Array } | null = null;

  constructor(
    private readonly device: Device,
    private readonly pieces: Pieces | null,
  ) {
    const { events, marks } = device.said;
    this.action = new Uint8Array(events);
    this.of = new Int32Array(events);
    const { begin, end } = device.ends(false);
    const { end: asked } = device.ends(true);
    // An event may also end what it replaces, e.g. if a free is missing; so its own action is last.
    for (let i = 0; i < end.length; i++) {
      this.put(end[i]!, COMPLETED!, i);
      if (asked[i]! < end[i]!) this.put(asked[i]!, REQUESTED!, i);
    }
    if (pieces) {
      const { begin, end } = pieces.timeline.ends;
      for (let i = 0; i < end.length; i++) this.segment(pieces, end[i]!, 1, i);
      for (let i = 0; i < begin.length; i++) this.segment(pieces, begin[i]!, 0, i);
    }
    for (let i = 0; i < begin.length; i++) this.put(begin[i]!, ALLOC!, i);
    marks.forEach(({ kind, moment }, i) => {
      if (kind !== 'step') this.put(moment - 1, kind === 'oom' ? OOM! : SNAPSHOT!, i);
    });
  }

  private put(event: number, action: number, of: number): void {
    if (event < 0 || event >= this.action.length) return;
    this.action[event] = action;
    this.of[event] = of;
  }

  private segment({ address, timeline, kind }: Pieces, event: number, gone: number, piece: number) {
    const action = SEGMENT_ALLOC! + gone + (kind[piece]! & 1 ? 2 : 0);
    const before = this.action[event] === action ? this.ranges.get(event) : undefined;
    this.put(event, action, piece);
    const from = Math.min(address[piece]!, before?.from ?? Number.POSITIVE_INFINITY);
    this.ranges.set(event, { from, bytes: timeline.bytes[piece]! + (before?.bytes ?? 0) });
  }

  private range(event: number): Range | null {
    const action = this.action[event]!;
    if (isSegment(action)) return this.ranges.get(event)!;
    if (!isLife(action)) return null;
    const id = this.of[event]!;
    const address = this.device.addresses[id]!;
    const from = address ? (address - 1) * this.device.said.address_unit : Number.NaN;
    return { from, bytes: this.device.bytes('requested')[id]! };
  }

  /** Events in order: all of them, or only those whose memory is at an address (in hexadecimal). */
  rows(address: string, from: number, limit: number): Events {
    const at = address ? this.touching(address) : null;
    const total = at ? at.length : this.action.length;
    const stop = Math.min(from + limit, total);
    const rows: EventRow[] = [];
    for (let i = Math.max(from, 0); i < stop; i++) rows.push(this.row(at ? at[i]! : i));
    return { total, rows };
  }

  private row(event: number): EventRow {
    const { said } = this.device;
    const action = this.action[event]!;
    const of = this.of[event]!;
    const range = this.range(event);
    const one = action >= OOM! ? said.marks[of]! : null;
    const segment = isSegment(action) ? this.pieces : null;
    const life = isLife(action);
    const pool = segment ? segment.keys.pool[of]! : life ? this.device.pools[of]! : -1;
    const stream = segment ? segment.stream[of]! : life ? this.device.streams[of]! : -1;
    const units = range ? range.from / said.address_unit : Number.NaN;
    return {
      event: event + said.first_event,
      moment: event + 1,
      us: this.device.timeOf(event),
      action: ACTIONS[action]!,
      bytes: range?.bytes ?? one?.bytes ?? null,
      address: Number.isNaN(units) ? '' : this.device.addressText(units),
      pool: poolText(said.pools[pool]),
      stream: said.streams[stream] ?? null,
      id: life ? of : -1,
      stack: life ? (this.device.grouping('stack', 'requested')?.at(of) ?? -1) : -1,
    };
  }

  private touching(address: string): Int32Array {
    if (this.last?.address === address) return this.last.found;
    if (!/^\s*(0x)?[\da-f]+\s*$/i.test(address)) throw new Error('not a hexadecimal address');
    const digits = address.trim().replace(/^0x/i, '');
    const at = Number(BigInt(`0x${digits}`) - BigInt(this.device.said.address_base));
    const { addresses } = this.device;
    const unit = this.device.said.address_unit;
    const blocks = this.device.bytes('active');
    const { begin, end } = this.device.ends(false);
    const { end: asked } = this.device.ends(true);
    const found = new Set<number>();
    const isAt = (from: number, bytes: number) => at >= from && at < from + Math.max(bytes, 1);
    for (let id = 0; id < addresses.length; id++) {
      // An address anywhere in a block is this block's.
      if (!addresses[id] || !isAt((addresses[id]! - 1) * unit, blocks[id]!)) continue;
      for (const event of [begin[id]!, asked[id]!, end[id]!]) {
        const action = this.action[event] ?? UNKNOWN!;
        if (isLife(action) && this.of[event] === id) found.add(event);
      }
    }
    for (const [event, { from, bytes }] of this.ranges) {
      if (isSegment(this.action[event]!) && isAt(from, bytes)) found.add(event);
    }
    this.last = { address, found: Int32Array.from(found).sort() };
    return this.last.found;
  }
}
