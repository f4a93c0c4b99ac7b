// Describes segments, blocks and holes: in headings, in tooltips, and for screen readers.

import type { MapBlock, MapSegment } from '../../../protocol.js';
import { counted, exactSize, percent, size } from '../../units.js';
import type { Tip } from '../tooltip.js';
import { type BlockGroup, blocksOf, type Piece } from './layout.js';

export function groupName(pool: string | null, stream: string | null): string {
  const which = pool === null ? 'pool unknown' : pool === '0:0' ? 'default pool' : `pool ${pool}`;
  return stream === null ? which : `${which}, stream ${stream}`;
}

/** `590.0 MiB reserved, 326.7 MiB active, 263.3 MiB free, the largest hole 42.0 MiB`. */
export function groupSums(group: BlockGroup): string {
  const { reserved, active, free, largestFree } = group;
  const hole = free > 0 ? `, the largest hole ${size(largestFree)}` : '';
  return `${size(reserved)} reserved, ${size(active)} active, ${size(free)} free${hole}`;
}

/** The short form: `590.0 MiB, 263.3 MiB free`. */
export function shortSums({ reserved, free }: BlockGroup): string {
  return `${size(reserved)}, ${size(free)} free`;
}

function both(bytes: number): string {
  return bytes < 1024 ? exactSize(bytes) : `${size(bytes)} (${exactSize(bytes)})`;
}

/** `0x7f00 + 2097152`: formats a position in a segment as an address. */
export function addressAt({ address }: MapSegment, offset: number): string {
  try {
    return `0x${(BigInt(address) + BigInt(offset)).toString(16)}`;
  } catch {
    return address;
  }
}

function segmentRows(segment: MapSegment): (readonly [string, string])[] {
  const free = segment.size - segment.active;
  const share = segment.size > 0 ? ` (${percent(free / segment.size)})` : '';
  return [
    ['segment', `${size(segment.size)} at ${addressAt(segment, 0)}`],
    ['free', `${size(free)}${share}, the largest hole ${size(segment.largestFree)}`],
  ];
}

export function holeTip(segment: MapSegment, hole: Piece): Tip {
  const whole = hole.size === segment.size;
  return {
    title: `${size(hole.size)} free`,
    detail: `at ${addressAt(segment, hole.offset)}`,
    rows: [['bytes', exactSize(hole.size)], ...segmentRows(segment)],
    ...(whole ? { note: 'This segment is empty.' } : {}),
  };
}

export function blockTip(
  segment: MapSegment,
  block: MapBlock,
  name: string | null,
  colour: string,
): Tip {
  const rows: (readonly [string, string])[] = [['block', both(block.size)]];
  if (block.id >= 0) rows.push(['requested', both(block.requested)]);
  rows.push(['address', addressAt(segment, block.offset)]);
  if (block.awaiting) rows.push(['state', 'its free is pending']);
  rows.push(...segmentRows(segment));
  const known = block.id >= 0 ? `allocation ${block.id}` : 'an unknown block';
  return { title: name ?? known, ...(name ? { detail: known } : {}), rows, colour };
}

/** `block of 2.0 MiB at 0x7f00, default pool, stream 0, in a segment of 20.0 MiB`. */
export function said(segment: MapSegment, piece: Piece, name: string | null): string {
  const place = `at ${addressAt(segment, piece.offset)}, ${groupName(segment.pool, segment.stream)}`;
  const inside = `in a segment of ${size(segment.size)}`;
  if (piece.block < 0) return `hole of ${size(piece.size)} ${place}, ${inside}`;
  const block = blocksOf(segment)[piece.block]!;
  const waiting = block.awaiting ? ', free pending' : '';
  return `${name ? `${name}, ` : ''}block of ${size(piece.size)} ${place}, ${inside}${waiting}`;
}

/** `28 segments`. */
export function segmentCount(group: BlockGroup): string {
  return counted(group.segments.length, 'segment');
}
