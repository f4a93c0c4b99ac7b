// The page's requests to its worker, and the answers: only plain values and typed arrays, because they're sent from one thread to the other. All byte counts are exact; nothing here is text to display.

import type { Measure, Way } from './core/page.js';

/** A device in a snapshot: both are indices into the page's lists. */
export interface Place {
  readonly snapshot: number;
  readonly device: number;
}

/** `event`: x is a moment; moment m is after m events of the device (0: before the first one).
 * `time`: x is microseconds since the device's first event. */
export type Axis = 'event' | 'time';

/** A part [from, to) of the axis; real numbers, from < to. Columns of pixels divide it evenly.
 *
 * On the event axis, the column [x, y) shows the moments from floor(x) up to floor(y), but at
 * least one. On the time axis, a moment lasts from its event to the next one; the first moment
 * begins at 0, and the last one ends at the last event. A column shows the moments that begin
 * before y and don't end before x. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Allocations to count: those that match all given conditions. */
export interface Filter {
  /** A regular expression. An allocation matches if the function, `file:line` or `file:function` of
   * one of its frames does, as with the command line's `--include`. */
  readonly include?: string;
  /** Only allocations in this group, by this key. */
  readonly way?: Way;
  readonly group?: number;
  /** Only allocations made during the recording, not those carried over. */
  readonly recorded?: boolean;
}

/** The minimum and maximum bytes of all moments in each pixel column. A column without an event
 * has the bytes of the moment that lasts there. Both are NaN before the start and after the
 * end. */
export interface Curve {
  readonly low: Float64Array;
  readonly high: Float64Array;
}

export interface CurveQuery {
  readonly place: Place;
  readonly measure: Measure;
  readonly axis: Axis;
  readonly span: Span;
  readonly columns: number;
  /** Leaves out allocations that were carried over. Reserved bytes don't depend on it. */
  readonly recorded?: boolean;
}

export interface Peak {
  readonly moment: number;
  readonly bytes: number;
}

export interface PictureQuery {
  readonly place: Place;
  /** For reserved memory, the picture shows pieces of segments, coloured by a `SegmentKey`. */
  readonly measure: Measure;
  readonly axis: Axis;
  readonly span: Span;
  /** Bytes [low, high) from the bottom to the top. */
  readonly low: number;
  readonly high: number;
  readonly width: number;
  readonly height: number;
  readonly colour: Colouring;
  /** The allocations that are drawn normally. All others are faded. */
  readonly highlight: Filter | null;
  /** Leaves out allocations that were carried over: the stack then begins with the first one made
   * during the recording. */
  readonly recorded?: boolean;
}

export interface Colouring {
  /** A key, or ALLOCATION (core/distinct.ts). */
  readonly way: Way;
  /** The groups with their own colour: [group, colour as 0xRRGGBB]. */
  readonly colours: readonly (readonly [number, number])[];
  /** Colours for all other groups, chosen by group number. */
  readonly others: readonly number[];
  readonly background: number;
}

export interface Picture {
  /** RGBA, row by row from the top. */
  readonly pixels: Uint8ClampedArray;
  /** The allocation number in each pixel, row by row from the top; -1: none. */
  readonly ids: Int32Array;
  /** The moment that each column shows; -1: none. */
  readonly moments: Int32Array;
}

export interface Allocation {
  readonly id: number;
  /** The event that allocated it, numbered as in the device's trace and on the command line; null
   * if carried over. */
  readonly made: number | null;
  readonly freed: number | null;
  /** The event that requested the free; null if none did before it completed. */
  readonly asked: number | null;
  readonly madeUs: number | null;
  readonly freedUs: number | null;
  readonly requested: number;
  readonly block: number;
  /** The address, e.g. `0x7f…`; empty if unknown. */
  readonly address: string;
  readonly stack: number;
  /** The allocation's group by each key. */
  readonly groups: Readonly<Partial<Record<Way, number>>>;
  readonly stream: string | null;
  /** The pool, e.g. `0:1`. The default pool is `0:0`. */
  readonly pool: string | null;
}

export interface Holder {
  readonly group: number;
  readonly bytes: number;
  readonly count: number;
}

export interface Held extends Holder {
  /** Where the group is in the stack: the mean height of its bytes. */
  readonly level: number;
}

export interface Holders {
  /** The total of allocations that pass the filter, and of all. The groups add up to `bytes`. */
  readonly bytes: number;
  readonly count: number;
  readonly allBytes: number;
  readonly allCount: number;
  /** Groups, largest first; equally large groups by number. */
  readonly groups: readonly Held[];
}

/** What changed from one moment to a later one, by group: the net change is `came` - `went`.
 * Allocations that were both made and freed in between aren't included. */
export interface Changed extends Holder {
  readonly came: number;
  readonly cameCount: number;
  readonly went: number;
  readonly wentCount: number;
}

export interface HoldersQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly moment: number;
  readonly way: Way;
  readonly filter: Filter | null;
}

/** A tree of calls, in the order of its lines: each node is followed by all nodes below it. */
export interface Tree {
  /** Each node's parent; -1 for the root, which is node 0. */
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  /** What each node stands for: a frame of the snapshot; -1: the root; -2: no stack; -3: carried
   * over without a stack; -16 - g: group g by `line`, for a stack without code. */
  readonly frame: Int32Array;
  readonly bytes: Float64Array;
  /** The node's own bytes, without its children's. */
  readonly own: Float64Array;
  readonly count: Int32Array;
}

/** The trees of two snapshots, merged: `before` has the first one's bytes, `bytes` and `own` the
 * second one's. */
export interface TreeOfBoth extends Tree {
  readonly before: Float64Array;
  /** Which snapshot a frame is from: 0 for the first, 1 for the second. */
  readonly frameOf: Uint8Array;
  /** The node's line in each snapshot; 0 if there is none, or if it represents all lines of a
   * function, because they can't be matched. */
  readonly lineBefore: Float64Array;
  readonly lineAfter: Float64Array;
}

export interface TreeQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly moment: number;
  /** Whether the root is the outermost call, or the one that allocated. */
  readonly root: 'outermost' | 'innermost';
  /** All frames, or only those of the user's code and libraries (see `stack_code`). */
  readonly frames: 'all' | 'code';
  readonly filter: Filter | null;
  /** Nodes with fewer bytes are left out; their bytes stay in their parents. */
  readonly least: number;
}

/** `life`: the number of events from the allocation to its free. Carried-over allocations count as
 * made before all others, and allocations that weren't freed as freed after the last event. */
export type SortKey = 'bytes' | 'made' | 'life' | 'address';

export interface LiveQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly moment: number;
  readonly filter: Filter | null;
  readonly sort: SortKey;
  readonly descending: boolean;
  readonly offset: number;
  readonly limit: number;
}

export interface LiveRows {
  readonly total: number;
  readonly bytes: number;
  readonly rows: readonly Allocation[];
}

export interface MapBlock {
  /** The number of an allocation; -1: unknown. */
  readonly id: number;
  readonly offset: number;
  readonly size: number;
  readonly requested: number;
  /** Whether the block's free was requested but hasn't completed yet. */
  readonly awaiting: boolean;
}

export interface MapSegment {
  readonly address: string;
  readonly size: number;
  /** Its group by the key `size`, see SEGMENT_KEYS. */
  readonly kind: number;
  readonly pool: string | null;
  readonly stream: string | null;
  readonly active: number;
  readonly largestFree: number;
  readonly blocks: readonly MapBlock[];
}

export interface SegmentMap {
  /** Bytes of the segments, and of the blocks in them. */
  readonly reserved: number;
  readonly active: number;
  /** Bytes of active blocks outside all segments or on top of another block, because events were lost. */
  readonly outside: number;
  readonly segments: readonly MapSegment[];
}

/** How pieces of segments are grouped. By pool: the pool's index. By size: 0 large, 1 small, 2
 * expandable. By state: 0 free, 1 active. */
export const SEGMENT_KEYS = ['pool', 'size', 'state'] as const;
export type SegmentKey = (typeof SEGMENT_KEYS)[number];

/** A segment, or a piece of an expandable one. Events are as in `Allocation`. */
export interface Reservation {
  readonly address: string;
  readonly size: number;
  readonly active: number;
  readonly expandable: boolean;
  readonly pool: string | null;
  readonly stream: string | null;
  readonly made: number | null;
  readonly freed: number | null;
}

/** A group's blocks in use, and the free bytes that they keep from being returned: in each unit (a
 * segment, or a handle of an expandable one), each block in use blocks an equal part of the free
 * bytes. */
export interface Blocker extends Holder {
  /** The part of `bytes` that no other group blocks. */
  readonly alone: number;
  readonly segments: number;
}

/** All segments of one pool, stream and kind, which serve the same requests. */
export interface PoolShare {
  readonly pool: string | null;
  readonly stream: string | null;
  /** Whether the segments serve requests of up to 1 MiB. */
  readonly small: boolean;
  readonly segments: number;
  readonly reserved: number;
  readonly inUse: number;
  /** Bytes of blocks whose free was requested but hasn't completed yet. */
  readonly pending: number;
  readonly free: number;
  /** The largest free block. */
  readonly largest: number;
  /** The bytes that empty_cache() returns to the driver. A private pool must be released first. */
  readonly returnable: number;
}

/** The free memory at a moment, and the groups that keep it from being returned to the driver. */
export interface Blocking {
  readonly free: number;
  /** The part of `free` that isn't returned. The parts of all groups add up to `blocked`. */
  readonly blocked: number;
  /** The bytes that empty_cache() returns, and the part of them that is still pending. */
  readonly returned: number;
  readonly returnedPending: number;
  /** The same for private pools, which must be released first. */
  readonly privateReturned: number;
  readonly privatePending: number;
  /** Sorted by bytes, then by number of blocks (both descending), then by group number. */
  readonly blockers: readonly Blocker[];
  /** Sorted by free bytes, descending. */
  readonly pools: readonly PoolShare[];
}

export type Action =
  | 'alloc'
  | 'free_requested'
  | 'free_completed'
  | 'segment_alloc'
  | 'segment_free'
  | 'segment_map'
  | 'segment_unmap'
  | 'oom'
  | 'snapshot'
  | 'unknown';

/** An event, as in the file. What isn't known is null or empty. */
export interface EventRow {
  /** Its number on the command line, and the moment after it. */
  readonly event: number;
  readonly moment: number;
  /** Microseconds since the first event. */
  readonly us: number | null;
  readonly action: Action;
  /** Requested bytes for allocations and frees. */
  readonly bytes: number | null;
  readonly address: string;
  readonly pool: string | null;
  readonly stream: string | null;
  /** The allocation, and its group by stack; -1: none. */
  readonly id: number;
  readonly stack: number;
}

export interface Events {
  readonly total: number;
  readonly rows: readonly EventRow[];
}

/** A snapshot's frames: functions and files as indices into its `texts`, and lines. `sources`: 1
 * plus the index of the line's source text, or 0 if unknown. */
export interface Frames {
  readonly functions: Int32Array;
  readonly files: Int32Array;
  readonly lines: Float64Array;
  readonly sources: Int32Array;
  /** 1 for frames of the allocator and the stack recorder. */
  readonly inner: Int32Array;
}

/** The frames of one stack, innermost first. */
export interface Stack {
  readonly frames: Int32Array;
  /** 1 for user or library code, 0 for plumbing. */
  readonly code: Uint8Array;
}

export interface BandQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly moment: number;
  /** One allocation, or all that pass the filter. */
  readonly id: number | null;
  readonly filter: Filter | null;
  readonly recorded: boolean;
}

/** Bytes [low, high) of the stack. */
export interface Band {
  readonly low: number;
  readonly high: number;
}

/** The worker's answers about the snapshots that it has opened. Each method throws an Error whose
 * message is for people. Arrays in answers are new, because they're transferred to the page. */
export interface Engine {
  frames(snapshot: number): Frames;
  stack(snapshot: number, stack: number): Stack;
  curve(query: CurveQuery): Curve;
  /** The highest separate peaks within moments [from, to), the highest first. */
  peaks(place: Place, measure: Measure, from: number, to: number, most: number): readonly Peak[];
  /** The moment at a position on the axis, and vice versa. */
  momentAt(place: Place, axis: Axis, x: number): number;
  xOf(place: Place, axis: Axis, moment: number): number;
  xsOf(place: Place, axis: Axis, moments: Float64Array): Float64Array;
  /** The group of each allocation, or of each of `ids`. */
  groups(
    place: Place,
    measure: Exclude<Measure, 'reserved'>,
    way: Way,
    ids?: readonly number[],
  ): Int32Array;
  /** Whether each frame matches a filter's regular expression. */
  framesMet(snapshot: number, filter: Pick<Filter, 'include'>): Uint8Array;
  /** The part of the stack that has these allocations at a moment; null if none is live. */
  bandOf(query: BandQuery): Band | null;
  /** For each group, bytes times the moments at which they're live: how much of the picture it fills. */
  prominence(place: Place, way: Way): Float64Array;
  /** Bytes at a moment. */
  bytesAt(place: Place, measure: Measure, moment: number): number;
  picture(query: PictureQuery): Picture;
  allocation(place: Place, id: number): Allocation;
  holders(query: HoldersQuery): Holders;
  between(query: HoldersQuery, later: number): readonly Changed[];
  tree(query: TreeQuery): Tree;
  treeOfDifferences(before: TreeQuery, after: TreeQuery): TreeOfBoth;
  /** Bytes per line of a file, which is an index in the snapshot's `texts`; the groups are lines. */
  lines(query: Omit<HoldersQuery, 'way'>, file: number): readonly Holder[];
  live(query: LiveQuery): LiveRows;
  /** Segments and blocks at a moment. */
  map(place: Place, moment: number): SegmentMap;
  /** A device's events from the N-th on; with an address in hexadecimal, only those whose memory
   * includes it. */
  events(place: Place, address: string, from: number, limit: number): Events;
  /** Bytes and numbers of pieces of segments at a moment, and one piece. */
  segments(place: Place, moment: number, key: SegmentKey): readonly Holder[];
  segment(place: Place, id: number, moment: number): Reservation;
  /** The groups that block free memory at a moment, by a key; sizes are block sizes. */
  blockers(place: Place, moment: number, way: Way): Blocking;
}
