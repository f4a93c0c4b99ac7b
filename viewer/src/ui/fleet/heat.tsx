// Ranks by time: a row per rank, a column per moment, and above them the distribution over all ranks.

import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { bytesAt, ordered } from '../../core/fleet.js';
import {
  aboveMedian,
  type Channels,
  diverging,
  evenScale,
  gridOf,
  painted,
  plainScale,
  rising,
  type Scale,
} from '../../core/heat.js';
import { byteTicks } from '../axes.js';
import '../canvas/canvas.css';
import { fontOf, type Surface, useCanvas } from '../canvas/canvas.js';
import { css } from '../canvas/colour.js';
import { plain } from '../canvas/text.js';
import { type Pointed, Tooltip } from '../canvas/tooltip.js';
import { count, counted, percent, size } from '../units.js';
import { openPage } from './keys.js';
import { change, state } from './state.js';
import { momentName, overWords, rankName, troubleWords } from './words.js';
import { useWorld, type World } from './world.js';

/** Sizes in CSS pixels: labels on the left, the plot above, the axis below. */
const LEFT = 92;
const RIGHT = 10;
const PLOT = 66;
const GAP = 6;
const AXIS = 20;
/** Height of a row, and of all rows. */
const ROW = 18;
const MOST = 440;
const LEAST = 90;
const LABEL = 14;

export interface Heat {
  readonly order: readonly number[];
  readonly values: Float64Array;
  readonly scale: Scale;
}

/** The numbers shown as colours: bytes, or their distance from the median. */
export function heatOf({ page, curves, lying }: World): Heat {
  const { order, colour } = state.value;
  const rows = ordered(page.ranks, order);
  if (colour === 'bytes') {
    return { order: rows, values: curves.bytes, scale: plainScale(curves.bytes) };
  }
  const medians = lying.map(({ median }) => median);
  const values = aboveMedian(curves.bytes, curves.moments, medians);
  return { order: rows, values, scale: evenScale(values) };
}

export function rampOf(colour: string, less: Channels, bg: Channels, more: Channels) {
  return colour === 'bytes' ? rising() : diverging(less, bg, more);
}

interface Frame {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

function frameOf(width: number, height: number, ratio: number): Frame {
  const top = Math.round((PLOT + GAP) * ratio);
  return {
    left: Math.round(LEFT * ratio),
    top,
    width: Math.max(1, width - Math.round((LEFT + RIGHT) * ratio)),
    height: Math.max(1, height - top - Math.round(AXIS * ratio)),
  };
}

function paintPlot(surface: Surface, { curves, lying }: World, frame: Frame): void {
  const { pen, ratio, theme } = surface;
  const { moments } = curves;
  const most = lying.reduce((high, { max }) => Math.max(high, max || 0), 1);
  const bottom = Math.round(PLOT * ratio);
  const y = (bytes: number) => bottom - ((bottom - 8 * ratio) * bytes) / most;
  const x = (moment: number) => frame.left + ((moment + 0.5) * frame.width) / moments;
  pen.font = fontOf(surface, 11);
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  for (const { at, label } of byteTicks(0, most, 3)) {
    pen.fillStyle = css(theme.line);
    pen.fillRect(frame.left, Math.round(y(at)), frame.width, Math.max(1, Math.round(ratio)));
    pen.fillStyle = css(theme.muted);
    // The lowest label is above its line, because a rank's name is below.
    const high = Math.min(Math.max(y(at), 6 * ratio), bottom - 5 * ratio);
    pen.fillText(label, frame.left - 6 * ratio, high);
  }
  const there = lying.flatMap(({ max }, moment) => (Number.isNaN(max) ? [] : [moment]));
  const line = (of: 'min' | 'median' | 'max') => {
    pen.beginPath();
    for (const moment of there) pen.lineTo(x(moment), y(lying[moment]![of]));
  };
  line('max');
  for (const moment of [...there].reverse()) pen.lineTo(x(moment), y(lying[moment]!.min));
  pen.globalAlpha = 0.18;
  pen.fillStyle = css(theme.accent);
  pen.fill();
  pen.globalAlpha = 1;
  for (const of of ['max', 'median'] as const) {
    line(of);
    pen.lineWidth = (of === 'max' ? 1.6 : 1.2) * ratio;
    pen.strokeStyle = css(of === 'max' ? theme.accent : theme.fg);
    pen.setLineDash(of === 'max' ? [] : [4 * ratio, 3 * ratio]);
    pen.stroke();
  }
  pen.setLineDash([]);
}

function paintMap(surface: Surface, heat: Heat, { curves, page }: World, frame: Frame): void {
  const { pen, ratio, theme } = surface;
  const { order, values, scale } = heat;
  const most = { rows: frame.height, columns: frame.width };
  const grid = gridOf(values, curves.moments, order, most, scale.middle);
  if (grid.values.length) {
    const small = new OffscreenCanvas(grid.columns, grid.rows);
    const ramp = rampOf(state.value.colour, theme.less, theme.bg, theme.more);
    const pixels = painted(grid, scale, ramp, theme.hole);
    small.getContext('2d')!.putImageData(new ImageData(pixels, grid.columns, grid.rows), 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, frame.left, frame.top, frame.width, frame.height);
  }
  pen.font = fontOf(surface, 11);
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  const high = frame.height / order.length;
  const every = Math.max(1, Math.ceil((LABEL * ratio) / high));
  order.forEach((place, row) => {
    if (row % every) return;
    const one = page.ranks[place]!;
    pen.fillStyle = css(one.device === null ? theme.more : theme.muted);
    const label = plain(rankName(page, one), 14);
    pen.fillText(label, frame.left - 6 * ratio, frame.top + (row + 0.5) * high);
  });
}

function paintAxis(surface: Surface, { curves, page }: World, frame: Frame): void {
  const { pen, ratio, theme } = surface;
  const { moments } = curves;
  const wide = frame.width / moments;
  const every = Math.max(1, Math.ceil((44 * ratio) / wide));
  pen.fillStyle = css(theme.muted);
  pen.textBaseline = 'top';
  const top = frame.top + frame.height + 5 * ratio;
  pen.textAlign = 'right';
  pen.fillText(page.curve_by === 'steps' ? 'step' : 'part', frame.left - 6 * ratio, top);
  pen.textAlign = 'center';
  for (let moment = 0; moment < moments; moment++) {
    const shown = moment === 0 || (moment + 1) % every === 0;
    if (!shown) continue;
    pen.fillText(count(moment + 1), frame.left + (moment + 0.5) * wide, top);
  }
}

function paintChosen(surface: Surface, { order }: Heat, { curves }: World, frame: Frame): void {
  const { pen, ratio, theme } = surface;
  const { rank, moment } = state.value;
  const row = rank === null ? -1 : order.indexOf(rank);
  pen.strokeStyle = css(theme.fg);
  pen.lineWidth = 1.5 * ratio;
  if (row >= 0) {
    const high = frame.height / order.length;
    const least = Math.max(high, 3 * ratio);
    pen.strokeRect(frame.left, frame.top + row * high, frame.width, least);
  }
  if (moment !== null && moment < curves.moments) {
    const wide = frame.width / curves.moments;
    const [x, y] = [frame.left + moment * wide, 4 * ratio];
    pen.strokeRect(x, y, Math.max(wide, 2 * ratio), frame.top + frame.height - y);
  }
}

/** Returns the rank and the moment at a point of the picture. If several ranks share a pixel, it's
 * the one that the colour shows. */
function cellAt(heat: Heat, moments: number, frame: Frame, x: number, y: number) {
  const { order, values, scale } = heat;
  const moment = Math.floor(((x - frame.left) * moments) / frame.width);
  const inside = y >= frame.top && y < frame.top + frame.height;
  if (moment < 0 || moment >= moments || !inside || !order.length) return null;
  const rows = Math.min(order.length, frame.height);
  const row = Math.floor(((y - frame.top) * rows) / frame.height);
  const from = Math.ceil((row * order.length) / rows);
  const to = Math.max(from + 1, Math.ceil(((row + 1) * order.length) / rows));
  const far = (place: number) => Math.abs(values[place * moments + moment]! - scale.middle) || -1;
  const there = order.slice(from, to);
  return { rank: there.reduce((a, b) => (far(b) > far(a) ? b : a)), moment };
}

export function HeatMap() {
  const { page, curves } = useWorld();
  return curves.moments ? <Drawn /> : <p class="hint">No {page.noun} has anything over time.</p>;
}

function Drawn() {
  const world = useWorld();
  const { page, curves, lying } = world;
  const { order, colour } = state.value;
  const heat = useMemo(() => heatOf(world), [world, order, colour]);
  const pointed = useSignal<Pointed | null>(null);
  const draw = (surface: Surface) => {
    const frame = frameOf(surface.width, surface.height, surface.ratio);
    paintPlot(surface, world, frame);
    paintMap(surface, heat, world, frame);
    paintAxis(surface, world, frame);
    paintChosen(surface, heat, world, frame);
  };
  const drawn = useCanvas(draw);
  const at = (event: MouseEvent) => {
    const canvas = drawn.canvas.current!;
    const box = canvas.getBoundingClientRect();
    const ratio = canvas.width / Math.max(box.width, 1);
    const frame = frameOf(canvas.width, canvas.height, ratio);
    const [x, y] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    return cellAt(heat, curves.moments, frame, x, y);
  };
  const point = (event: MouseEvent) => {
    const cell = at(event);
    pointed.value = cell && {
      tip: tipOf(world, cell.rank, cell.moment),
      x: event.clientX,
      y: event.clientY,
    };
  };
  const { rank, moment } = state.value;
  const high = Math.min(Math.max(page.ranks.length * ROW, LEAST), MOST) + PLOT + GAP + AXIS;
  return (
    <div class="mr-frame heat" ref={drawn.frame} style={{ height: `${high}px` }}>
      <canvas
        class="mr-canvas"
        data-what="heat"
        ref={drawn.canvas}
        tabIndex={0}
        role="img"
        aria-label={`${page.measure} bytes of ${counted(page.ranks.length, page.noun)} over ${curves.moments} ${page.curve_by === 'steps' ? 'steps' : 'parts of their events'}; arrow keys choose, the table below has the ${page.noun}s`}
        onPointerMove={point}
        onPointerLeave={() => {
          pointed.value = null;
        }}
        onClick={(event) => {
          const cell = at(event);
          if (cell) change({ rank: cell.rank, moment: cell.moment });
        }}
        onDblClick={() => openPage(world)}
      />
      <p class="mr-unseen" aria-live="polite">
        {rank !== null && page.ranks[rank] ? rankName(page, page.ranks[rank]!) : ''}
        {rank !== null && moment !== null
          ? `, ${momentName(page, moment, curves.moments)}: ${sizeAt(world, rank, moment)}`
          : ''}
        {moment !== null && lying[moment] ? `, the median is ${size(lying[moment]!.median)}` : ''}
      </p>
      <Tooltip pointed={pointed} />
    </div>
  );
}

function sizeAt({ curves }: World, rank: number, moment: number): string {
  const bytes = bytesAt(curves, rank, moment);
  return Number.isNaN(bytes) ? 'nothing' : size(bytes);
}

function tipOf(world: World, rank: number, moment: number) {
  const { page, curves, lying } = world;
  const one = page.ranks[rank]!;
  const bytes = bytesAt(curves, rank, moment);
  const { median, min, max } = lying[moment]!;
  const trouble = troubleWords(one);
  const over = overWords(bytes, median);
  const own = Number.isNaN(bytes)
    ? []
    : ([
        [momentName(page, moment, curves.moments), `${size(bytes)} (${count(bytes)} bytes)`],
        ['vs. median', over],
      ] as const);
  return {
    title: rankName(page, one),
    detail: one.file,
    rows: [
      ...own,
      [`all ${page.noun}s`, `${size(min)} to ${size(max)}, median ${size(median)}`] as const,
    ].filter(([, words]) => words),
    ...(trouble ? { note: trouble } : {}),
  };
}

/** What the colours mean. */
export function HeatLegend() {
  const world = useWorld();
  const { order, colour } = state.value;
  const { scale } = useMemo(() => heatOf(world), [world, order, colour]);
  const words = (value: number) =>
    colour === 'bytes' ? size(value) : `${value < 0 ? '-' : '+'}${percent(Math.abs(value))}`;
  const stops =
    colour === 'bytes'
      ? rising().map((one) => css(one))
      : ['var(--less)', 'var(--bg)', 'var(--more)'];
  return (
    <span class="scale">
      <span class="number">{words(scale.low)}</span>
      <i style={{ background: `linear-gradient(to right, ${stops.join(', ')})` }} />
      <span class="number">{words(scale.high)}</span>
      {colour === 'median' && (
        <span class="dim">vs. the median of all {world.page.noun}s then</span>
      )}
    </span>
  );
}
