// A page's data about a snapshot: the records of export/page/records.py. Its columns are stored separately.

import type { Coded } from './columns.js';

export { inflated } from './inflate.js';

export const MEASURES = ['requested', 'held', 'active', 'allocated', 'reserved'] as const;
export type Measure = (typeof MEASURES)[number];
/** The measures that are sums of allocations. */
export type LifeMeasure = Exclude<Measure, 'reserved'>;

/** The name of a grouping key, as in the command line's `--by`. A page has the keys that
 * distinguish something on its devices. */
export type Way = string;

export interface LifeColumns {
  readonly begin: Coded;
  readonly life: Coded;
  readonly lag: Coded;
  readonly requested: Coded;
  readonly slack: Coded;
  /** The number of the allocation's stack. The number of stacks means no stack, and one more
   * means carried over without a stack. */
  readonly stack: Coded;
  readonly pool: Coded;
  readonly stream: Coded;
  /** The address of the allocation's block: 1 plus the offset from `address_base` in units of
   * `address_unit`, or 0 if unknown. */
  readonly address: Coded;
}

export interface PageSpan {
  readonly name: string;
  readonly begin: number;
  readonly end: number | null;
  readonly start_us: number;
  readonly end_us: number | null;
}

/** A device's groups by one key. Keys that don't distinguish anything in the snapshot (all groups
 * mean "none") are left out, except stacks and sizes. Without allocations, there are no keys. */
export interface PageGroups {
  readonly way: Way;
  /** The heading of the column that shows the groups. */
  readonly title: string;
  /** The heading of the column that shows groups that block free memory. */
  readonly pinned_title: string;
  /** Whether an allocation's details show its group by this key. */
  readonly detail: boolean;
  /** The lines of each group's label, as indices into the snapshot's `texts`: its name and, for
   * stacks, the callers below it, as in `memreplay peak`. */
  readonly lines: readonly (readonly number[])[];
  /** Each stack's group, or 0 if no allocation of the device has the stack. Two more groups follow:
   * that of allocations without a stack, and that of carried-over allocations without one. Null if
   * the stack doesn't determine the group. */
  readonly of_stacks: Coded | null;
  /** Each allocation's group, if the stack doesn't determine it. Both fields are null for sizes,
   * for which the group is the number of bits in the size by the measure (0 for 0 bytes). */
  readonly of_lives: Coded | null;
}

/** Pieces of segments, with a begin and an end like allocations. An expandable segment has a row
 * for each mapped piece, and no address is in two pieces at once. At every moment, the pieces add
 * up to reserved memory. Addresses are encoded as for allocations, but without adding 1. */
export interface SegmentColumns {
  readonly begin: Coded;
  readonly life: Coded;
  readonly address: Coded;
  readonly size: Coded;
  /** The segment's number. Adjacent pieces with the same number are one segment, unless their pools
   * are known and differ. A piece whose pool is unknown belongs to the pool of the others. */
  readonly segment: Coded;
  readonly pool: Coded;
  readonly stream: Coded;
  /** 1 if the segment is expandable, plus 2 if it's known to be small. A segment is small if one
   * of its pieces is or, for expandable segments, if a block shows it (see `Pieces.laid`). */
  readonly kind: Coded;
}

export interface PageMark {
  readonly kind: 'oom' | 'snapshot' | 'step';
  readonly text: string;
  /** The failed request, or the bytes that the snapshot event has. */
  readonly bytes: number | null;
  /** The moment after the event; for a step, the moment at which the step begins. */
  readonly moment: number;
  /** For a step, the moment at which the step ends. */
  readonly end: number | null;
}

/** The highest byte count, and the number of events after which it's first reached. */
export interface PagePeak {
  readonly bytes: number;
  readonly moment: number;
}

/** What `memreplay oom` says about a failed request; its mark has the size. */
export interface PageFailure {
  /** The moment after it. */
  readonly moment: number;
  /** The file and line that made the request, or empty. */
  readonly asked_by: string;
  readonly cause: string;
  /** The cause as a sentence. */
  readonly text: string;
  /** Free bytes that this request couldn't use. */
  readonly cached_bytes: number;
  /** What would have helped: names and sentences; empty if that wasn't computed. */
  readonly remedies: readonly (readonly [string, string])[];
}

/** The card's memory; if it isn't known, the card has at least as much. */
export interface PageCard {
  readonly bytes: number;
  readonly known: boolean;
  readonly text: string;
}

/** Samples of who used a card's memory, in order of time. */
export interface PageOutside {
  readonly total_bytes: number;
  /** The first moment that has this sample: each moment has the closest one. */
  readonly moments: readonly number[];
  /** Since the first event. */
  readonly times_us: readonly number[];
  readonly free_bytes: readonly number[];
  /** This process's memory outside PyTorch's allocator, and that of others if it isn't known. */
  readonly outside_bytes: readonly number[];
  readonly other_bytes: readonly (number | null)[];
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
  /** The last event's time: microseconds since the first event, as in `time`. */
  readonly last_us: number | null;
  readonly spans: readonly PageSpan[];
  readonly marks: readonly PageMark[];
  readonly groups: readonly PageGroups[];
  readonly address_base: string;
  readonly address_unit: number;
  /** The largest request that comes from a small segment. */
  readonly small_limit: number;
  /** Null if the segments don't add up to the reserved bytes. */
  readonly segments: SegmentColumns | null;
  /** How far the numbers of a measure can be trusted; a warning if they aren't exact. */
  readonly trust: Readonly<Record<Measure, PageNote>>;
  readonly peaks: Readonly<Record<Measure, PagePeak>>;
  /** The first failed requests; all of them are in `marks`. */
  readonly ooms: readonly PageFailure[];
  readonly card: PageCard | null;
  /** Null if it wasn't recorded, or without times. */
  readonly outside: PageOutside | null;
}

/** A block of a report, as in render/document.py; cells are text or locations in code. */
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
  /** Preformatted lines: commands, or a picture made of characters. */
  | { readonly kind: 'lines'; readonly lines: readonly string[] };

/** A sentence or two; `warning`: a number may be wrong. */
export type PageNote = Extract<ReportBlock, { readonly kind: 'note' }>;

/** A page: one snapshot, two snapshots to compare, or the ranks of a run. */
export interface Page {
  readonly schema: 'memreplay.page/1';
  readonly version: string;
  readonly title: string;
  readonly kind: 'one' | 'compare' | 'ranks';
  readonly snapshots: readonly PageData[];
  /** What `memreplay diff` reports about two snapshots: its text as blocks. */
  readonly diff: readonly ReportBlock[] | null;
}

/** The page of `memreplay report`. */
export interface PageReport {
  readonly blocks: readonly ReportBlock[];
  /** A line on each device, by its number. */
  readonly verdicts: Readonly<Record<number, string>>;
  /** Why a device's numbers aren't exact, by its number. */
  readonly reasons: Readonly<Record<number, string>>;
}

/** A snapshot on a page. Its columns are stored next to it, in base64. */
export interface PageData {
  /** The snapshot's name on the page: the file's name, or the rank. */
  readonly name: string;
  readonly file: string;
  /** The options that make other commands read the same part of the file, as words of a command
   * line: `--from`, `1200`. */
  readonly options: readonly string[];
  /** Null for ranks. */
  readonly report: PageReport | null;
  /** Problems with the file as a whole (it's cut off, …). */
  readonly notes: readonly string[];
  readonly texts: readonly string[];
  /** The folder with most of the user's files, which is left out of their names. */
  readonly folder: string;
  /** Each file and its name on the page, as indices in `texts`. */
  readonly files: readonly (readonly [number, number])[];
  /** Lines of groups that name code: the line's index in `texts`, the line in the source, and
   * indices of the file, the function and the operator. */
  readonly code: readonly (readonly number[])[];
  readonly frame_function: Coded;
  readonly frame_file: Coded;
  readonly frame_line: Coded;
  /** The source line: an index into `texts`, from 1; 0 if unknown. */
  readonly frame_source: Coded;
  readonly frame_allocator: Coded;
  readonly stack_frames: Coded;
  readonly frames: Coded;
  readonly stack_code: Coded;
  readonly devices: readonly PageDevice[];
  readonly bytes: number;
}
