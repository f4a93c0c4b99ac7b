// One device of a snapshot: its columns, decoded on first use, and its live allocations by each
// measure.

import { Clock } from './clock.js';
import { type Coded, type Counts, counts, decoded, integers, narrowed } from './columns.js';
import { lowerBound, Series } from './curve.js';
import { ALLOCATION, distinctColours } from './distinct.js';
import { type Grouping, grouping } from './groups.js';
import { Ends, Timeline } from './lives.js';
import type { LifeColumns, LifeMeasure, Measure, PageDevice, Way } from './page.js';

/** Measures that count until an allocation's free is requested, not until it completes. */
const UNTIL_ASKED: ReadonlySet<Measure> = new Set(['held', 'allocated']);
/** Measures that count block bytes instead of requested bytes. */
const BLOCKS: ReadonlySet<Measure> = new Set(['active', 'allocated']);

export class Device {
  private readonly known = new Map<string, unknown>();

  constructor(
    readonly said: PageDevice,
    private readonly data: Uint8Array,
  ) {}

  /** Number of allocations. */
  get lives(): number {
    return this.said.lives.begin.rows;
  }

  get clock(): Clock {
    return this.once('clock', () => {
      const { time, events } = this.said;
      return new Clock(events, time && narrowed(decoded(this.data, time)));
    });
  }

  /** Microseconds of an event since the first one; null without times. */
  timeOf(event: number): number | null {
    return this.said.time ? this.clock.xOf('time', event + 1) : null;
  }

  /** When each allocation is live, by one measure; `recorded`: those that were carried over hold
   * no bytes. Throws an Error if the bytes contradict the page. */
  timeline(measure: LifeMeasure, recorded = false): Timeline {
    const ends = this.ends(UNTIL_ASKED.has(measure));
    if (recorded) {
      return this.once(`recorded ${measure}`, () => {
        const bytes = this.bytes(measure).slice();
        return new Timeline(bytes.fill(0, 0, this.carried), ends);
      });
    }
    return this.once(`timeline ${measure}`, () => {
      const made = new Timeline(this.bytes(measure), ends);
      this.check(measure, made.usage);
      return made;
    });
  }

  /** The number of allocations that were carried over. They come first. */
  get carried(): number {
    return lowerBound(this.ends(false).begin, 0);
  }

  /** Bytes at each moment, by any measure. */
  usage(measure: Measure): Series {
    if (measure !== 'reserved') return this.timeline(measure).usage;
    return this.once('reserved', () => {
      const made = this.reserved();
      this.check(measure, made);
      return made;
    });
  }

  /** The bytes of each allocation. */
  bytes(measure: LifeMeasure): Counts {
    if (!BLOCKS.has(measure)) return this.once('requested', () => this.counts('requested'));
    return this.once('block', () => {
      const requested = this.bytes('requested');
      // A block's size may exceed 32 bits.
      const bytes = decoded(this.data, this.said.lives.slack);
      for (let i = 0; i < bytes.length; i++) bytes[i]! += requested[i]!;
      return narrowed(bytes);
    });
  }

  /** When each allocation stops counting: when its free is requested, or when the free
   * completes. */
  ends(asked: boolean): Ends {
    return this.once(asked ? 'asked' : 'done', () => {
      if (!asked) {
        const begin = this.column('begin');
        const end = this.column('life');
        for (let i = 0; i < end.length; i++) end[i]! += begin[i]!;
        return new Ends(begin, end, this.said.events);
      }
      const { begin, end } = this.ends(false);
      const lag = this.column('lag');
      if (!lag.some((one) => one !== 0)) return this.ends(false);
      for (let i = 0; i < end.length; i++) lag[i] = end[i]! - lag[i]!;
      return new Ends(begin, lag, this.said.events);
    });
  }

  get stacks(): Int32Array {
    return this.once('stacks', () => this.column('stack'));
  }

  get pools(): Int32Array {
    return this.once('pools', () => this.column('pool'));
  }

  get streams(): Int32Array {
    return this.once('streams', () => this.column('stream'));
  }

  /** Each allocation's address: 1 plus its distance from the base in units; 0 if unknown. */
  get addresses(): Counts {
    return this.once('addresses', () => this.counts('address'));
  }

  /** The group of each allocation; null if the device has no data for this key. */
  grouping(way: Way, measure: LifeMeasure): Grouping | null {
    if (way === ALLOCATION) {
      const colours = this.once(`${way} ${measure}`, () => distinctColours(this.timeline(measure)));
      return { at: (id) => colours[id]! };
    }
    const said = this.said.groups.find((one) => one.way === way);
    if (!said) return null;
    const bySize = said.of_stacks === null && said.of_lives === null;
    const what = bySize ? `size ${BLOCKS.has(measure)}` : `group ${way}`;
    return this.once(what, () =>
      grouping(
        said,
        this.data,
        () => this.stacks,
        () => this.bytes(measure),
      ),
    );
  }

  /** Each stack's group by a key, and the groups' names; null if the stack doesn't determine the group. */
  ofStacks(way: Way): { groups: Int32Array; lines: readonly (readonly number[])[] } | null {
    const said = this.said.groups.find((one) => one.way === way);
    if (!said?.of_stacks) return null;
    const { of_stacks, lines } = said;
    return { groups: this.once(`stacks ${way}`, () => integers(this.data, of_stacks)), lines };
  }

  /** The numbers of any of the device's columns. */
  numbers(column: Coded): Float64Array {
    return decoded(this.data, column);
  }

  /** Formats an address, given in units from the base. */
  addressText(units: number): string {
    const { address_base, address_unit } = this.said;
    return `0x${(BigInt(address_base) + BigInt(units) * BigInt(address_unit)).toString(16)}`;
  }

  private column(name: keyof LifeColumns): Int32Array {
    return integers(this.data, this.said.lives[name]);
  }

  private counts(name: keyof LifeColumns): Counts {
    return counts(this.data, this.said.lives[name]);
  }

  private reserved(): Series {
    const { events, reserved_start, reserved_event, reserved_bytes } = this.said;
    const at = integers(this.data, reserved_event);
    const bytes = decoded(this.data, reserved_bytes);
    const starts = new Int32Array(at.length + 1);
    const values = new Float64Array(at.length + 1);
    values[0] = reserved_start;
    values.set(bytes, 1);
    // An event's change counts from the next moment on.
    for (let i = 0; i < at.length; i++) starts[i + 1] = at[i]! + 1;
    return new Series(values, starts, events + 1);
  }

  private check(measure: Measure, usage: Series): void {
    const moment = usage.highestAt(0, this.said.events + 1);
    const found = usage.at(moment);
    const said = this.said.peaks[measure];
    if (found !== said.bytes) {
      throw new Error(
        `the page is damaged: ${measure} bytes go up to ${found}, but to ${said.bytes} in the file`,
      );
    }
    if (moment !== said.moment) {
      throw new Error(
        `the page is damaged: ${measure} bytes are highest at ${moment}, but at ${said.moment} in the file`,
      );
    }
  }

  private once<T>(what: string, make: () => T): T {
    if (!this.known.has(what)) this.known.set(what, make());
    return this.known.get(what) as T;
  }
}
