// The stacked picture on the page. The worker paints it; until that is done, the previous picture is moved.

import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { MEASURES } from '../core/page.js';
import type { Filter, Picture as Painted, PictureQuery, Span } from '../protocol.js';
import { counted, useAnswer } from './answers.js';
import { byteTicks, eventTicks, type Tick, timeTicks } from './axes.js';
import { commonHeight, sayHeight } from './comparing.js';
import { AllocationLines, StackLines } from './details.js';
import { dragged, zoomed } from './gestures.js';
import { filterOf, type Ground, useGround } from './ground.js';
import { useColours, useShades } from './legend.js';
import { lookAt, momentName } from './moving.js';
import { SegmentLines, segmentColours, showsSegments } from './segments.js';
import { LEFT, usePlotSize } from './sizes.js';
import { size } from './units.js';

const HEADROOM = 1.04;
/** The line of reserved bytes is in the picture if it's at most this many times the stack's
 * height. */
const ROOM = 1.3;
const BOTTOM = 20;
/** How long the view must stay unchanged before all pixels are painted. */
const REST_MS = 90;
/** If painting takes longer than a frame, fewer columns are painted during motion. */
const FRAME_MS = 30;
const COARSE = 4;
/** Heights in a tooltip: of everything but the stack, and of a line of the stack. */
const TIP_NUMBERS = 150;
const TIP_LINE = 17;
const LEAST_LINES = 5;

/** Whether a drag selects a range instead of moving the picture. */
export const ranging = signal(false);

/** Information for scripts about the displayed picture. */
export interface Shown {
  readonly ids: Int32Array;
  readonly pixels: Uint8ClampedArray;
  readonly moments: Int32Array;
  readonly width: number;
  readonly height: number;
  readonly query: PictureQuery;
}
export const shown: { now: Shown | null } = { now: null };

/** Requests one picture at a time: always the latest one needed, and a coarse one during motion. */
class Painter {
  private wanted: PictureQuery | null = null;
  private busy = false;
  private last = 0;
  private rest: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ask: (query: PictureQuery) => Promise<Painted>,
    private readonly show: (query: PictureQuery, painted: Painted) => void,
    private readonly fail: (text: string) => void,
  ) {}

  want(query: PictureQuery, moving: boolean): void {
    clearTimeout(this.rest);
    if (moving && this.last > FRAME_MS) {
      this.wanted = { ...query, width: Math.max(1, Math.ceil(query.width / COARSE)) };
      const settled = new Promise<void>((done) => {
        this.rest = setTimeout(() => {
          this.wanted = query;
          void this.run().then(done);
        }, REST_MS);
      });
      void counted(
        Promise.race([settled, new Promise<void>((done) => setTimeout(done, 4 * REST_MS))]),
      );
    } else this.wanted = query;
    void counted(this.run());
  }

  private async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.wanted) {
        const query = this.wanted;
        this.wanted = null;
        const began = performance.now();
        const painted = await this.ask(query);
        if (query.width > 0) this.last = performance.now() - began;
        this.show(query, painted);
      }
    } catch (error) {
      this.fail(error instanceof Error ? error.message : String(error));
    } finally {
      this.busy = false;
    }
  }
}

function ticksOf(ground: Ground, width: number): Tick[] {
  const { axis, span, device } = ground;
  const most = Math.max(2, Math.floor(width / 110));
  return axis === 'event'
    ? eventTicks(span.from - 1, span.to - 1, device.first_event, most).map((one) => ({
        ...one,
        at: one.at + 1,
      }))
    : timeTicks(span.from, span.to, most);
}

export function Picture() {
  const ground = useGround();
  const { engine, place, state, axis, span, whole, at, other, change } = ground;
  const stage = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const bitmap = useRef<{ image: HTMLCanvasElement; query: PictureQuery; painted: Painted } | null>(
    null,
  );
  const hover = useSignal<{ id: number; x: number; y: number; moment: number } | null>(null);
  const failed = useSignal<string | null>(null);
  const moving = useRef(0);
  const bounds = useSignal<{ from: number; to: number } | null>(null);
  const shades = useShades();
  const colours = useColours(ground);
  const segments = showsSegments(ground);
  const drawn = segments ? 'reserved' : ground.counted;
  const { width, height, dpr } = usePlotSize(stage);
  const plot = { width: Math.max(width - LEFT, 1), height: Math.max(height - BOTTOM, 1) };

  const curves = useAnswer(
    JSON.stringify([place, state.measure, drawn, axis, span, Math.round(plot.width)]),
    async () => {
      const query = { place, axis, span, columns: Math.round(plot.width) };
      const [stack, reserved] = await Promise.all([
        engine.curve({ ...query, measure: drawn }),
        engine.curve({ ...query, measure: 'reserved' }),
      ]);
      return { stack, reserved, span };
    },
  );
  const highest = useMemo(() => {
    const most = (values: Float64Array) => values.reduce((a, b) => (b > a ? b : a), 0);
    if (!curves.value) return 1;
    const shown = most(curves.value.stack.high);
    const reserved = most(curves.value.reserved.high);
    // The line of reserved bytes is visible, unless the stack would become too low.
    return Math.max(
      shown,
      Math.min(reserved, state.measure === 'reserved' ? reserved : shown * ROOM),
      1,
    );
  }, [curves.value, state.measure]);
  // Compared pictures share the higher of their two maxima.
  const compared = ground.page.kind === 'compare';
  useEffect(() => {
    if (compared && curves.value) sayHeight(place.snapshot, highest);
  }, [highest, curves.value]);
  const high = commonHeight(highest, compared) * HEADROOM;

  const outline = useMemo(() => document.createElement('canvas'), []);
  const draw = useRef(() => {});
  draw.current = () => {
    const context = canvas.current?.getContext('2d');
    if (!context || !canvas.current) return;
    const w = Math.max(1, Math.round(plot.width * dpr));
    const h = Math.max(1, Math.round(plot.height * dpr));
    if (canvas.current.width !== w) canvas.current.width = w;
    if (canvas.current.height !== h) canvas.current.height = h;
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, w, h);
    const one = bitmap.current;
    if (!one) return;
    // If the view has changed since this picture was painted, move and stretch the picture until
    // the next one arrives.
    const { query } = one;
    const scale = (query.span.to - query.span.from) / (span.to - span.from);
    const left = ((query.span.from - span.from) / (span.to - span.from)) * w;
    const tall = (query.high / high) * h;
    context.drawImage(one.image, left, h - tall, scale * w, tall);
    if (state.pin !== null && query.measure !== 'reserved') {
      outlineOf(one.painted.ids, query.width, query.height, state.pin, shades.ink, outline);
      context.drawImage(outline, left, h - tall, scale * w, tall);
    }
  };

  const painter = useMemo(
    () =>
      new Painter(
        (query) => engine.picture(query),
        (query, painted) => {
          const image = document.createElement('canvas');
          image.width = query.width;
          image.height = query.height;
          const pixels = new ImageData(query.width, query.height);
          pixels.data.set(painted.pixels);
          image.getContext('2d')?.putImageData(pixels, 0, 0);
          bitmap.current = { image, query, painted };
          shown.now = {
            ids: painted.ids,
            pixels: painted.pixels,
            moments: painted.moments,
            width: query.width,
            height: query.height,
            query,
          };
          failed.value = null;
          draw.current();
        },
        (text) => {
          failed.value = text;
        },
      ),
    [engine],
  );

  const highlight = useHighlight(ground);
  const query: PictureQuery = {
    place,
    measure: drawn,
    axis,
    span,
    low: 0,
    high,
    width: Math.max(1, Math.round(plot.width * dpr)),
    height: Math.max(1, Math.round(plot.height * dpr)),
    colour: segments
      ? segmentColours(ground, shades)
      : {
          way: colours.way,
          colours: colours.own.map(({ group, colour }) => [group, colour] as const),
          others: shades.others,
          background: shades.background,
        },
    highlight,
  };
  const key = JSON.stringify(query);
  useEffect(() => {
    if (width && curves.value) painter.want(query, performance.now() - moving.current < REST_MS);
  }, [key, width > 0, curves.value !== null]);
  useEffect(() => draw.current());

  const idAt = (x: number, y: number): { id: number; moment: number } | null => {
    const one = bitmap.current;
    if (!one) return null;
    const { query, painted } = one;
    const along = span.from + (x / plot.width) * (span.to - span.from);
    const column = Math.floor(
      ((along - query.span.from) / (query.span.to - query.span.from)) * query.width,
    );
    const row = Math.floor(
      ((query.high - (1 - y / plot.height) * high) / query.high) * query.height,
    );
    if (column < 0 || column >= query.width || row < 0 || row >= query.height) return null;
    return { id: painted.ids[row * query.width + column]!, moment: painted.moments[column]! };
  };

  const look = (next: Span) => {
    moving.current = performance.now();
    lookAt(ground, next);
  };

  // Up and down move between the allocations visible at the cursor; Enter selects the top one.
  const alongStack = (event: KeyboardEvent) => {
    const step = { ArrowUp: 1, ArrowDown: -1, Enter: 0 }[event.key];
    const one = bitmap.current;
    if (step === undefined || !one || segments || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    event.stopPropagation();
    void engine.xOf(place, axis, at).then((x) => {
      const { ids } = one.painted;
      const { span: seen, width: columns } = one.query;
      const half = axis === 'event' ? 0.5 : 0;
      const column = Math.floor(((x + half - seen.from) / (seen.to - seen.from)) * columns);
      if (column < 0 || column >= columns) return;
      const found: number[] = [];
      for (let i = ids.length - columns + column; i >= 0; i -= columns) {
        if (ids[i]! >= 0 && ids[i] !== found[found.length - 1]) found.push(ids[i]!);
      }
      const now = state.pin === null ? -1 : found.indexOf(state.pin);
      const next = now < 0 || step === 0 ? found.length - 1 : now + step;
      const pin = found[Math.min(Math.max(next, 0), found.length - 1)];
      if (pin !== undefined) change({ pin, group: null });
    });
  };

  const gestures = {
    ...dragged({
      start: () => ({ ...span }),
      move: (start, dx) => {
        const by = (-dx / plot.width) * (start.to - start.from);
        look({ from: start.from + by, to: start.to + by });
      },
      pinch: (start, factor, px) => {
        const part = Math.min(Math.max((px - LEFT) / plot.width, 0), 1);
        const fixed = start.from + part * (start.to - start.from);
        look({
          from: fixed - (fixed - start.from) / factor,
          to: fixed + (start.to - fixed) / factor,
        });
      },
      ranging: ranging.value,
      range: (from, to, done) => {
        bounds.value = done ? null : { from, to };
        if (!done) return;
        ranging.value = false;
        const x = (px: number) => span.from + ((px - LEFT) / plot.width) * (span.to - span.from);
        const both = Promise.all([from, to].map((px) => engine.momentAt(place, axis, x(px))));
        void counted(
          both.then(([at, other]) => change({ at: at!, other: other!, tab: 'between' })),
        );
      },
      click: (x, y) => {
        const found = idAt(x - LEFT, y);
        if (found) {
          change({ at: found.moment, pin: found.id >= 0 && !segments ? found.id : null });
        }
      },
      hover: (x, y) => {
        const found = x === null || y === null ? null : idAt(x - LEFT, y);
        hover.value = found && x !== null && y !== null ? { ...found, x, y } : null;
      },
    }),
    onWheel: (event: WheelEvent) => {
      event.preventDefault();
      const box = stage.current!.getBoundingClientRect();
      const part = Math.min(Math.max((event.clientX - box.left - LEFT) / plot.width, 0), 1);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const by = (event.deltaX / plot.width) * (span.to - span.from);
        look({ from: span.from + by, to: span.to + by });
      } else look(zoomed(span, part, event.deltaY));
    },
    onDblClick: () => look(whole),
  };
  // Browsers treat wheel listeners as passive by default.
  const wheel = useRef(gestures.onWheel);
  wheel.current = gestures.onWheel;
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    stage.current?.addEventListener('wheel', listen, { passive: false });
    return () => stage.current?.removeEventListener('wheel', listen);
  }, []);

  return (
    <div
      class="picture"
      ref={stage}
      role="slider"
      aria-label="The cursor, over the live allocations stacked in order of allocation"
      aria-valuemin={0}
      aria-valuemax={ground.device.events}
      aria-valuenow={at}
      aria-valuetext={momentName(ground, at)}
      tabIndex={0}
      onPointerDown={gestures.onPointerDown}
      onPointerMove={gestures.onPointerMove}
      onPointerUp={gestures.onPointerUp}
      onPointerCancel={gestures.onPointerCancel}
      onKeyDown={alongStack}
      onPointerLeave={gestures.onPointerLeave}
      onDblClick={gestures.onDblClick}
    >
      <canvas
        ref={canvas}
        class="stack"
        data-what="picture"
        style={{ left: `${LEFT}px`, width: `${plot.width}px`, height: `${plot.height}px` }}
      />
      <Over
        ground={ground}
        plot={plot}
        high={high}
        reserved={
          curves.value && curves.value.span === span
            ? curves.value.reserved.high
            : (curves.value?.reserved.high ?? null)
        }
        ticks={ticksOf(ground, plot.width)}
      />
      {hover.value && <Hover ground={ground} plot={plot} {...hover.value} />}
      {bounds.value && (
        <div
          class="bounds"
          style={{
            left: `${bounds.value.from}px`,
            width: `${bounds.value.to - bounds.value.from}px`,
            height: `${plot.height}px`,
          }}
        />
      )}
      {(failed.value ?? curves.error) && <p class="failed">{failed.value ?? curves.error}</p>}
      <span hidden data-what="cursors" data-at={at} data-other={other ?? ''} />
    </div>
  );
}

/** Draws an allocation's outline: its pixels that touch another allocation's pixels. */
function outlineOf(
  ids: Int32Array,
  width: number,
  height: number,
  pin: number,
  ink: number,
  into: HTMLCanvasElement,
): void {
  into.width = width;
  into.height = height;
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (ids[i] !== pin) continue;
      const inner =
        x > 0 &&
        x < width - 1 &&
        y > 0 &&
        y < height - 1 &&
        ids[i - 1] === pin &&
        ids[i + 1] === pin &&
        ids[i - width] === pin &&
        ids[i + width] === pin;
      if (!inner) pixels[i] = ink;
    }
  }
  into.getContext('2d')?.putImageData(image, 0, 0);
}

/** The highlighted allocations: those searched for or selected, otherwise those with the same
 * stack as the pinned allocation. */
function useHighlight(ground: Ground): Filter | null {
  const { engine, place, state } = ground;
  const pinned = useAnswer(JSON.stringify([place, state.pin]), async () =>
    state.pin === null ? null : engine.allocation(place, state.pin),
  );
  const filter = filterOf(ground);
  if (filter) return filter;
  const stack = state.pin === null ? undefined : pinned.value?.groups.stack;
  return stack === undefined ? null : { way: 'stack', group: stack };
}

function Hover(props: {
  ground: Ground;
  plot: { width: number; height: number };
  id: number;
  x: number;
  y: number;
  moment: number;
}) {
  const { ground, id, x, y, moment, plot } = props;
  const { engine, place } = ground;
  const segments = showsSegments(ground);
  const answer = useAnswer(JSON.stringify([place, id, segments]), async () => {
    if (id < 0 || segments) return null;
    const allocation = await engine.allocation(place, id);
    return { allocation, stack: await engine.stack(place.snapshot, allocation.stack) };
  });
  const below = y <= plot.height * 0.5;
  const top = document.querySelector('.picture')?.getBoundingClientRect().top ?? 0;
  const room = below ? innerHeight - top - y : top + y;
  const right = x > plot.width * 0.6;
  return (
    <>
      <div class="crosshair" style={{ left: `${x}px`, height: `${plot.height}px` }} />
      <div
        class="tooltip"
        style={{
          ...(right ? { right: `${plot.width + LEFT - x + 14}px` } : { left: `${x + 14}px` }),
          ...(below ? { top: `${y}px` } : { bottom: `${plot.height - y + BOTTOM}px` }),
        }}
      >
        {answer.value && !answer.stale ? (
          <AllocationLines ground={ground} allocation={answer.value.allocation} brief>
            <StackLines ground={ground} stack={answer.value.stack} most={linesOf(room)} />
          </AllocationLines>
        ) : segments && id >= 0 ? (
          <SegmentLines ground={ground} id={id} moment={moment} />
        ) : (
          <Usage ground={ground} moment={moment} />
        )}
      </div>
    </>
  );
}

/** How many lines of a stack fit into a tooltip of this height. */
function linesOf(pixels: number): number {
  return Math.max(Math.floor((pixels - TIP_NUMBERS) / TIP_LINE), LEAST_LINES);
}

function Usage({ ground, moment }: { ground: Ground; moment: number }) {
  const { engine, place } = ground;
  const answer = useAnswer(JSON.stringify([place, moment]), () =>
    Promise.all(MEASURES.map((measure) => engine.bytesAt(place, measure, moment))),
  );
  if (!answer.value) return null;
  return (
    <dl class="pairs">
      {answer.value.map((bytes, i) => (
        <>
          <dt>{MEASURES[i]}</dt>
          <dd>{size(bytes)}</dd>
        </>
      ))}
    </dl>
  );
}

/** Axes, the line of reserved bytes, and the cursors. */
function Over(props: {
  ground: Ground;
  plot: { width: number; height: number };
  high: number;
  reserved: Float64Array | null;
  ticks: readonly Tick[];
}) {
  const { ground, plot, high, reserved, ticks } = props;
  const { span, place, axis, at, other, engine } = ground;
  const places = useAnswer(JSON.stringify([place, axis, at, other]), async () => ({
    at: await engine.xOf(place, axis, at),
    other: other === null ? null : await engine.xOf(place, axis, other),
  }));
  // On the event axis a moment has a width; lines are in its middle.
  const half = axis === 'event' ? 0.5 : 0;
  const px = (x: number) => LEFT + ((x - span.from) / (span.to - span.from)) * plot.width;
  const py = (bytes: number) => plot.height * (1 - bytes / high);
  const line =
    reserved &&
    Array.from(reserved, (bytes, i) =>
      Number.isNaN(bytes)
        ? ''
        : `${LEFT + (i * plot.width) / reserved.length},${Math.max(py(bytes), -2).toFixed(1)}`,
    ).join(' ');
  const cursor = places.value && px(places.value.at + half);
  const second = places.value?.other != null ? px(places.value.other + half) : null;
  const inside = (x: number | null) => x !== null && x >= LEFT - 1 && x <= LEFT + plot.width + 1;
  return (
    <svg class="over" width={LEFT + plot.width} height={plot.height + BOTTOM} aria-hidden="true">
      {byteTicks(0, high, plot.height / 44)
        .filter(({ at: bytes }) => py(bytes) > 6)
        .map(({ at: bytes, label }) => (
          <g key={bytes}>
            <line class="grid" x1={LEFT} x2={LEFT + plot.width} y1={py(bytes)} y2={py(bytes)} />
            <text class="tick" x={LEFT - 6} y={py(bytes)} dy="0.32em" text-anchor="end">
              {label}
            </text>
          </g>
        ))}
      {ticks.map(({ at: x, label }) => (
        <text
          key={x}
          class="tick"
          x={px(x + half)}
          y={plot.height + 14}
          text-anchor={
            px(x) < LEFT + 24 ? 'start' : px(x) > LEFT + plot.width - 30 ? 'end' : 'middle'
          }
        >
          {label}
        </text>
      ))}
      {line && <polyline class="reserved" points={line} />}
      {cursor !== null && second !== null && (
        <rect
          class="range"
          x={Math.max(Math.min(cursor, second), LEFT)}
          y={0}
          width={Math.max(
            Math.min(Math.max(cursor, second), LEFT + plot.width) -
              Math.max(Math.min(cursor, second), LEFT),
            0,
          )}
          height={plot.height}
        />
      )}
      {inside(cursor) && (
        <g class="cursor">
          <line x1={cursor!} x2={cursor!} y1={0} y2={plot.height} />
          <path d={`M${cursor! - 5},0 h10 l-5,6 z`} />
        </g>
      )}
      {inside(second) && (
        <g class="cursor other">
          <line x1={second!} x2={second!} y1={0} y2={plot.height} />
          <path d={`M${second! - 5},0 h10 l-5,6 z`} />
        </g>
      )}
    </svg>
  );
}
