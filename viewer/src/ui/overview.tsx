// The whole recording as curves, with a brush that selects the part shown by the rest of the page.

import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { MEASURES, type Measure } from '../core/page.js';
import type { Span } from '../protocol.js';
import { counted, useAnswer } from './answers.js';
import { byteTicks } from './axes.js';
import { fontOf, type Surface, useCanvas } from './canvas/canvas.js';
import { css, type Rgb } from './canvas/colour.js';
import { type CurvePlot, paintCurve } from './canvas/curves.js';
import { cardWithin } from './card.js';
import { type Ground, useGround } from './ground.js';
import { MEANINGS } from './meanings.js';
import { MomentLines } from './moment.js';
import { keepInside, lookAt, middle, useClicks } from './moving.js';
import { BANDS, bandsOf } from './outside.js';
import { moving } from './painting.js';
import { LEFT, usePlotSize } from './sizes.js';

const COLOURS: Readonly<Record<Measure, Rgb>> = {
  requested: [68, 119, 170],
  held: [102, 204, 238],
  active: [34, 136, 51],
  allocated: [204, 187, 68],
  reserved: [238, 102, 119],
};
/** The curves drawn in addition to the selected measure. */
export const drawn = signal<ReadonlySet<Measure>>(new Set(['reserved']));

const HEADROOM = 1.08;
const [TOP, BOTTOM] = [8, 3];
const CLICK_PX = 4;
/** How near the pointer has to be to an edge of the visible part. */
const EDGE_PX = 5;
const MOST_MARKS = 200;
const MOST_PEAKS = 12;
/** Half the width of a triangle. */
const MARK_PX = 5;
/** Triangles this near to each other look like one. */
const SAME_PX = 2;

/** A triangle above the curves. */
interface Mark {
  readonly moment: number;
  readonly x: number;
}

/** Where things are along the axis. */
interface Marks {
  readonly peaks: readonly Mark[];
  readonly at: number;
  readonly other: number | null;
  readonly ooms: readonly Mark[];
}

/** What dragging does: select a part, move the visible part, or move one of its edges. Edges are
 * selections from the other edge on. */
interface Drag {
  readonly from: number;
  readonly moves: Span | null;
  moved: boolean;
  /** The part that is visible now. */
  seen?: Span;
}

export function Overview() {
  const ground = useGround();
  const { engine, place, axis, whole, state, device, at, other, change, span } = ground;
  const drag = useRef<Drag | null>(null);
  const pressed = useRef(0);
  const hover = useSignal<{ x: number; at: number; marked: number | null } | null>(null);
  const measures = MEASURES.filter((one) => one === state.measure || drawn.value.has(one));
  const placed = async ({ moment }: { readonly moment: number }) => ({
    moment,
    x: await engine.xOf(place, axis, moment),
  });
  const marks = useAnswer(JSON.stringify([place, axis, state.measure, at, other]), async () => ({
    peaks: await Promise.all(
      (await engine.peaks(place, state.measure, 0, device.events + 1, MOST_PEAKS)).map(placed),
    ),
    at: await engine.xOf(place, axis, at),
    other: other === null ? null : await engine.xOf(place, axis, other),
    ooms: await Promise.all(
      device.marks
        .filter(({ kind }) => kind === 'oom')
        .slice(0, MOST_MARKS)
        .map(placed),
    ),
  }));
  const { frame, canvas } = useCanvas((surface) => {
    paint(surface, ground, measures, curves.value?.curves ?? [], marks.value);
  });
  const { width } = usePlotSize(frame);
  const columns = Math.max(Math.round((width - LEFT) * (globalThis.devicePixelRatio || 1)), 1);
  const curves = useAnswer(JSON.stringify([place, axis, columns, measures]), async () => ({
    curves: await Promise.all(
      measures.map((measure) => engine.curve({ place, measure, axis, span: whole, columns })),
    ),
  }));

  const x = (event: MouseEvent) => {
    const part = (event.offsetX - LEFT) / Math.max(width - LEFT, 1);
    return whole.from + Math.min(Math.max(part, 0), 1) * (whole.to - whole.from);
  };
  const pixels = (length: number) => (length / (whole.to - whole.from)) * (width - LEFT);
  const all = span.from <= whole.from && span.to >= whole.to;
  /** The edge of the visible part opposite to the one at a position; null if none is there. */
  const opposite = (at: number) => {
    const near = ([edge]: readonly number[]) => !all && pixels(Math.abs(at - edge!)) <= EDGE_PX;
    const edges = [
      [span.to, span.from],
      [span.from, span.to],
    ];
    return edges.find(near)?.[1] ?? null;
  };
  /** The moment of the nearest triangle under the pointer, of the highest peak if they overlap. */
  const markedAt = (event: MouseEvent) => {
    if (!marks.value || event.offsetY > TOP) return null;
    const from = x(event) - middle(axis);
    const away = ({ x }: Mark) => pixels(Math.abs(x - from));
    const under = [...marks.value.ooms, ...marks.value.peaks].filter((one) => away(one) <= MARK_PX);
    const nearest = Math.min(...under.map(away));
    return under.find((one) => away(one) <= nearest + SAME_PX)?.moment ?? null;
  };
  const inside = (at: number) => !all && at >= span.from && at <= span.to;
  const look = (one: Drag, next: Span) => {
    moving();
    one.seen = lookAt(ground, next);
  };
  const clicks = useClicks(ground);
  const clicked = useRef(Promise.resolve());
  const handlers = {
    pointerdown(event: PointerEvent) {
      if (event.button !== 0) return;
      const from = x(event);
      const edge = opposite(from);
      const moves = edge === null && inside(from) ? span : null;
      drag.current = { from: edge ?? from, moves, moved: false };
      pressed.current = event.offsetX;
      canvas.current?.setPointerCapture(event.pointerId);
    },
    pointermove(event: PointerEvent) {
      const to = x(event);
      const one = drag.current;
      if (!one) {
        const edge = opposite(to) !== null;
        canvas.current!.style.cursor = edge ? 'ew-resize' : inside(to) ? 'grab' : '';
        hover.value =
          event.offsetX < LEFT ? null : { x: event.offsetX, at: to, marked: markedAt(event) };
        return;
      }
      hover.value = null;
      one.moved ||= Math.abs(event.offsetX - pressed.current) >= CLICK_PX;
      if (!one.moved) return;
      if (one.moves) {
        const by = to - one.from;
        look(one, { from: one.moves.from + by, to: one.moves.to + by });
      } else look(one, { from: Math.min(one.from, to), to: Math.max(one.from, to) });
    },
    pointerup(event: PointerEvent) {
      const one = drag.current;
      drag.current = null;
      if (one?.seen && !one.moves) keepInside(ground, one.seen);
      if (!one || one.moved) return;
      clicks.keep();
      const marked = markedAt(event);
      const found = marked ?? highestNear(ground, x(event), whole, columns);
      clicked.current = Promise.resolve(found).then((at) => change({ at }));
      void counted(clicked.current);
    },
    pointerleave() {
      hover.value = null;
    },
    dblclick() {
      void counted(clicked.current.then(clicks.twice));
    },
  };
  // Keys on the picture below do what the pointer does here; these are the canvas's listeners.
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const one = canvas.current!;
    const stop = new AbortController();
    for (const name of Object.keys(handlers) as (keyof typeof handlers)[]) {
      const listen = (event: Event) => latest.current[name](event as PointerEvent);
      one.addEventListener(name, listen, { signal: stop.signal });
    }
    return () => stop.abort();
  }, []);

  return (
    <section class="overview" aria-label="The whole recording">
      <div class="plot" ref={frame}>
        <canvas ref={canvas} />
      </div>
      {hover.value && (
        <Near
          ground={ground}
          {...hover.value}
          columns={columns}
          right={hover.value.x > width / 2}
        />
      )}
    </section>
  );
}

/** The moment with the most bytes in the pixel at a position on the axis: the one that is seen. */
async function highestNear(
  { engine, place, axis, state }: Ground,
  at: number,
  whole: Span,
  columns: number,
): Promise<number> {
  const step = (whole.to - whole.from) / columns;
  const from = whole.from + Math.floor((at - whole.from) / step) * step;
  const [first, last] = await Promise.all([
    engine.momentAt(place, axis, from),
    engine.momentAt(place, axis, from + step),
  ]);
  const [peak] = await engine.peaks(place, state.measure, first, Math.max(last, first + 1), 1);
  return peak?.moment ?? first;
}

/** What is under the pointer: at a triangle its moment, otherwise the highest in the pixel. */
function Near(props: {
  ground: Ground;
  x: number;
  at: number;
  marked: number | null;
  columns: number;
  right: boolean;
}) {
  const { ground, x, at, marked, columns, right } = props;
  const { place, axis, state, whole } = ground;
  const key = JSON.stringify([place, axis, state.measure, at, marked, columns]);
  const answer = useAnswer(key, async () => marked ?? highestNear(ground, at, whole, columns));
  if (answer.value === null) return null;
  return (
    <>
      <div class="crosshair" style={{ left: `${x}px`, height: '100%' }} />
      <div
        class="tooltip"
        style={right ? { right: `calc(100% - ${x - 14}px)` } : { left: `${x + 14}px` }}
      >
        <MomentLines ground={ground} moment={answer.value} />
      </div>
    </>
  );
}

/** Which curves are drawn. */
export function Curves() {
  const { state } = useGround();
  return (
    <ul class="curves" aria-label="Curves">
      {MEASURES.map((measure) => {
        const on = measure === state.measure || drawn.value.has(measure);
        return (
          <li key={measure}>
            <button
              type="button"
              aria-pressed={on}
              class={on ? '' : 'off'}
              title={`${MEANINGS[measure]} (${on ? 'drawn' : 'not drawn'})`}
              onClick={() => {
                const next = new Set(drawn.value);
                if (!next.delete(measure)) next.add(measure);
                drawn.value = next;
              }}
            >
              <i class="swatch" style={{ background: css(COLOURS[measure]) }} />
              {measure}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function paint(
  surface: Surface,
  ground: Ground,
  measures: readonly Measure[],
  curves: readonly Parameters<typeof paintCurve>[1]['curve'][],
  marks: Marks | null,
): void {
  const { whole, span, state, axis, device } = ground;
  const { outside } = device;
  const { pen, width, height, ratio, theme } = surface;
  const highest = curves.flatMap(({ high }) => high.reduce((a, b) => (b > a ? b : a), 0));
  const card = cardWithin(device.card, Math.max(...highest, 1));
  const plot: CurvePlot = {
    left: Math.round(LEFT * ratio),
    right: width,
    top: TOP * ratio,
    bottom: height - BOTTOM * ratio,
    high:
      Math.max(...highest, card, state.card === 'whole' && outside ? outside.total_bytes : 1) *
      HEADROOM,
  };
  const tall = plot.bottom - plot.top;
  const along = (at: number) =>
    plot.left + ((at - whole.from) / (whole.to - whole.from)) * (plot.right - plot.left);
  pen.font = fontOf(surface, 11);
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  for (const { at, label } of byteTicks(0, plot.high, tall / ratio / 26)) {
    const y = Math.round(plot.bottom - (at / plot.high) * tall);
    pen.fillStyle = css(theme.line);
    pen.fillRect(plot.left, y, plot.right - plot.left, ratio);
    pen.fillStyle = css(theme.muted);
    pen.fillText(label, plot.left - 6 * ratio, Math.min(y, height - 6 * ratio));
  }
  if (outside) {
    const up = (bytes: number) => Math.max(plot.bottom - (bytes / plot.high) * tall, plot.top);
    bandsOf(ground, outside, along, up).forEach((path, i) => {
      pen.fillStyle = BANDS[i]!;
      pen.fill(new Path2D(path));
    });
  }
  measures.forEach((measure, i) => {
    const curve = curves[i];
    const filled = measure === state.measure;
    if (curve) paintCurve(pen, { curve, colour: COLOURS[measure], filled }, plot, 1.3 * ratio);
  });
  if (card) {
    const y = Math.round(plot.bottom - (card / plot.high) * tall) + 0.5;
    pen.strokeStyle = css(theme.fg);
    pen.lineWidth = ratio;
    pen.setLineDash([6 * ratio, 4 * ratio]);
    pen.beginPath();
    pen.moveTo(plot.left, y);
    pen.lineTo(plot.right, y);
    pen.stroke();
    pen.setLineDash([]);
  }
  const veil = (from: number, to: number) => {
    pen.fillStyle = css(theme.bg);
    pen.globalAlpha = 0.6;
    pen.fillRect(along(from), plot.top, along(to) - along(from), tall);
    pen.globalAlpha = 1;
  };
  const framed = (from: number, to: number) => {
    pen.strokeStyle = css(theme.accent);
    pen.lineWidth = ratio;
    pen.strokeRect(along(from), plot.top, Math.max(along(to) - along(from), 2 * ratio), tall);
  };
  if (span.from > whole.from || span.to < whole.to) {
    veil(whole.from, span.from);
    veil(span.to, whole.to);
    framed(span.from, span.to);
  }
  if (!marks) return;
  const px = (at: number) => along(at + middle(axis));
  const line = (at: number, colour: Rgb, dash: readonly number[]) => {
    pen.strokeStyle = css(colour);
    pen.lineWidth = ratio;
    pen.setLineDash(dash.map((one) => one * ratio));
    pen.beginPath();
    pen.moveTo(px(at), plot.top);
    pen.lineTo(px(at), plot.bottom);
    pen.stroke();
    pen.setLineDash([]);
  };
  const triangle = (at: number, colour: Rgb, hollow = false) => {
    pen.fillStyle = css(colour);
    pen.strokeStyle = css(colour);
    pen.lineWidth = ratio;
    pen.beginPath();
    pen.moveTo(px(at) - MARK_PX * ratio, 0);
    pen.lineTo(px(at) + MARK_PX * ratio, 0);
    pen.lineTo(px(at), plot.top);
    pen.closePath();
    if (hollow) pen.stroke();
    else pen.fill();
  };
  // The highest peak is filled, the others are not.
  for (const { x } of marks.peaks.slice(1)) triangle(x, theme.fg, true);
  if (marks.peaks[0] !== undefined) triangle(marks.peaks[0].x, theme.fg);
  let last = Number.NEGATIVE_INFINITY;
  let together = 0;
  marks.ooms.forEach(({ x: at }, i) => {
    line(at, theme.more, []);
    triangle(at, theme.more);
    together = px(at) - last < 10 * ratio ? together + 1 : 1;
    if (together === 1) last = px(at);
    const next = marks.ooms[i + 1]?.x;
    if (together < 2 || (next !== undefined && px(next) - last < 10 * ratio)) return;
    pen.fillStyle = css(theme.more);
    pen.fillText(String(together), last - 7 * ratio, 5 * ratio);
  });
  line(marks.at, theme.fg, []);
  if (marks.other !== null) line(marks.other, theme.fg, [3, 3]);
}
