// Draws lanes: points, steps, annotations, and the cursors through all of them.

import { fontOf, type Surface } from '../canvas.js';
import { css, hashed, inkOn, mixed, parsed, type Rgb, softColours } from '../colour.js';
import { hatched } from '../patterns.js';
import { plain, type TextWidths, widthsOf } from '../text.js';
import { type Bar, barsOf, type Seen } from './layout.js';
import type { Lane, LaneItem, LaneModel } from './model.js';

/** CSS pixels. */
const HEIGHTS: Readonly<Record<Lane['kind'], number>> = { point: 13, step: 19, span: 18, more: 16 };
const TEXT = 11;
const LABEL = 10.5;
const PAD = 4;
const TEXT_LEAST = 30;

/** Each lane's top, then the bottom of the last one, in CSS pixels. */
export function topsOf({ lanes }: LaneModel): number[] {
  const tops = [0];
  for (const { kind } of lanes) tops.push(tops.at(-1)! + HEIGHTS[kind]);
  return tops;
}

export interface Pointed {
  readonly lane: number;
  readonly range: number;
}

export interface LanesLook {
  readonly model: LaneModel;
  readonly span: { readonly from: number; readonly to: number };
  /** Margins at both sides, in CSS pixels. */
  readonly left: number;
  readonly right: number;
  readonly cursor: number | null;
  readonly other: number | null;
  readonly hovered: Pointed | null;
  readonly focused: Pointed | null;
  /** The colour of annotations with a name; by default soft colours by name. */
  readonly colour: ((name: string) => string) | undefined;
}

/** The visible part of the axis in a width of device pixels. */
export function seenOf(look: Pick<LanesLook, 'span'>, width: number): Seen {
  const { from, to } = look.span;
  return { start: from, scale: width / (to - from), width };
}

/** Draws the lanes; returns each lane's bars, in device pixels from its left edge. */
export function paintLanes(surface: Surface, look: LanesLook): Bar[][] {
  const { pen, ratio, theme } = surface;
  const left = Math.round(look.left * ratio);
  const width = surface.width - left - Math.round(look.right * ratio);
  const tops = topsOf(look.model);
  if (width <= 0) return [];
  const seen = seenOf(look, width);
  const soft = softColours(theme.dark).map((one) => parsed(one)!);
  pen.textBaseline = 'middle';
  const bars = look.model.lanes.map((lane, i) => {
    const top = Math.round(tops[i]! * ratio);
    const high = Math.round(tops[i + 1]! * ratio) - top;
    sideLabel(surface, lane, left, top, high);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width, surface.height);
    pen.clip();
    pen.translate(left, 0);
    pen.font = fontOf(surface, TEXT);
    const bars = barsOf(lane.ranges, lane.row, seen);
    const drawn = lane.kind === 'point' ? joined(bars, NEAR * ratio) : bars;
    if (lane.kind === 'more') more(surface, drawn, top, high);
    else if (lane.kind !== 'point') {
      for (const bar of drawn) {
        const fill = fillOf(surface, look, lane, bar, soft);
        box(surface, lane, bar, fill, top, high, width);
      }
      for (const [one, line] of [
        [look.hovered, mixed(theme.fg, theme.bg, 0.45)],
        [look.focused, theme.accent],
      ] as const) {
        if (one?.lane === i) outline(surface, lane, one.range, line, seen, top, high);
      }
    }
    pen.restore();
    return drawn;
  });
  pen.save();
  pen.translate(left, 0);
  look.model.lanes.forEach((lane, i) => {
    if (lane.kind === 'point') points(surface, look, lane, i, bars[i]!, width);
  });
  cursorLine(surface, look.cursor, seen, []);
  cursorLine(surface, look.other, seen, [4 * ratio, 3 * ratio]);
  pen.restore();
  return bars;
}

function fillOf(surface: Surface, look: LanesLook, lane: Lane, bar: Bar, soft: Rgb[]): Rgb {
  const { theme } = surface;
  if (lane.kind === 'step') {
    return mixed(theme.bg, theme.accent, bar.merged ? 0.3 : bar.range % 2 ? 0.24 : 0.12);
  }
  const { name } = lane.item(bar.range);
  const own = parsed(look.colour?.(name) ?? '') ?? soft[hashed(kindOf(name)) % soft.length]!;
  // A bar for several ranges is paler, because their names may differ.
  return bar.merged ? mixed(own, mixed(theme.muted, theme.bg, 0.5), 0.6) : own;
}

/** Names that differ only in a number get the same colour: `ProfilerStep#1` and `ProfilerStep#2`. */
function kindOf(name: string): string {
  return name.slice(0, 256).replace(/[#_ ]\d+/g, '#');
}

/** Fits a name into the available room; a step is shortened to its number. */
function nameIn(item: LaneItem, room: number, least: number, widths: TextWidths): string {
  const name = plain(item.name, 200);
  if (item.kind === 'step' && widths.width(name) > room) {
    const short = name.replace(/ \(.*$/, '');
    const number = /\d+/.exec(short)?.[0] ?? '';
    return [short, number].find((one) => widths.width(one) <= room) ?? '';
  }
  return room < least ? '' : widths.fitted(name, room);
}

function box(
  surface: Surface,
  lane: Lane,
  bar: Bar,
  fill: Rgb,
  top: number,
  high: number,
  width: number,
): void {
  const { pen, ratio } = surface;
  const gap = Math.max(1, Math.round(ratio));
  const from = Math.max(Math.round(bar.from), -2);
  const to = Math.min(Math.max(Math.round(bar.to), from + 1), width + 2);
  const wide = to - from > 2 * gap ? to - from - gap : to - from;
  pen.fillStyle = css(fill);
  pen.fillRect(from, top, wide, high - gap);
  // Text stays visible if its bar begins outside the view.
  const edge = Math.max(from, 0);
  const seen = Math.min(from + wide, width) - edge;
  const widths = widthsOf(pen);
  const item = lane.item(bar.range);
  const pad = PAD * ratio;
  let text = bar.merged ? '' : nameIn(item, seen - 2 * pad, TEXT_LEAST * ratio, widths);
  let start = edge + pad;
  if (!text && item.kind === 'step' && !bar.merged) {
    // A step's number fits without padding.
    text = nameIn(item, seen - 2 * ratio, seen, widths);
    start = edge + (seen - widths.width(text)) / 2;
  }
  if (!text) return;
  pen.fillStyle = css(inkOn(fill));
  pen.fillText(text, start, top + (high - gap) / 2 + 0.5 * ratio);
}

function outline(
  surface: Surface,
  { ranges }: Lane,
  range: number,
  colour: Rgb,
  seen: Seen,
  top: number,
  high: number,
): void {
  const { pen, ratio } = surface;
  const line = Math.max(1, Math.round(1.5 * ratio));
  const from = Math.round((ranges.from[range]! - seen.start) * seen.scale);
  const to = Math.round((ranges.to[range]! - seen.start) * seen.scale);
  const wide = Math.max(to - from - line, 3 * line);
  pen.strokeStyle = css(colour);
  pen.lineWidth = line;
  pen.strokeRect(from + line / 2, top + line / 2, wide - line / 2, high - 2 * line);
}

function more(surface: Surface, bars: readonly Bar[], top: number, high: number): void {
  const { pen, ratio, theme } = surface;
  const lines = mixed(theme.muted, theme.bg, 0.5);
  pen.fillStyle = hatched(pen, lines, Math.round(5 * ratio), ratio);
  const inset = Math.round(3 * ratio);
  for (const bar of bars) {
    const from = Math.max(Math.round(bar.from), 0);
    const to = Math.max(Math.round(bar.to), from + 1);
    pen.fillRect(from, top + inset, to - from, high - 2 * inset);
  }
}

/** A lane's label, next to it. */
function sideLabel(surface: Surface, lane: Lane, left: number, top: number, high: number): void {
  const { pen, ratio, theme } = surface;
  if (!lane.label || left === 0) return;
  pen.font = fontOf(surface, LABEL);
  pen.fillStyle = css(theme.muted);
  const widths = widthsOf(pen);
  const room = left - 8 * ratio;
  const short = lane.label.replace(/ more$/, '');
  const cut = widths.width(lane.label) <= room ? lane.label : widths.fitted(short, room);
  pen.fillText(cut, left - 6 * ratio - widths.width(cut), top + high / 2);
}

/** Points nearer to each other than this many CSS pixels are one, with their number. */
const NEAR = 9;

/** The bars of points, with points near each other in one bar. */
export function joined(bars: readonly Bar[], near: number): Bar[] {
  const found: Bar[] = [];
  for (const bar of bars) {
    const last = found.at(-1);
    if (last && bar.from - last.from < near) {
      const merged = (last.merged || 1) + (bar.merged || 1);
      found[found.length - 1] = { ...last, merged, to: bar.to };
    } else found.push(bar);
  }
  return found;
}

function points(
  surface: Surface,
  look: LanesLook,
  lane: Lane,
  at: number,
  bars: readonly Bar[],
  width: number,
): void {
  const { pen, ratio, theme } = surface;
  const half = 4.5 * ratio;
  for (const { range, merged, from } of bars) {
    if (from > width) continue;
    const of = Array.from({ length: merged || 1 }, (_, i) => lane.item(range + i).kind);
    const oom = of.includes('oom');
    const x = Math.round(from) + 0.5;
    const chosen = [look.hovered, look.focused].some(
      (one) => one?.lane === at && one.range === range,
    );
    pen.strokeStyle = css(oom ? theme.more : mixed(theme.muted, theme.bg, 0.3));
    pen.lineWidth = Math.max(1, Math.round((chosen ? 2 : 1) * ratio));
    pen.setLineDash(oom ? [] : [2 * ratio, 2 * ratio]);
    pen.beginPath();
    pen.moveTo(x, half * 2);
    pen.lineTo(x, surface.height);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = css(oom ? theme.more : theme.muted);
    pen.beginPath();
    if (oom) {
      pen.moveTo(x - half, ratio);
      pen.lineTo(x + half, ratio);
      pen.lineTo(x, half * 2 + ratio);
    } else {
      pen.moveTo(x, ratio);
      pen.lineTo(x + half * 0.8, half + ratio);
      pen.lineTo(x, 2 * half + ratio);
      pen.lineTo(x - half * 0.8, half + ratio);
    }
    pen.closePath();
    pen.fill();
    if (merged) {
      pen.font = fontOf(surface, LABEL);
      const text = String(merged);
      pen.fillText(text, x - half - 3 * ratio - widthsOf(pen).width(text), half + ratio);
    }
    if (chosen) {
      pen.strokeStyle = css(theme.fg);
      pen.lineWidth = ratio;
      pen.stroke();
    }
  }
}

function cursorLine(surface: Surface, at: number | null, seen: Seen, dash: number[]): void {
  if (at === null) return;
  const x = (at - seen.start) * seen.scale;
  if (x < 0 || x > seen.width) return;
  const { pen, ratio, theme } = surface;
  const line = Math.max(1, Math.round(ratio));
  pen.strokeStyle = css(theme.fg);
  pen.lineWidth = line;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(Math.round(x) + (line % 2) / 2, 0);
  pen.lineTo(Math.round(x) + (line % 2) / 2, surface.height);
  pen.stroke();
  pen.setLineDash([]);
}
