// The stacked picture on the page, with its axes, cursors and tooltip.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Filter, PictureQuery, Span } from '../protocol.js';
import { counted, useAnswer } from './answers.js';
import { byteAxis, eventTicks, label, type Tick, timeTicks } from './axes.js';
import { cardName } from './card.js';
import { AllocationLines, StackLines } from './details.js';
import { FailureMarks } from './failures.js';
import { type Box, dragged, factorOf, type Mode, mode, zoomed } from './gestures.js';
import { filterOf, type Ground, useGround } from './ground.js';
import { useColours, useShades } from './legend.js';
import { MomentLines } from './moment.js';
import { keepInside, lookAt, middle, momentName, useClicks } from './moving.js';
import { BANDS, bandsOf } from './outside.js';
import { moving, useSight } from './painting.js';
import { pointed } from './pointing.js';
import { fitHeights, type Scale, useScale, withoutCarried } from './scale.js';
import { SegmentLines, segmentColours, showsSegments } from './segments.js';
import { LEFT, usePlotSize } from './sizes.js';
import { type Heights, lookedAt, scrolled, zoomedBytes } from './vertical.js';

const BOTTOM = 20;
/** Pinching a touchpad is reported as a wheel with Ctrl that moves this much less. */
const PINCH = 8;
/** Heights in a tooltip: of everything but the stack, and of a line of the stack. */
const TIP_NUMBERS = 150;
const TIP_LINE = 17;
const LEAST_LINES = 5;

const NO_CARD = { card: null, outside: null };

function ticksOf(ground: Ground, width: number): Tick[] {
  const { axis, span, device } = ground;
  const most = Math.max(2, Math.floor(width / 110));
  const found =
    axis === 'event'
      ? eventTicks(span.from - 1, span.to - 1, device.first_event, most).map((one) => ({
          ...one,
          at: one.at + 1,
        }))
      : timeTicks(span.from, span.to, most);
  // The end of the axis is after the last event.
  return found.filter(({ at }) => at < span.to);
}

/** `22,528 MiB to 22,532 MiB`: precise enough to tell the two apart. */
function heightsText({ low, high }: Heights): string {
  const step = 2 ** Math.floor(Math.log2((high - low) / 8));
  const rounded = (bytes: number) => label(Math.round(bytes / step) * step, step);
  return `${rounded(low)} to ${rounded(high)}`;
}

export function Picture() {
  const ground = useGround();
  const { place, state, axis, span, at, other } = ground;
  const stage = useRef<HTMLDivElement>(null);
  const hover = useSignal<{ id: number; x: number; y: number; moment: number } | null>(null);
  const box = useSignal<Box | null>(null);
  const shades = useShades();
  const colours = useColours(ground);
  const segments = showsSegments(ground);
  const measured = usePlotSize(stage);
  const { dpr } = measured;
  const plot = {
    width: Math.max(measured.width - LEFT, 1),
    height: Math.max(measured.height - BOTTOM, 1),
    dpr,
  };
  const scale = useScale(ground, plot.width);
  const highlight = useHighlight(ground);
  const query: PictureQuery = {
    place,
    measure: segments ? 'reserved' : ground.counted,
    axis,
    span,
    low: scale.low,
    high: scale.high,
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
    ...(withoutCarried(ground) ? { recorded: true } : {}),
  };
  const marked = pointed.value;
  const outlined: [number, number][] = state.pin === null ? [] : [[state.pin, shades.ink]];
  if (marked?.from === 'legend' && marked.id !== undefined && marked.snapshot === place.snapshot) {
    outlined.push([marked.id, shades.ink]);
  }
  const ready = measured.width > 0 && scale.ready;
  const sight = useSight(ground, plot, ready ? query : null, scale, outlined);
  const handlers = useGestures(ground, { plot, scale, at: sight.at, stage }, (found, shape) => {
    hover.value = found;
    box.value = shape;
  });

  // Up and down move between the allocations visible at the cursor; Enter selects the top one.
  const alongStack = (event: KeyboardEvent) => {
    const step = { ArrowUp: 1, ArrowDown: -1, Enter: 0 }[event.key];
    if (step === undefined || segments || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    void ground.engine.xOf(place, axis, at).then((x) => {
      const found = sight.column(x + middle(axis));
      const now = state.pin === null ? -1 : found.indexOf(state.pin);
      const next = now < 0 || step === 0 ? found.length - 1 : now + step;
      const pin = found[Math.min(Math.max(next, 0), found.length - 1)];
      if (pin !== undefined) ground.change({ pin, group: null });
    });
  };

  return (
    <div
      class="picture"
      data-snapshot={place.snapshot}
      ref={stage}
      role="slider"
      aria-label="The cursor, over the live allocations stacked in order of allocation"
      aria-valuemin={0}
      aria-valuemax={ground.device.events}
      aria-valuenow={at}
      aria-valuetext={momentName(ground, at)}
      tabIndex={0}
      {...handlers}
      onKeyDown={alongStack}
    >
      <canvas
        ref={sight.canvas}
        class="stack"
        data-what="picture"
        style={{ left: `${LEFT}px`, width: `${plot.width}px`, height: `${plot.height}px` }}
      />
      <Over ground={ground} plot={plot} scale={scale} ticks={ticksOf(ground, plot.width)} />
      <FailureMarks width={plot.width} />
      {state.high !== null && (
        <button
          type="button"
          class="small heights"
          style={{ left: `${LEFT + 4}px` }}
          data-what="heights"
          title="The bytes that are shown; click to show the whole stack"
          onPointerDown={(event) => event.stopPropagation()}
          onClick={() => ground.change({ low: null, high: null })}
        >
          {heightsText(scale)} ×
        </button>
      )}
      {hover.value && <Hover ground={ground} plot={plot} {...hover.value} />}
      {box.value && (
        <div
          class="bounds"
          style={{
            left: `${box.value.x0}px`,
            width: `${box.value.x1 - box.value.x0}px`,
            top: `${box.value.y0}px`,
            height: `${box.value.y1 - box.value.y0}px`,
          }}
        />
      )}
      {(sight.failed.value ?? scale.error) && (
        <p class="failed">{sight.failed.value ?? scale.error}</p>
      )}
      <span hidden data-what="cursors" data-at={at} data-other={other ?? ''} />
    </div>
  );
}

interface Hovered {
  readonly id: number;
  readonly moment: number;
  readonly x: number;
  readonly y: number;
}

interface Canvas {
  readonly plot: { readonly width: number; readonly height: number };
  readonly scale: Scale;
  readonly at: (x: number, y: number) => { id: number; moment: number } | null;
  readonly stage: { readonly current: HTMLDivElement | null };
}

/** The picture's listeners. `show` gets what is under the pointer, and the box that is dragged. */
function useGestures(
  ground: Ground,
  { plot, scale, at, stage }: Canvas,
  show: (found: Hovered | null, box: Box | null) => void,
) {
  const { engine, place, axis, span, change } = ground;
  const clicks = useClicks(ground);
  const look = (next: Span) => {
    moving();
    return lookAt(ground, next);
  };
  const zoom = (seen: Span, part: number, factor: number) => {
    const around = seen.from + part * (seen.to - seen.from);
    keepInside(ground, look(zoomed(seen, part, factor)), around);
  };
  const lookUp = (next: Heights) => {
    moving();
    change(lookedAt(next, scale.whole));
  };
  const along = (px: number) => span.from + ((px - LEFT) / plot.width) * (span.to - span.from);
  const up = (py: number) => scale.high - (py / plot.height) * (scale.high - scale.low);
  const select = (does: Exclude<Mode, 'move'>, { x0, x1, y0, y1 }: Box) => {
    mode.value = 'move';
    if (does === 'range') {
      const both = Promise.all([x0, x1].map((px) => engine.momentAt(place, axis, along(px))));
      void counted(both.then(([at, other]) => change({ at: at!, other: other!, tab: 'between' })));
    } else {
      keepInside(ground, look({ from: along(Math.max(x0, LEFT)), to: along(x1) }));
      lookUp({ low: up(Math.min(y1, plot.height)), high: up(Math.max(y0, 0)) });
    }
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const { left, top } = stage.current!.getBoundingClientRect();
    const x = event.clientX - left - LEFT;
    const part = Math.min(Math.max(x / plot.width, 0), 1);
    const { deltaX, deltaY } = event;
    if (event.shiftKey || x < 0) {
      // With Shift, some browsers report a horizontal movement.
      lookUp(zoomedBytes(scale, up(event.clientY - top), factorOf(deltaY || deltaX)));
    } else if (Math.abs(deltaX) > Math.abs(deltaY)) {
      const by = (deltaX / plot.width) * (span.to - span.from);
      look({ from: span.from + by, to: span.to + by });
    } else zoom(span, part, factorOf(event.ctrlKey ? deltaY * PINCH : deltaY));
  };
  // Browsers treat wheel listeners as passive by default.
  const wheel = useRef(onWheel);
  wheel.current = onWheel;
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    stage.current?.addEventListener('wheel', listen, { passive: false });
    return () => stage.current?.removeEventListener('wheel', listen);
  }, []);
  return {
    ...dragged({
      // A drag on the vertical axis only moves up and down.
      start: (x) => ({ span, scale, onAxis: x < LEFT }),
      move: ({ span, scale, onAxis }, dx, dy) => {
        const by = (-dx / plot.width) * (span.to - span.from);
        if (!onAxis) look({ from: span.from + by, to: span.to + by });
        if (ground.state.high === null) return;
        const rise = (dy / plot.height) * (scale.high - scale.low);
        change(scrolled(scale, rise, scale.whole));
      },
      pinch: ({ span }, factor, px) => {
        zoom(span, Math.min(Math.max((px - LEFT) / plot.width, 0), 1), 1 / factor);
      },
      select: (does, box, done) => {
        show(null, done ? null : does === 'box' ? box : { ...box, y0: 0, y1: plot.height });
        if (done) select(does, box);
      },
      click: (x, y) => {
        const found = at(x - LEFT, y);
        clicks.keep();
        const pin = found && found.id >= 0 && !showsSegments(ground) ? found.id : null;
        if (found) change({ at: found.moment, pin });
      },
      hover: (x, y) => {
        const found = x === null || y === null ? null : at(x - LEFT, y);
        show(found && x !== null && y !== null ? { ...found, x, y } : null, null);
      },
    }),
    onDblClick: (event: MouseEvent) => {
      const onAxis = event.clientX - stage.current!.getBoundingClientRect().left < LEFT;
      if (onAxis) void counted(fitHeights(ground));
      else clicks.twice();
    },
  };
}

/** The highlighted allocations: those of the legend's row under the pointer, or those searched for
 * or selected, otherwise those with the same stack as the pinned allocation. */
function useHighlight(ground: Ground): Filter | null {
  const { engine, place, state } = ground;
  const pinned = useAnswer(JSON.stringify([place, state.pin]), async () =>
    state.pin === null ? null : engine.allocation(place, state.pin),
  );
  const filter = filterOf(ground);
  const row = pointed.value;
  if (row?.from === 'legend' && row.groups && row.snapshot === place.snapshot) {
    const [[way, group] = []] = Object.entries(row.groups);
    return { ...(state.search ? { include: state.search } : {}), way: way!, group: group! };
  }
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
  const one = answer.stale ? null : answer.value;
  useEffect(() => {
    const { snapshot } = place;
    const { id, groups } = one?.allocation ?? {};
    pointed.value = id === undefined || !groups ? null : { from: 'picture', snapshot, id, groups };
  }, [one]);
  useEffect(
    () => () => {
      if (pointed.value?.from === 'picture') pointed.value = null;
    },
    [],
  );
  const below = y <= plot.height * 0.5;
  const picture = document.querySelector(`.picture[data-snapshot="${place.snapshot}"]`);
  const top = picture?.getBoundingClientRect().top ?? 0;
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
        {one ? (
          <AllocationLines ground={ground} allocation={one.allocation} brief>
            <StackLines ground={ground} stack={one.stack} most={linesOf(room)} />
          </AllocationLines>
        ) : segments && id >= 0 ? (
          <SegmentLines ground={ground} id={id} moment={moment} />
        ) : (
          <MomentLines ground={ground} moment={moment} />
        )}
      </div>
    </>
  );
}

/** How many lines of a stack fit into a tooltip of this height. */
function linesOf(pixels: number): number {
  return Math.max(Math.floor((pixels - TIP_NUMBERS) / TIP_LINE), LEAST_LINES);
}

/** Axes, the line of reserved bytes, and the cursors. */
function Over(props: {
  ground: Ground;
  plot: { width: number; height: number };
  scale: Scale;
  ticks: readonly Tick[];
}) {
  const { ground, plot, scale, ticks } = props;
  const { low, high, whole, reserved } = scale;
  const { span, place, axis, at, other, engine } = ground;
  // What is allocated since the start isn't comparable with the card's size.
  const { card, outside } = withoutCarried(ground) ? NO_CARD : ground.device;
  const { events } = ground.device;
  const extent = async (moment: number): Promise<Span> => ({
    from: await engine.xOf(place, axis, moment),
    to: moment < events ? await engine.xOf(place, axis, moment + 1) : Infinity,
  });
  const places = useAnswer(JSON.stringify([place, axis, at, other]), async () => ({
    at: await extent(at),
    other: other === null ? null : await extent(other),
  }));
  const half = middle(axis);
  const px = (x: number) => LEFT + ((x - span.from) / (span.to - span.from)) * plot.width;
  const py = (bytes: number) => plot.height * (1 - (bytes - low) / (high - low));
  const bytes = byteAxis(low, high, plot.height / 44);
  const line =
    reserved &&
    Array.from(reserved, (bytes, i) =>
      Number.isNaN(bytes)
        ? ''
        : `${LEFT + (i * plot.width) / reserved.length},${Math.min(Math.max(py(bytes), -2), plot.height).toFixed(1)}`,
    ).join(' ');
  const clampedUp = (bytes: number) => Math.min(Math.max(py(bytes), 0), plot.height);
  const cursor = places.value && px(places.value.at.from + half);
  const second = places.value?.other ? px(places.value.other.from + half) : null;
  const clamped = (x: number) => Math.min(Math.max(x, LEFT), LEFT + plot.width);
  // A line stays in view as long as any part of its moment does.
  const lines = [places.value?.at, places.value?.other].map((one) =>
    one && one.to > span.from && one.from < span.to ? clamped(px(one.from + half)) : null,
  );
  return (
    <svg class="over" width={LEFT + plot.width} height={plot.height + BOTTOM} aria-hidden="true">
      {bytes.ticks
        .filter(({ at: bytes }) => py(bytes) > 6)
        .map(({ at: bytes, label }) => (
          <g key={bytes}>
            <line class="grid" x1={LEFT} x2={LEFT + plot.width} y1={py(bytes)} y2={py(bytes)} />
            <text class="tick" x={LEFT - 6} y={py(bytes)} dy="0.32em" text-anchor="end">
              {label}
            </text>
          </g>
        ))}
      {bytes.base > 0 && (
        <text class="tick" x={LEFT - 6} y={plot.height + 14} text-anchor="end">
          {label(bytes.base, 1024)}
        </text>
      )}
      {high - low < whole && (
        <g class="seen">
          <rect class="track" x={1} width={4} y={0} height={plot.height} />
          <rect
            x={1}
            width={4}
            y={plot.height * (1 - Math.min(high / whole, 1))}
            height={Math.max((plot.height * (high - low)) / whole, 2)}
          />
        </g>
      )}
      {ticks.map(({ at: x, label }) => (
        <g key={x}>
          <line
            class="grid"
            x1={px(x + half)}
            x2={px(x + half)}
            y1={plot.height}
            y2={plot.height + 4}
          />
          <text
            class="tick"
            x={px(x + half)}
            y={plot.height + 14}
            text-anchor={
              px(x + half) < LEFT + 24
                ? 'start'
                : px(x + half) > LEFT + plot.width - 30
                  ? 'end'
                  : 'middle'
            }
          >
            {label}
          </text>
        </g>
      ))}
      {outside &&
        bandsOf(ground, outside, (x) => clamped(px(x)), clampedUp).map((path, i) => (
          <path key={i} fill={BANDS[i]} d={path} />
        ))}
      {line && <polyline class="reserved" points={line} />}
      {card && card.bytes > low && card.bytes < high && (
        <g class="card">
          <line x1={LEFT} x2={LEFT + plot.width} y1={py(card.bytes)} y2={py(card.bytes)} />
          <text
            class="tick"
            x={LEFT + 6}
            y={py(card.bytes)}
            dy={py(card.bytes) < 14 ? '1.1em' : '-0.35em'}
          >
            {cardName(card)}
          </text>
        </g>
      )}
      {cursor !== null && second !== null && (
        <path class="range" d={`M${clamped(cursor)},1.5 H${clamped(second)}`} />
      )}
      {lines.map(
        (x, i) =>
          x !== null && (
            <g key={i} class={i ? 'cursor other' : 'cursor'}>
              <line x1={x} x2={x} y1={0} y2={plot.height} />
              <path d={`M${x - 5},0 h10 l-5,6 z`} />
            </g>
          ),
      )}
    </svg>
  );
}
