// What a page knows of a snapshot: the records of export/page/records.py, and the columns beside them.

import { type Coded, decoded } from './columns.js';
import { Timeline } from './lives.js';

export const MEASURES = ['requested', 'held', 'active', 'allocated', 'reserved'] as const;
export type Measure = (typeof MEASURES)[number];
/** Those that allocations add up to. */
export type LifeMeasure = Exclude<Measure, 'reserved'>;

interface LifeColumns {
  readonly begin: Coded;
  readonly life: Coded;
  readonly lag: Coded;
  readonly requested: Coded;
  readonly slack: Coded;
  readonly stack: Coded;
  readonly category: Coded;
  readonly pool: Coded;
  readonly stream: Coded;
}

export interface PageSpan {
  readonly name: string;
  readonly begin: number;
  readonly end: number | null;
  readonly start_us: number;
  readonly end_us: number | null;
}

export interface PageDevice {
  readonly device: number;
  readonly events: number;
  readonly first_event: number;
  readonly lives: LifeColumns;
  readonly streams: readonly (string | null)[];
  readonly pools: readonly (readonly [number, number] | null)[];
  readonly reserved_start: number;
  readonly reserved_event: Coded;
  readonly reserved_bytes: Coded;
  readonly time: Coded | null;
  readonly first_us: number | null;
  readonly spans: readonly PageSpan[];
  readonly peaks: Readonly<Record<Measure, number>>;
}

export interface PageData {
  readonly schema: 'memreplay.page/1';
  readonly file: string;
  readonly version: string;
  readonly texts: readonly string[];
  readonly frame_function: Coded;
  readonly frame_file: Coded;
  readonly frame_line: Coded;
  readonly stack_frames: Coded;
  readonly frames: Coded;
  readonly stack_code: Coded;
  readonly categories: readonly string[];
  readonly devices: readonly PageDevice[];
  readonly bytes: number;
}

/** The columns of a page, which stand in it deflated and in base64. Throws an Error unless they are as
 * long as the page says. */
export async function inflated(base64: string, length: number): Promise<Uint8Array> {
  const packed = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const data = new Uint8Array(await new Response(stream).arrayBuffer());
  if (data.length !== length) throw new Error(`the page has ${data.length} bytes, not ${length}`);
  return data;
}

/** One device: its allocations by each measure, made when they are asked for. */
export class Device {
  private readonly begin: Float64Array;
  private readonly end: Float64Array;
  private readonly timelines = new Map<LifeMeasure, Timeline>();

  constructor(
    readonly said: PageDevice,
    private readonly data: Uint8Array,
  ) {
    this.begin = decoded(data, said.lives.begin);
    this.end = decoded(data, said.lives.life);
    for (let i = 0; i < this.end.length; i++) this.end[i] = this.end[i]! + this.begin[i]!;
  }

  /** What is live when, by one measure. */
  timeline(measure: LifeMeasure): Timeline {
    const known = this.timelines.get(measure);
    if (known) return known;
    const asked = measure === 'held' || measure === 'allocated';
    const blocks = measure === 'active' || measure === 'allocated';
    const end = asked ? minus(this.end, this.column('lag')) : this.end;
    const requested = this.column('requested');
    const bytes = blocks ? plus(requested, this.column('slack')) : requested;
    const made = new Timeline({ begin: this.begin, end, bytes }, this.said.events);
    this.timelines.set(measure, made);
    return made;
  }

  /** Bytes at each moment, by any measure. */
  usage(measure: Measure): Float64Array {
    return measure === 'reserved' ? this.reserved() : this.timeline(measure).usage;
  }

  column(name: keyof LifeColumns): Float64Array {
    return decoded(this.data, this.said.lives[name]);
  }

  private reserved(): Float64Array {
    const found = new Float64Array(this.said.events + 1);
    const at = decoded(this.data, this.said.reserved_event);
    const bytes = decoded(this.data, this.said.reserved_bytes);
    let now = this.said.reserved_start;
    let next = 0;
    for (let m = 0; m <= this.said.events; m++) {
      // What an event changes counts from the moment after it on.
      while (next < at.length && at[next]! < m) now = bytes[next++]!;
      found[m] = now;
    }
    return found;
  }
}

function minus(one: Float64Array, other: Float64Array): Float64Array {
  return one.map((value, i) => value - other[i]!);
}

function plus(one: Float64Array, other: Float64Array): Float64Array {
  return one.map((value, i) => value + other[i]!);
}
