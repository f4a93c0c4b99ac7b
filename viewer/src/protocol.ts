// What the page asks of its worker, and what it is told: plain values and typed arrays only, as they
// cross from one thread to the other. Bytes are exact everywhere; nothing here is text for people.

import type { Measure, Way } from './core/page.js';

/** A device of a snapshot: both are places in the lists of the page. */
export interface Place {
  readonly snapshot: number;
  readonly device: number;
}

/** `event`: x is a moment. Moment m is after m events of the device (0: before the first one).
 * `time`: x is microseconds since the device's first event. */
export type Axis = 'event' | 'time';

/** [from, to) along the axis; real numbers, from < to. Columns of pixels share it evenly.
 *
 * On the axis of events the column [x, y) shows the moments from floor(x) up to floor(y), one at least.
 * On that of time a moment lasts from the event that made it to the next one (the first from 0 on, the
 * last one up to the last event): a column shows those that begin before y and do not end before x. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Allocations to count: all that are met by everything given. */
export interface Filter {
  /** A regular expression, met by an allocation with a frame whose function, `file:line` or
   * `file:function` matches it, as `--include` of the command line. */
  readonly include?: string;
  /** Only those of this group, by a way. */
  readonly way?: Way;
  readonly group?: number;
}

/** Of each column of pixels the least and the most bytes of all moments in it. Where a column has no
 * event they are those of the moment that lasts. NaN where nothing is (before the start, behind the
 * end). */
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
}

export interface Peak {
  readonly moment: number;
  readonly bytes: number;
}

export interface PictureQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly axis: Axis;
  readonly span: Span;
  /** Bytes [low, high) from the bottom to the top. */
  readonly low: number;
  readonly high: number;
  readonly width: number;
  readonly height: number;
  readonly colour: Colouring;
  /** Drawn as they are; all others are faded. */
  readonly highlight: Filter | null;
}

export interface Colouring {
  readonly way: Way;
  /** The groups that have a colour of their own: [group, colour as 0xRRGGBB]. */
  readonly colours: readonly (readonly [number, number])[];
  /** What the others are coloured in turn with, by the number of their group. */
  readonly others: readonly number[];
  readonly background: number;
}

export interface Picture {
  /** RGBA, row by row from the top. */
  readonly pixels: Uint8ClampedArray;
  /** Who is seen in each pixel, row by row from the top: the number of an allocation; -1: nobody. */
  readonly ids: Int32Array;
  /** The moment that each column shows; -1: none. */
  readonly moments: Int32Array;
}

export interface Allocation {
  readonly id: number;
  /** The event that made it (numbers of the device's trace, as the command line has them); null for
   * what was there before. */
  readonly made: number | null;
  readonly freed: number | null;
  /** The event that asked for the free; null where none did before it was done. */
  readonly asked: number | null;
  readonly madeUs: number | null;
  readonly freedUs: number | null;
  readonly requested: number;
  readonly block: number;
  /** `0x7f…`; empty where nobody knows. */
  readonly address: string;
  readonly stack: number;
  /** Its group by each way. */
  readonly groups: Readonly<Partial<Record<Way, number>>>;
  readonly stream: string | null;
  /** `0:1`, the default one `0:0`. */
  readonly pool: string | null;
}

export interface Holder {
  readonly group: number;
  readonly bytes: number;
  readonly count: number;
}

export interface Holders {
  /** All that the filter lets through, and all there is. Those of the groups add up to `bytes`. */
  readonly bytes: number;
  readonly count: number;
  readonly allBytes: number;
  readonly allCount: number;
  /** The largest first; of equal ones the lower number. */
  readonly groups: readonly Holder[];
}

/** What changed from one moment to a later one, by group: net is came less went. Allocations that
 * both came and went in between are not in it. */
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

/** A tree of calls, in the order of its lines: a node, then all that is below it. */
export interface Tree {
  /** Of each node its parent, -1 for the root, which is node 0. */
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  /** What it is called: a frame of the snapshot; -1 the root, -2 what has no stack, -3 what was there
   * before the recording and has none; from -16 on down: -16 - g for group g by `line`, for a stack
   * in which nothing is code. */
  readonly frame: Int32Array;
  readonly bytes: Float64Array;
  /** Bytes of its own, not of a child. */
  readonly own: Float64Array;
  readonly count: Int32Array;
}

export interface TreeQuery {
  readonly place: Place;
  readonly measure: Exclude<Measure, 'reserved'>;
  readonly moment: number;
  /** The outermost call first, or the one that allocated. */
  readonly root: 'outermost' | 'innermost';
  /** All frames, or those of the user's code and libraries (see `stack_code`). */
  readonly frames: 'all' | 'code';
  readonly filter: Filter | null;
  /** Nodes with fewer bytes are left out; their bytes stay in their parents. */
  readonly least: number;
}

/** `life`: from the event that made it to the one that freed it. What was there before was made before
 * all others, what was not freed comes behind the last event. */
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
  /** The number of an allocation; -1: nobody knows. */
  readonly id: number;
  readonly offset: number;
  readonly size: number;
  readonly requested: number;
  /** Its free was asked for and is not done yet. */
  readonly awaiting: boolean;
}

export interface MapSegment {
  readonly address: string;
  readonly size: number;
  readonly pool: string | null;
  readonly stream: string | null;
  readonly active: number;
  readonly largestFree: number;
  readonly blocks: readonly MapBlock[];
}

export interface SegmentMap {
  /** Bytes of the segments, and those of the blocks in them. */
  readonly reserved: number;
  readonly active: number;
  /** Bytes of active blocks that lie in no segment, or where another one is: events were lost. */
  readonly outside: number;
  readonly segments: readonly MapSegment[];
}

/** A group of blocks in use, and the free bytes that they keep from being given back: an equal part of
 * what is free in each unit (a segment, or a handle of an expandable one) with each of its blocks. */
export interface Blocker extends Holder {
  /** The part of the bytes that no other group blocks. */
  readonly alone: number;
  readonly segments: number;
}

/** All segments of one pool, stream and kind: these serve the same requests. */
export interface PoolShare {
  readonly pool: string | null;
  readonly stream: string | null;
  /** Whether they are for requests of up to 1 MiB. */
  readonly small: boolean;
  readonly segments: number;
  readonly reserved: number;
  readonly inUse: number;
  /** Of blocks whose free was asked for and is not done yet. */
  readonly pending: number;
  readonly free: number;
  /** The largest free block. */
  readonly largest: number;
  /** What empty_cache() gives back of it; of a private pool only once that was released. */
  readonly returnable: number;
}

/** What is free at a moment, and who keeps it from being given back. */
export interface Blocking {
  readonly free: number;
  /** The part of `free` that is not given back: those of the groups add up to it. */
  readonly blocked: number;
  /** What empty_cache() gives back, and the part of it that is pending now. */
  readonly returned: number;
  readonly returnedPending: number;
  /** The same of private pools, which have to be released first. */
  readonly privateReturned: number;
  readonly privatePending: number;
  /** The most bytes first; of equal ones the most blocks, then the lower number. */
  readonly blockers: readonly Blocker[];
  /** The most free bytes first. */
  readonly pools: readonly PoolShare[];
}

/** The frames of a snapshot: places in its `texts`, and lines; what these say stands one place before
 * `sources`, 0 for what isn't known. */
export interface Frames {
  readonly functions: Int32Array;
  readonly files: Int32Array;
  readonly lines: Float64Array;
  readonly sources: Int32Array;
}

/** The frames of one stack, innermost first. */
export interface Stack {
  readonly frames: Int32Array;
  /** 1 for code of the user's or of a library, 0 for plumbing. */
  readonly code: Uint8Array;
}

/** All that the worker answers of snapshots that it has opened. Each throws an Error whose message is
 * for people. Arrays in answers are new ones: they leave the worker. */
export interface Engine {
  frames(snapshot: number): Frames;
  stack(snapshot: number, stack: number): Stack;
  curve(query: CurveQuery): Curve;
  /** The highest separate peaks within moments [from, to), the highest first. */
  peaks(place: Place, measure: Measure, from: number, to: number, most: number): readonly Peak[];
  /** The moment at a place on the axis, and the other way round. */
  momentAt(place: Place, axis: Axis, x: number): number;
  xOf(place: Place, axis: Axis, moment: number): number;
  xsOf(place: Place, axis: Axis, moments: Float64Array): Float64Array;
  /** Of each allocation its group. */
  groups(place: Place, measure: Exclude<Measure, 'reserved'>, way: Way): Int32Array;
  /** Of each group bytes times the moments at which they are live: how much of the picture it is. */
  prominence(place: Place, way: Way): Float64Array;
  /** Bytes at a moment. */
  bytesAt(place: Place, measure: Measure, moment: number): number;
  picture(query: PictureQuery): Picture;
  allocation(place: Place, id: number): Allocation;
  holders(query: HoldersQuery): Holders;
  between(query: HoldersQuery, later: number): readonly Changed[];
  tree(query: TreeQuery): Tree;
  /** The trees of two snapshots as one: `before` has the bytes of the first, `bytes` and `own` those of
   * the second. Nodes are matched by what their frames are called (function and file, not the line);
   * frames are of the snapshot that `frameOf` says: 0 of the first, 1 of the second. */
  treeOfDifferences(
    before: TreeQuery,
    after: TreeQuery,
  ): Tree & { readonly before: Float64Array; readonly frameOf: Uint8Array };
  live(query: LiveQuery): LiveRows;
  /** Segments and blocks at a moment. */
  map(place: Place, moment: number): SegmentMap;
  /** Who blocks what is free at a moment, by a way; sizes are those of blocks. */
  blockers(place: Place, moment: number, way: Way): Blocking;
}
