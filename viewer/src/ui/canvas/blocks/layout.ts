// Segments in rows, grouped by pool and stream; a segment too large for a row continues in the next one.

import type { MapBlock, MapSegment } from '../../../protocol.js';

export interface BlockGroup {
  readonly pool: string | null;
  readonly stream: string | null;
  /** Indices into the map's list, in display order. */
  readonly segments: readonly number[];
  readonly reserved: number;
  readonly active: number;
  readonly free: number;
  readonly largestFree: number;
}

/** A row: a heading (`segment` is -1), or a part of a segment. */
export interface BlockRows {
  readonly group: Int32Array;
  readonly segment: Int32Array;
  /** The first byte of the segment that the row shows, and the number of bytes. */
  readonly offset: Float64Array;
  readonly bytes: Float64Array;
  /** CSS pixels from the top; the last entry is the bottom of the last row. */
  readonly top: Float64Array;
}

export interface BlockLayout {
  readonly segments: readonly MapSegment[];
  readonly groups: readonly BlockGroup[];
  readonly rows: BlockRows;
  /** Bytes of a whole row; 0 if each row has its own scale. */
  readonly rowBytes: number;
  /** Each segment's first row. */
  readonly firstRow: Int32Array;
}

/** CSS pixels. */
export const HEADING = 30;
export const SEGMENT = 20;
const HEADING_FOLDED = 18;
/** The usual height of rows in columns, and the least width of a column. */
const FOLDED = 15;
const COLUMN = 190;
const LEAST_HIGH = 0.1;
/** Parts of one segment are closer together. */
export const PART = 17;
/** A segment has at most this many rows. */
const MOST_PARTS = 32;
/** Segments are wide enough to be seen if at most this many of them fit in a row. */
const SEEN = 16;
/** The smallest segment that the allocator makes. */
const LEAST_ROW = 2 ** 21;

/** Groups by pool and stream, and segments in a group, largest first. */
export function groupsOf(segments: readonly MapSegment[]): BlockGroup[] {
  const found = new Map<string, number[]>();
  segments.forEach(({ pool, stream }, i) => {
    const key = `${pool === null ? 'none' : `=${pool}`} ${stream === null ? 'none' : `=${stream}`}`;
    const known = found.get(key);
    if (known) known.push(i);
    else found.set(key, [i]);
  });
  const groups = [...found.values()].map((members): BlockGroup => {
    let [reserved, active, largestFree] = [0, 0, 0];
    for (const one of members) {
      const segment = segments[one]!;
      reserved += segment.size;
      active += segment.active;
      largestFree = Math.max(largestFree, segment.largestFree);
    }
    members.sort((one, other) => segments[other]!.size - segments[one]!.size || one - other);
    const { pool, stream } = segments[members[0]!]!;
    return {
      pool,
      stream,
      segments: members,
      reserved,
      active,
      free: reserved - active,
      largestFree,
    };
  });
  return groups.sort((one, other) => other.reserved - one.reserved);
}

/** Returns the number of bytes per row if segments are as wide as they are large. This is the size
 * of the largest segment, unless most segments would then be hardly visible. In that case, rows
 * have fewer bytes, but enough to avoid too many rows. */
export function rowBytesOf(segments: readonly MapSegment[]): number {
  const sizes = Float64Array.from(segments, ({ size }) => size).sort();
  if (sizes.length === 0) return LEAST_ROW;
  const common = sizes[Math.ceil((sizes.length - 1) * 0.9)]!;
  const largest = sizes[sizes.length - 1]!;
  if (largest <= SEEN * common) return largest;
  return 2 ** Math.ceil(Math.log2(Math.max(common, largest / MOST_PARTS, LEAST_ROW)));
}

/** Lays out segments in rows of this many bytes. With a height, each segment fills a row of that
 * height. */
export function blocksLaid(
  segments: readonly MapSegment[],
  wanted: number,
  height?: number,
): BlockLayout {
  const groups = groupsOf(segments);
  const rowBytes = height ? 0 : Math.max(wanted, largestOf(segments) / 4096);
  const firstRow = new Int32Array(segments.length);
  let count = groups.length;
  for (const { size } of segments) count += partsOf(size, rowBytes);
  const rows: BlockRows = {
    group: new Int32Array(count),
    segment: new Int32Array(count),
    offset: new Float64Array(count),
    bytes: new Float64Array(count),
    top: new Float64Array(count + 1),
  };
  let row = 0;
  let top = 0;
  const push = (group: number, segment: number, offset: number, bytes: number, high: number) => {
    rows.group[row] = group;
    rows.segment[row] = segment;
    rows.offset[row] = offset;
    rows.bytes[row] = bytes;
    rows.top[row] = top;
    top += high;
    row++;
  };
  groups.forEach((group, g) => {
    push(g, -1, 0, 0, height ? HEADING_FOLDED : HEADING);
    for (const one of group.segments) {
      const { size } = segments[one]!;
      const parts = partsOf(size, rowBytes);
      firstRow[one] = row;
      for (let part = 0; part < parts; part++) {
        const offset = part * rowBytes;
        const bytes = parts === 1 ? size : Math.min(rowBytes, size - offset);
        push(g, one, offset, bytes, height ?? (part + 1 < parts ? PART : SEGMENT));
      }
    }
  });
  rows.top[count] = top;
  return { segments, groups, rows, rowBytes, firstRow };
}

/** Rows in columns, so that all of them are seen at once. */
export interface FoldedLayout extends BlockLayout {
  /** Where each column begins, in CSS pixels from the top of the layout; then the last one's end. */
  readonly starts: readonly number[];
}

/** Lays out segments, all equally wide, in columns that fill a part of the page, with lower rows if there are many. */
export function folded(
  segments: readonly MapSegment[],
  width: number,
  height: number,
): FoldedLayout {
  const most = Math.max(1, Math.floor(width / COLUMN));
  for (let high = FOLDED; ; high *= 0.85) {
    const layout = blocksLaid(segments, 0, high);
    const { top } = layout.rows;
    const starts = [0];
    for (let row = 0; row + 1 < top.length; row++) {
      if (top[row + 1]! - starts[starts.length - 1]! > Math.max(height, HEADING)) {
        starts.push(top[row]!);
      }
    }
    if (starts.length <= most || high < LEAST_HIGH)
      return { ...layout, starts: [...starts, top.at(-1)!] };
  }
}

function largestOf(segments: readonly MapSegment[]): number {
  let largest = 0;
  for (const { size } of segments) largest = Math.max(largest, size);
  return largest;
}

function partsOf(size: number, rowBytes: number): number {
  return rowBytes > 0 ? Math.max(1, Math.ceil(size / rowBytes)) : 1;
}

/** The row at a height; -1 outside. */
export function rowAt({ rows }: BlockLayout, y: number): number {
  const { top } = rows;
  if (y < 0 || y >= top[top.length - 1]!) return -1;
  let low = 0;
  let high = top.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (top[middle]! <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A part of a segment: a block, or a hole between blocks. */
export interface Piece {
  /** The block's index in the segment's blocks; -1 for a hole. */
  readonly block: number;
  readonly offset: number;
  readonly size: number;
}

const inOrder = new WeakMap<MapSegment, readonly MapBlock[]>();

/** A segment's blocks by their addresses. */
export function blocksOf(segment: MapSegment): readonly MapBlock[] {
  const known = inOrder.get(segment);
  if (known) return known;
  const { blocks } = segment;
  const sorted = blocks.every((one, i) => i === 0 || blocks[i - 1]!.offset <= one.offset)
    ? blocks
    : [...blocks].sort((one, other) => one.offset - other.offset);
  inOrder.set(segment, sorted);
  return sorted;
}

/** The index of the first block that ends after an offset. */
export function firstBlock(blocks: readonly MapBlock[], offset: number): number {
  let low = 0;
  let high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const { offset: at, size } = blocks[middle]!;
    if (at + size > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The piece that an offset of a segment is in; null outside of it. */
export function pieceAt(segment: MapSegment, offset: number): Piece | null {
  if (offset < 0 || offset >= segment.size) return null;
  const blocks = blocksOf(segment);
  const next = firstBlock(blocks, offset);
  const found = blocks[next];
  if (found && found.offset <= offset) {
    return { block: next, offset: found.offset, size: found.size };
  }
  const before = blocks[next - 1];
  const start = before ? before.offset + before.size : 0;
  return { block: -1, offset: start, size: (found?.offset ?? segment.size) - start };
}
