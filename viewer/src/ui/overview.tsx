// The whole recording as curves, every measure's least and highest in each column of pixels; a brush
// says what part the rest of the page shows.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { MEASURES, type Measure } from '../core/page.js';
import type { Curve } from '../protocol.js';
import { useAnswer } from './answers.js';
import { byteTicks } from './axes.js';
import { type Ground, useGround } from './ground.js';
import { lookAt } from './moving.js';
import { LEFT, usePlotSize } from './sizes.js';
import { dark } from './theme.js';
import { size } from './units.js';

const COLOURS: Readonly<Record<Measure, string>> = {
  requested: '#4477aa',
  held: '#66ccee',
  active: '#228833',
  allocated: '#ccbb44',
  reserved: '#ee6677',
};
/** The curves that are drawn besides the measure that is shown. */
export const drawn = signal<ReadonlySet<Measure>>(new Set(['reserved']));

/** Each column as two points, its least and its highest: a line through them is the whole envelope. */
function zigzag({ low, high }: Curve): (number | null)[] {
  const found: (number | null)[] = [];
  for (let i = 0; i < low.length; i++) {
    const [a, b] = [low[i]!, high[i]!];
    found.push(Number.isNaN(a) ? null : a, Number.isNaN(b) ? null : b);
  }
  return found;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

interface Marks {
  readonly peak: number;
  readonly at: number;
  readonly other: number | null;
  readonly ooms: readonly number[];
}

export function Overview() {
  const ground = useGround();
  const { engine, place, axis, whole, state, device, known, at, other, change } = ground;
  const box = useRef<HTMLDivElement>(null);
  const { width, height } = usePlotSize(box);
  const columns = Math.max(Math.round(width - LEFT), 1);
  const measures = MEASURES.filter((one) => one === state.measure || drawn.value.has(one));
  const curves = useAnswer(JSON.stringify([place, axis, columns, measures]), async () => ({
    measures,
    columns,
    whole,
    curves: await Promise.all(
      measures.map((measure) => engine.curve({ place, measure, axis, span: whole, columns })),
    ),
  }));
  const marks = useAnswer(JSON.stringify([place, axis, state.measure, at, other]), async () => ({
    peak: await engine.xOf(place, axis, known.peaks[state.measure].moment),
    at: await engine.xOf(place, axis, at),
    other: other === null ? null : await engine.xOf(place, axis, other),
    ooms: await Promise.all(
      device.marks
        .filter(({ kind }) => kind === 'oom')
        .slice(0, 200)
        .map(({ moment }) => engine.xOf(place, axis, moment)),
    ),
  }));
  const shown = useRef({ ground, marks: marks.value });
  shown.current = { ground, marks: marks.value };
  const plot = useRef<uPlot | null>(null);
  // The click that ends a drag is none.
  const brushed = useRef(0);

  useEffect(() => {
    const data = curves.value;
    if (!data || !box.current || width < LEFT + 10) return;
    const step = (data.whole.to - data.whole.from) / data.columns;
    const x = Array.from(
      { length: 2 * data.columns },
      (_, i) => data.whole.from + step * (Math.floor(i / 2) + (i % 2 ? 0.75 : 0.25)),
    );
    const options: uPlot.Options = {
      width,
      height,
      padding: [4, 0, 2, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { setScale: false, x: true, y: false } },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, range: () => [data.whole.from, data.whole.to] },
        y: { range: (_, __, max) => [0, Math.max(max, 1) * 1.08] },
      },
      axes: [
        { show: false },
        {
          size: LEFT,
          stroke: css('--muted'),
          font: css('--small-font') || '11px sans-serif',
          grid: { stroke: css('--line'), width: 1 },
          ticks: { show: false },
          splits: (_, __, low, high) => byteTicks(low, high, 3).map((one) => one.at),
          values: (_, splits) => splits.map((one) => (one === 0 ? '0' : size(one))),
        },
      ],
      series: [
        {},
        ...data.measures.map((measure) => ({
          label: measure,
          stroke: COLOURS[measure],
          width: measure === shown.current.ground.state.measure ? 1.4 : 1,
          ...(measure === shown.current.ground.state.measure
            ? { fill: `${COLOURS[measure]}33` }
            : {}),
          points: { show: false },
        })),
      ],
      hooks: {
        draw: [(u) => over(u, shown.current.ground, shown.current.marks)],
        setSelect: [
          (u) => {
            if (u.select.width < 3) return;
            const from = u.posToVal(u.select.left, 'x');
            const to = u.posToVal(u.select.left + u.select.width, 'x');
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            brushed.current = performance.now();
            lookAt(shown.current.ground, { from, to });
          },
        ],
      },
    };
    plot.current = new uPlot(
      options,
      [x, ...data.curves.map(zigzag)] as uPlot.AlignedData,
      box.current,
    );
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [curves.value, width, height, dark.value]);
  useEffect(() => plot.current?.redraw(false));

  const pick = useRef((_: MouseEvent) => {});
  pick.current = (event) => {
    const { left } = box.current!.getBoundingClientRect();
    const px = event.clientX - left - LEFT;
    if (px < 0 || event.detail !== 1 || performance.now() - brushed.current < 300) return;
    const x = whole.from + (px / (width - LEFT)) * (whole.to - whole.from);
    void engine.momentAt(place, axis, x).then((moment) => change({ at: moment }));
  };
  // What the mouse does here the keys do on the picture below.
  useEffect(() => {
    const one = box.current!;
    one.addEventListener('click', (event) => pick.current(event));
    one.addEventListener('dblclick', () => change({ from: null, to: null }));
  }, []);
  return (
    <section class="overview" aria-label="The whole recording">
      <div
        class="plot"
        ref={box}
        title="Drag to choose what is shown below; double-click for all of it"
      />
    </section>
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
              title={`Bytes ${measure}: ${on ? 'drawn' : 'not drawn'}`}
              onClick={() => {
                const next = new Set(drawn.value);
                if (!next.delete(measure)) next.add(measure);
                drawn.value = next;
              }}
            >
              <i class="swatch" style={{ background: COLOURS[measure] }} />
              {measure}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

/** Over the curves: what is not seen below is veiled; the peak, cursors and failures are marked. */
function over(u: uPlot, ground: Ground, marks: Marks | null): void {
  const { ctx, bbox } = u;
  const { span, whole } = ground;
  const dpr = globalThis.devicePixelRatio || 1;
  const px = (x: number) => bbox.left + ((x - whole.from) / (whole.to - whole.from)) * bbox.width;
  ctx.save();
  if (span.from > whole.from || span.to < whole.to) {
    ctx.fillStyle = css('--veil');
    const [left, right] = [px(span.from), px(span.to)];
    ctx.fillRect(bbox.left, bbox.top, left - bbox.left, bbox.height);
    ctx.fillRect(right, bbox.top, bbox.left + bbox.width - right, bbox.height);
    ctx.strokeStyle = css('--accent');
    ctx.lineWidth = dpr;
    ctx.strokeRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
  }
  if (marks) {
    const line = (x: number, colour: string, dash: number[]) => {
      ctx.strokeStyle = colour;
      ctx.lineWidth = dpr;
      ctx.setLineDash(dash.map((one) => one * dpr));
      ctx.beginPath();
      ctx.moveTo(px(x), bbox.top);
      ctx.lineTo(px(x), bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
    };
    const triangle = (x: number, colour: string) => {
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.moveTo(px(x) - 5 * dpr, bbox.top - 3 * dpr);
      ctx.lineTo(px(x) + 5 * dpr, bbox.top - 3 * dpr);
      ctx.lineTo(px(x), bbox.top + 5 * dpr);
      ctx.fill();
    };
    for (const x of marks.ooms) {
      line(x, css('--more'), []);
      triangle(x, css('--more'));
    }
    triangle(marks.peak, css('--fg'));
    line(marks.at, css('--fg'), []);
    if (marks.other !== null) line(marks.other, css('--fg'), [3, 3]);
  }
  ctx.restore();
}
