// Draws the visible rows of a block map.

import type { MapSegment } from '../../../protocol.js';
import { size } from '../../units.js';
import { fontOf, type Surface } from '../canvas.js';
import { css, inkOn, mixed, type Rgb } from '../colour.js';
import { hatched } from '../patterns.js';
import { widthsOf } from '../text.js';
import { colourIn } from '../theme.js';
import { type BlockLayout, blocksOf, firstBlock, HEADING, pieceAt, rowAt } from './layout.js';
import { groupName, groupSums, segmentCount, shortSums } from './words.js';

/** CSS pixels for sizes next to segments, if the page isn't too narrow. */
const SIDE = 70;
const SIDE_COLUMN = 66;
const NARROW = 480;
const TEXT = 11;
/** The size of the smallest text that can be read. */
const SMALL_TEXT = 8;
const NAME = 12;
const TEXT_LEAST = 44;
export const COLUMN_GAP = 12;

export interface Spot {
  readonly segment: number;
  /** An offset in the segment. */
  readonly offset: number;
}

export interface BlocksLook {
  readonly layout: BlockLayout;
  /** CSS pixels. */
  readonly scrolled: number;
  /** Whether this is one of several columns, which have no heading that stays on top. */
  readonly column?: boolean;
  readonly colour: (id: number, segment: MapSegment) => string;
  readonly selected: number | null;
  readonly hovered: Spot | null;
  readonly focused: Spot | null;
}

/** Where segments begin, in CSS pixels. */
export function sideOf(width: number, column = false): number {
  if (column) return SIDE_COLUMN;
  return width < NARROW ? 0 : SIDE;
}

/** Bytes per CSS pixel in a row. */
export function bytesAPixel(
  layout: BlockLayout,
  row: number,
  width: number,
  column = false,
): number {
  const room = Math.max(width - sideOf(width, column), 1);
  return (layout.rowBytes || layout.rows.bytes[row]!) / room;
}

/** All rows in columns. */
export function paintFolded(surface: Surface, look: BlocksLook, starts: readonly number[]): void {
  const { pen, ratio } = surface;
  const wide = (surface.width / ratio + COLUMN_GAP) / (starts.length - 1);
  for (let column = 0; column + 1 < starts.length; column++) {
    const height = (starts[column + 1]! - starts[column]!) * ratio;
    const width = (wide - COLUMN_GAP) * ratio;
    pen.save();
    pen.translate(Math.round(column * wide * ratio), 0);
    paintBlocks(
      { ...surface, width, height },
      { ...look, scrolled: starts[column]!, column: true },
    );
    pen.restore();
  }
}

interface Pens {
  readonly hole: CanvasPattern | string;
  readonly waiting: CanvasPattern | string;
  readonly ground: string;
  readonly fills: Map<string, readonly [string, Rgb]>;
}

export function paintBlocks(surface: Surface, look: BlocksLook): void {
  const { pen, ratio, theme, height } = surface;
  const { layout, scrolled } = look;
  const { rows } = layout;
  const bottom = scrolled + height / ratio;
  const pens: Pens = {
    hole: hatched(pen, mixed(theme.hole, theme.muted, 0.3), Math.round(5 * ratio), 0.8 * ratio),
    waiting: hatched(pen, theme.bg, Math.round(6 * ratio), 2 * ratio),
    ground: css(mixed(theme.bg, theme.hole, 0.45)),
    fills: new Map(),
  };
  pen.textBaseline = 'middle';
  const first = Math.max(rowAt(layout, scrolled), 0);
  for (let row = first; row < rows.group.length && rows.top[row]! < bottom; row++) {
    if (rows.segment[row]! >= 0) segmentRow(surface, look, row, pens);
    else {
      const height = rows.top[row + 1]! - rows.top[row]!;
      heading(surface, look, rows.group[row]!, rows.top[row]! - scrolled, height);
    }
  }
  // The topmost heading stays visible until the next one pushes it out.
  if (scrolled <= 0 || look.column || first >= rows.group.length) return;
  const group = rows.group[first]!;
  let next = first;
  while (
    next < rows.group.length &&
    rows.group[next] === group &&
    rows.top[next]! < scrolled + HEADING
  ) {
    next++;
  }
  const push = rows.group[next] === undefined ? HEADING : rows.top[next]! - scrolled;
  const pushed = rows.group[next] === group ? 0 : Math.min(0, push - HEADING);
  pen.fillStyle = css(theme.bg);
  pen.fillRect(0, 0, surface.width, Math.round((HEADING + pushed) * ratio));
  heading(surface, look, group, pushed);
}

function heading(
  surface: Surface,
  look: BlocksLook,
  group: number,
  top: number,
  height = HEADING,
): void {
  const { pen, ratio, theme, width } = surface;
  const said = look.layout.groups[group]!;
  const middle = (top + height / 2 + 2) * ratio;
  pen.font = fontOf(surface, NAME, 600);
  pen.fillStyle = css(theme.fg);
  const name = widthsOf(pen).fitted(groupName(said.pool, said.stream), width);
  pen.fillText(name, 0, middle);
  const used = widthsOf(pen).width(name) + 10 * ratio;
  pen.font = fontOf(surface, TEXT);
  pen.fillStyle = css(theme.muted);
  const widths = widthsOf(pen);
  const sums = [`${segmentCount(said)}, ${groupSums(said)}`, groupSums(said), shortSums(said)];
  const text = sums.find((one) => widths.width(one) <= width - used);
  pen.fillText(text ?? widths.fitted(sums[2]!, width - used), used, middle);
}

function fillOf(surface: Surface, look: BlocksLook, id: number, segment: MapSegment, pens: Pens) {
  const text = id < 0 ? 'var(--muted)' : look.colour(id, segment);
  let found = pens.fills.get(text);
  if (!found) {
    const colour = colourIn(surface.theme, text);
    found = [css(colour), colour];
    pens.fills.set(text, found);
  }
  return found;
}

function segmentRow(surface: Surface, look: BlocksLook, row: number, pens: Pens): void {
  const { pen, ratio, theme } = surface;
  const { layout, scrolled } = look;
  const { rows, segments } = layout;
  const number = rows.segment[row]!;
  const segment = segments[number]!;
  const offset = rows.offset[row]!;
  const end = offset + rows.bytes[row]!;
  const top = Math.round((rows.top[row]! - scrolled) * ratio);
  const rowHigh = rows.top[row + 1]! - rows.top[row]!;
  const gap = Math.min(offset + rows.bytes[row]! < segment.size ? 1 : 3, rowHigh / 4);
  const high = Math.max(Math.round((rowHigh - gap) * ratio), 1);
  const labelled = high > TEXT * ratio;
  const left = Math.round(sideOf(surface.width / ratio, look.column) * ratio);
  const scale = ratio / bytesAPixel(layout, row, surface.width / ratio, look.column);
  // Each pixel shows the block that has the byte at its middle.
  const pixel = (byte: number) => left + Math.ceil((byte - offset) * scale - 0.5);
  const right = Math.max(pixel(end), left + 1);
  if (left > 0 && offset === 0 && rowHigh >= SMALL_TEXT) {
    sizeLabel(surface, segment, left, top + high / 2, Math.min(TEXT, rowHigh));
  }
  pen.fillStyle = pens.ground;
  pen.fillRect(left, top, right - left, high);
  pen.fillStyle = pens.hole;
  pen.fillRect(left, top, right - left, high);
  const blocks = blocksOf(segment);
  const line = Math.max(1, Math.round(ratio));
  for (let b = firstBlock(blocks, offset); b < blocks.length; b++) {
    const block = blocks[b]!;
    if (block.offset >= end) break;
    const from = pixel(Math.max(block.offset, offset));
    const to = pixel(Math.min(block.offset + block.size, end));
    if (to <= from) continue;
    const [fill, colour] = fillOf(surface, look, block.id, segment, pens);
    const wide = to - from > 3 * line ? to - from - line : to - from;
    pen.fillStyle = fill;
    pen.fillRect(from, top, to - from, high);
    if (block.awaiting) {
      pen.globalAlpha = 0.6;
      pen.fillStyle = pens.waiting;
      pen.fillRect(from, top, wide, high);
      pen.globalAlpha = 1;
    }
    if (wide < to - from) {
      pen.fillStyle = css(theme.bg);
      pen.fillRect(to - line, top, line, high);
    }
    if (labelled && wide >= TEXT_LEAST * ratio && block.offset >= offset) {
      blockLabel(surface, block.size, from, wide, top + high / 2, colour);
    }
    if (look.selected !== null && block.id === look.selected) {
      frame(surface, from, to, top, high, theme.fg, 2);
    }
  }
  for (const [spot, colour, width] of [
    [look.hovered, mixed(theme.fg, theme.bg, 0.3), 1],
    [look.focused, theme.accent, 2],
  ] as const) {
    if (spot?.segment !== number) continue;
    const piece = pieceAt(segment, spot.offset);
    if (!piece || piece.offset + piece.size <= offset || piece.offset >= end) continue;
    const a = pixel(Math.max(piece.offset, offset));
    const b = pixel(Math.min(piece.offset + piece.size, end));
    frame(surface, a, Math.max(b, a + 3 * line), top, high, colour, width);
  }
}

function frame(
  surface: Surface,
  from: number,
  to: number,
  top: number,
  high: number,
  colour: Rgb,
  width: number,
): void {
  const { pen, ratio } = surface;
  const line = Math.max(1, Math.round(width * ratio));
  pen.strokeStyle = css(colour);
  pen.lineWidth = line;
  pen.strokeRect(from + line / 2, top + line / 2, Math.max(to - from - line, line), high - line);
}

function sizeLabel(
  surface: Surface,
  segment: MapSegment,
  left: number,
  middle: number,
  font: number,
): void {
  const { pen, ratio, theme } = surface;
  pen.font = fontOf(surface, font);
  pen.fillStyle = css(theme.muted);
  const text = size(segment.size);
  pen.fillText(text, left - 8 * ratio - widthsOf(pen).width(text), middle + 0.5 * ratio);
}

function blockLabel(
  surface: Surface,
  bytes: number,
  from: number,
  wide: number,
  middle: number,
  colour: Rgb,
): void {
  const { pen, ratio } = surface;
  pen.font = fontOf(surface, TEXT);
  const widths = widthsOf(pen);
  const text = size(bytes);
  if (widths.width(text) > wide - 8 * ratio) return;
  pen.fillStyle = css(inkOn(colour));
  pen.fillText(text, from + 4 * ratio, middle + 0.5 * ratio);
}
