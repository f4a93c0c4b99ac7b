// What a page knows of a snapshot: the records of export/page/records.py. Its columns stand beside them.

import type { Coded } from './columns.js';

export { inflated } from './inflate.js';

export const MEASURES = ['requested', 'held', 'active', 'allocated', 'reserved'] as const;
export type Measure = (typeof MEASURES)[number];
/** Those that allocations add up to. */
export type LifeMeasure = Exclude<Measure, 'reserved'>;

/** The name of a way to group allocations, as after the command line's `--by`: a page has those that
 * say something of its devices. */
export type Way = string;

export interface LifeColumns {
  readonly begin: Coded;
  readonly life: Coded;
  readonly lag: Coded;
  readonly requested: Coded;
  readonly slack: Coded;
  /** The number of its stack; that of stacks for none, one more for none before the recording. */
  readonly stack: Coded;
  readonly pool: Coded;
  readonly stream: Coded;
  /** Where its block is, in units of `address_unit`, from `address_base` on; 0 where nobody knows,
   * else one more than that. */
  readonly address: Coded;
}

export interface PageSpan {
  readonly name: string;
  readonly begin: number;
  readonly end: number | null;
  readonly start_us: number;
  readonly end_us: number | null;
}

/** The groups of a device by one way. Ways that say nothing of a snapshot (all its groups stand for
 * "none") are left out, but for stacks and sizes. Without allocations there are none at all. */
export interface PageGroups {
  readonly way: Way;
  /** The heading of a column of its groups. */
  readonly title: string;
  /** The same of who blocks free memory. */
  readonly pinned_title: string;
  /** Whether the details of a single allocation show it. */
  readonly detail: boolean;
  /** Of each group the lines that it is called by, as places in the snapshot's `texts`: its name,
   * and for stacks the callers below it, as `memreplay peak` shows them. */
  readonly lines: readonly (readonly number[])[];
  /** Of each stack its group, 0 where no allocation of the device has it; behind the stacks that of
   * allocations without one, and that of those without one that were there before the recording.
   * Null where stacks do not decide it. */
  readonly of_stacks: Coded | null;
  /** Of each allocation its group, where stacks do not decide it. Both are null for sizes, whose
   * group is the number of bits of the bytes (0 for 0 bytes), by the measure. */
  readonly of_lives: Coded | null;
}

/** Pieces of segments: from event to event as allocations have them. A segment that is mapped bit
 * by bit (expandable) has a row for each piece; an address never stands in two at once. At every
 * moment they add up to what is reserved. Addresses are those of allocations without the 1 that is
 * added there. */
export interface SegmentColumns {
  readonly begin: Coded;
  readonly life: Coded;
  readonly address: Coded;
  readonly size: Coded;
  /** A number. Pieces of one number that touch are one segment, unless they have two pools that are
   * known and differ; of those that are not known it has the pool of the others. */
  readonly segment: Coded;
  readonly pool: Coded;
  readonly stream: Coded;
  /** The sum of 1 for what is expandable, and of 2 for what is said to be small: a segment is if a piece
   * of it is, or, of expandable ones, if a block tells it (see `Pieces.laid`). */
  readonly kind: Coded;
}

export interface PageMark {
  readonly kind: 'oom' | 'snapshot' | 'step';
  readonly text: string;
  /** The moment after it; of a step where it begins. */
  readonly moment: number;
  /** Of a step where it ends. */
  readonly end: number | null;
}

/** The highest bytes, and after how many events they first are. */
export interface PagePeak {
  readonly bytes: number;
  readonly moment: number;
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
  /** The last event's, as `time` has it: since the first one. */
  readonly last_us: number | null;
  readonly spans: readonly PageSpan[];
  readonly marks: readonly PageMark[];
  readonly groups: readonly PageGroups[];
  readonly address_base: string;
  readonly address_unit: number;
  /** The largest request that comes from a small segment. */
  readonly small_limit: number;
  /** Null where they do not add up to what was reserved. */
  readonly segments: SegmentColumns | null;
  /** How far the numbers of a measure can be trusted; a warning if they aren't exact. */
  readonly trust: Readonly<Record<Measure, PageNote>>;
  readonly peaks: Readonly<Record<Measure, PagePeak>>;
}

/** A block of a report, as render/document.py has them; cells are texts, or places in code. */
export type ReportBlock =
  | { readonly kind: 'heading'; readonly text: string }
  | { readonly kind: 'pairs'; readonly rows: readonly (readonly [string, string])[] }
  | {
      readonly kind: 'table';
      readonly titles: readonly string[];
      readonly aligns: readonly ('left' | 'right')[];
      readonly rows: readonly {
        readonly cells: readonly string[];
        readonly below: readonly string[];
      }[];
    }
  | { readonly kind: 'note'; readonly text: string; readonly warning: boolean }
  /** Lines as they are: command lines, or a picture in characters. */
  | { readonly kind: 'lines'; readonly lines: readonly string[] };

/** A sentence or two; `warning`: a number may be wrong. */
export type PageNote = Extract<ReportBlock, { readonly kind: 'note' }>;

/** A page: one snapshot, two that are compared, or the ranks of a run. */
export interface Page {
  readonly schema: 'memreplay.page/1';
  readonly version: string;
  readonly title: string;
  readonly kind: 'one' | 'compare' | 'ranks';
  readonly snapshots: readonly PageData[];
  /** What `memreplay diff` says of two snapshots: its text as blocks. */
  readonly diff: readonly ReportBlock[] | null;
}

/** A snapshot of a page. Its columns stand beside it, in base64. */
export interface PageData {
  /** What it is called on the page: its file's name, or its rank. */
  readonly name: string;
  readonly file: string;
  /** The options that make other commands read the same of the file, as words of a command line:
   * `--from`, `1200`. */
  readonly options: readonly string[];
  /** The page of `memreplay report`; null for ranks. */
  readonly report: readonly ReportBlock[] | null;
  /** What is wrong with the file as a whole (it is cut off, …). */
  readonly notes: readonly string[];
  readonly texts: readonly string[];
  readonly frame_function: Coded;
  readonly frame_file: Coded;
  readonly frame_line: Coded;
  /** What the line says: a place in `texts`, from 1 on; 0 where that isn't known. */
  readonly frame_source: Coded;
  readonly stack_frames: Coded;
  readonly frames: Coded;
  readonly stack_code: Coded;
  readonly devices: readonly PageDevice[];
  readonly bytes: number;
}
