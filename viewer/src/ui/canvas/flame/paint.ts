// Draws the boxes of a flame graph.

import { signedSize, size } from '../../units.js';
import { fontOf, type Surface } from '../canvas.js';
import { css, diverging, inkOn, mixed, quietInkOn, type Rgb } from '../colour.js';
import { hatched } from '../patterns.js';
import { plain, widthsOf } from '../text.js';
import { colourIn, type Theme } from '../theme.js';
import type { Boxes } from './layout.js';
import { nameOf, type Shown } from './words.js';

/** CSS pixels. */
export const ROW = 20;
const TEXT = 11.5;
const PAD = 5;
/** Boxes with text are at least as wide as this. */
const TEXT_LEAST = 22;

export interface Look {
  readonly shown: Shown;
  readonly boxes: Boxes;
  /** Where the visible part begins, in device pixels from the top. */
  readonly scrolled: number;
  readonly zoom: number;
  readonly selected: number;
  readonly focused: number;
  readonly hovered: number;
  readonly highlight: ((node: number) => boolean) | null;
  readonly colour: (node: number) => string;
}

interface Fill {
  readonly fill: string;
  readonly ink: string;
  readonly soft: string;
}

/** Fill and text colours of boxes, by their given colour. */
class Fills {
  private readonly known: Record<Fading, Map<string, Fill>> = {
    none: new Map(),
    // Boxes that don't match the highlight are faded.
    faded: new Map(),
    // Callers of the zoomed node.
    distant: new Map(),
  };

  constructor(private readonly theme: Theme) {}

  of(text: string, fading: Fading): Fill {
    const known = this.known[fading].get(text);
    if (known) return known;
    const { theme } = this;
    const base = colourIn(theme, text);
    const ground = mixed(theme.bg, theme.hole, 0.7);
    const back = {
      none: base,
      faded: mixed(ground, base, 0.1),
      distant: mixed(base, theme.bg, 0.5),
    }[fading];
    const faded = fading === 'faded';
    const ink = faded ? theme.muted : inkOn(back);
    const soft = faded ? theme.muted : quietInkOn(back);
    const found = { fill: css(back), ink: css(ink), soft: css(soft) };
    this.known[fading].set(text, found);
    return found;
  }
}

type Fading = 'none' | 'faded' | 'distant';

/** The colour of a node's change, relative to the larger of its two values. */
export function changeColour(theme: Theme, bytes: number, before: number): string {
  const none = mixed(theme.hole, theme.bg, 0.25);
  const larger = Math.max(bytes, before);
  const share = larger > 0 ? (bytes - before) / larger : 0;
  // The theme's colours are meant for text; boxes are larger, so they get softer colours.
  const [more, less] = [mixed(theme.more, theme.bg, 0.2), mixed(theme.less, theme.bg, 0.2)];
  // Most changes are a small part, but still visible.
  return css(diverging(Math.sign(share) * Math.sqrt(Math.abs(share)), none, more, less));
}

export function paintFlame(surface: Surface, look: Look): void {
  const { pen, ratio, theme } = surface;
  const { boxes } = look;
  const fills = new Fills(theme);
  const high = ROW * ratio;
  const gap = Math.max(1, Math.round(ratio));
  pen.font = fontOf(surface, TEXT);
  pen.textBaseline = 'middle';
  const rest = hatched(pen, mixed(theme.muted, theme.bg, 0.55), Math.round(5 * ratio), ratio);
  const zoomRow = look.shown.extents.tree.depth[look.zoom]!;
  for (let row = 0; row < boxes.rows.length; row++) {
    const ofRow = boxes.rows[row];
    if (!ofRow) continue;
    const top = Math.round(row * high - look.scrolled);
    const tall = Math.round(high) - gap;
    let drawn = 0;
    for (const box of ofRow) {
      const from = Math.max(Math.round(boxes.x[box]!), drawn);
      const to = Math.round(boxes.x[box]! + boxes.width[box]!);
      if (to <= from) continue;
      drawn = to;
      // Leave a gap to the next box if there's room.
      const wide = to - from > 2 * gap ? to - from - gap : to - from;
      const node = boxes.node[box]!;
      if (boxes.merged[box]) {
        pen.fillStyle = rest;
        pen.fillRect(from, top, wide, tall);
        continue;
      }
      const faded = look.highlight !== null && !look.highlight(node);
      const fading = faded ? 'faded' : row < zoomRow ? 'distant' : 'none';
      const fill = fills.of(look.colour(node), fading);
      pen.fillStyle = fill.fill;
      pen.fillRect(from, top, wide, tall);
      if (wide >= TEXT_LEAST * ratio) label(surface, look, node, from, wide, top + tall / 2, fill);
    }
  }
  outline(surface, look, look.hovered, mixed(theme.fg, theme.bg, 0.45), 1);
  outline(surface, look, look.selected, theme.fg, 1.5);
  outline(surface, look, look.focused, theme.accent, 2);
}

/** The location and the name, then the bytes if there's room. Changes come before names. */
function label(
  surface: Surface,
  look: Look,
  node: number,
  from: number,
  wide: number,
  middle: number,
  ink: { ink: string; soft: string },
): void {
  const { pen, ratio } = surface;
  const widths = widthsOf(pen);
  const pad = PAD * ratio;
  const { tree } = look.shown.extents;
  const { before } = look.shown;
  const bytes = tree.bytes[node]!;
  const sum = before ? signedSize(bytes - before[node]!) : size(bytes);
  const sumWidth = widths.width(sum);
  const { title, where = '' } = nameOf(look.shown, node);
  const y = middle + 0.5 * ratio;
  const gap = 6 * ratio;
  const least =
    before && bytes !== before[node]
      ? widths.width(placeFitted(where, () => false)) + gap
      : Infinity;
  const kept = least + sumWidth <= wide - 2 * pad ? sumWidth + gap : 0;
  const room = wide - 2 * pad - kept;
  const name = plain(title, 200);
  const wanted = widths.width(name);
  const place = placeFitted(
    plain(where, 200),
    (text) => widths.width(text) + gap + (kept ? 0 : wanted) <= room,
  );
  const width = place ? widths.width(place) : 0;
  // If there's no room for both, the line is kept, and the end of the name is cut.
  const shown = widths.fitted(place, room);
  if (shown) {
    pen.fillStyle = ink.soft;
    pen.fillText(shown, from + pad, y);
  }
  const start = place ? width + gap : 0;
  const text = widths.fitted(name, room - start);
  pen.fillStyle = ink.ink;
  if (text) pen.fillText(text, from + pad + start, y);
  pen.fillStyle = ink.soft;
  if (kept || start + wanted + 8 * ratio + sumWidth <= room) {
    pen.fillText(sum, from + wide - pad - sumWidth, y);
  }
}

/** `model.py:58` if it fits, otherwise `:58`. */
export function placeFitted(where: string, fits: (text: string) => boolean): string {
  return fits(where) ? where : where.slice(Math.max(where.lastIndexOf(':'), 0));
}

function outline(surface: Surface, look: Look, node: number, colour: Rgb, width: number): void {
  const { boxes, shown } = look;
  if (node < 0) return;
  const row = shown.extents.tree.depth[node]!;
  const box = boxes.rows[row]?.find(
    (one) =>
      boxes.node[one] === node ||
      (boxes.merged[one]! > 0 && inRest(look, boxes.node[one]!, node, boxes.merged[one]!)),
  );
  if (box === undefined) return;
  const { pen, ratio } = surface;
  const line = Math.max(1, Math.round(width * ratio));
  const top = Math.round(row * ROW * ratio - look.scrolled);
  const from = Math.round(boxes.x[box]!);
  const wide = Math.max(Math.round(boxes.width[box]!), 3 * line);
  pen.lineWidth = line;
  pen.strokeStyle = css(colour);
  pen.strokeRect(from + line / 2, top + line / 2, wide - line, Math.round(ROW * ratio) - line);
}

/** Whether a node is one of those that share a box. */
function inRest({ shown }: Look, first: number, node: number, merged: number): boolean {
  const { tree, end } = shown.extents;
  if (tree.parent[first] !== tree.parent[node] || node < first) return false;
  let one = first;
  for (let i = 0; i < merged && one <= node; i++, one = end[one]!) if (one === node) return true;
  return false;
}
