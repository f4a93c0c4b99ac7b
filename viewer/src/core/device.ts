// One device of a snapshot: its columns, read when they are asked for, and what is live by each
// measure.

import { Clock } from './clock.js';
import { type Coded, type Counts, counts, decoded, integers, narrowed } from './columns.js';
import { Series } from './curve.js';
import { type Grouping, grouping } from './groups.js';
import { Ends, Timeline } from './lives.js';
import type { LifeColumns, LifeMeasure, Measure, PageDevice, Way } from './page.js';

/** Measures that count until the free of an allocation was asked for, not until it was done. */
const UNTIL_ASKED: ReadonlySet<Measure> = new Set(['held', 'allocated']);
/** Those that count the bytes of blocks, not the requested ones. */
const BLOCKS: ReadonlySet<Measure> = new Set(['active', 'allocated']);

export class Device {
  private readonly known = new Map<string, unknown>();

  constructor(
    readonly said: PageDevice,
    private readonly data: Uint8Array,
  ) {}

  /** How many allocations there are. */
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

  /** What is live when, by one measure. Throws an Error where it is not what the page says it is. */
  timeline(measure: LifeMeasure): Timeline {
    return this.once(`timeline ${measure}`, () => {
      const made = new Timeline(this.bytes(measure), this.ends(UNTIL_ASKED.has(measure)));
      this.check(measure, made.usage);
      return made;
    });
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

  /** Of each allocation its bytes. */
  bytes(measure: LifeMeasure): Counts {
    if (!BLOCKS.has(measure)) return this.once('requested', () => this.counts('requested'));
    return this.once('block', () => {
      const requested = this.bytes('requested');
      // As large as a block may be: it need not fit 32 bits.
      const bytes = decoded(this.data, this.said.lives.slack);
      for (let i = 0; i < bytes.length; i++) bytes[i]! += requested[i]!;
      return narrowed(bytes);
    });
  }

  /** From when to when it counts: until its free was done, or asked for. */
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

  /** In units, from 1 on; 0 for those that nobody knows. */
  get addresses(): Counts {
    return this.once('addresses', () => this.counts('address'));
  }

  /** Which group each allocation is in; null where the way says nothing of this device. */
  grouping(way: Way, measure: LifeMeasure): Grouping | null {
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

  /** Of each stack its group by a way, and what groups are called; null where stacks do not decide it. */
  ofStacks(way: Way): { groups: Int32Array; lines: readonly (readonly number[])[] } | null {
    const said = this.said.groups.find((one) => one.way === way);
    if (!said?.of_stacks) return null;
    const { of_stacks, lines } = said;
    return { groups: this.once(`stacks ${way}`, () => integers(this.data, of_stacks)), lines };
  }

  /** The numbers of any column that belongs to the device. */
  numbers(column: Coded): Float64Array {
    return decoded(this.data, column);
  }

  /** An address, as it is written, of a number of units from the base on. */
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
    // What an event changes counts from the moment after it on.
    for (let i = 0; i < at.length; i++) starts[i + 1] = at[i]! + 1;
    return new Series(values, starts, events + 1);
  }

  private check(measure: Measure, usage: Series): void {
    const moment = usage.highestAt(0, this.said.events + 1);
    const found = usage.at(moment);
    const said = this.said.peaks[measure];
    if (found !== said.bytes) {
      throw new Error(
        `the page is damaged: ${measure} bytes go up to ${found}, and to ${said.bytes} in the file`,
      );
    }
    if (moment !== said.moment) {
      throw new Error(
        `the page is damaged: ${measure} bytes are highest at ${moment}, and at ${said.moment} in the file`,
      );
    }
  }

  private once<T>(what: string, make: () => T): T {
    if (!this.known.has(what)) this.known.set(what, make());
    return this.known.get(what) as T;
  }
}
