// Annotations, steps and points of a recording as lanes along its axis.

import { useSignal } from '@preact/signals';
import { useId, useMemo, useRef, useState } from 'preact/hooks';
import { counted } from '../units.js';
import './canvas.css';
import { type Surface, useCanvas } from './canvas.js';
import { type Bar, barAt, firstEnding } from './lanes/layout.js';
import { type LaneItem, type LaneMark, type LaneSpan, modelOf } from './lanes/model.js';
import { type Pointed as Place, paintLanes, topsOf } from './lanes/paint.js';
import { type Pointed, type Tip, Tooltip } from './tooltip.js';

export type { LaneItem, LaneMark, LaneSpan } from './lanes/model.js';

/** Positions on the axis; for a point, `from` equals `to`. */
export interface LaneRange {
  readonly from: number;
  readonly to: number;
}

export interface LanesProps {
  /** Annotations of all threads and streams, in any order. */
  readonly spans: readonly LaneSpan[];
  readonly marks: readonly LaneMark[];
  /** The visible part of the axis. */
  readonly span: LaneRange;
  /** CSS pixels to the left and right of the axis; labels are on the left. */
  readonly left?: number;
  readonly right?: number;
  readonly cursor?: number | null;
  readonly other?: number | null;
  /** The maximum number of rows for annotations. The others are counted below, and shown on demand. */
  readonly rows?: number;
  readonly colour?: (name: string) => string;
  /** A range's text in its tooltip: when, how long. */
  readonly words?: (item: LaneItem) => readonly (readonly [string, string])[];
  readonly onPick?: (range: LaneRange, item: LaneItem) => void;
  readonly onZoom?: (range: LaneRange, item: LaneItem) => void;
  /** Called when the keyboard moves to a range that isn't visible. */
  readonly onReveal?: (range: LaneRange) => void;
}

const ROWS = 6;
const ALL_ROWS = 40;
/** The maximum number of names in the tooltip of several marks. */
const NAMES = 10;
/** How near a pointer has to be to a narrow bar, in CSS pixels. */
const NEAR = 4;
const KINDS = {
  span: 'annotation',
  step: 'step',
  oom: 'out of memory',
  snapshot: 'snapshot',
} as const;

/** `step 1`, `out of memory: …`: the name already says what it is. */
function saysKind({ kind, name }: LaneItem): boolean {
  return kind !== 'span' && name.startsWith(KINDS[kind]);
}

export function Lanes(props: LanesProps) {
  const { spans, marks, span, left = 0, right = 0, cursor = null, other = null } = props;
  const id = useId();
  const [open, setOpen] = useState(false);
  const most = open ? ALL_ROWS : (props.rows ?? ROWS);
  const model = useMemo(() => modelOf(spans, marks, most), [spans, marks, most]);
  const tops = useMemo(() => topsOf(model), [model]);
  const [focus, setFocus] = useState<Place | null>(null);
  const [active, setActive] = useState(false);
  const hovered = useRef<Place | null>(null);
  const bars = useRef<readonly (readonly Bar[])[]>([]);
  const pointed = useSignal<Pointed | null>(null);
  const { lanes } = model;
  // Ignore a focus on a range that is no longer in its lane.
  const focused = focus && lanes[focus.lane]?.row.includes(focus.range) ? focus : null;

  const draw = (surface: Surface) => {
    bars.current = paintLanes(surface, {
      model,
      span,
      left,
      right,
      cursor,
      other,
      hovered: hovered.current,
      focused: active ? focused : null,
      colour: props.colour,
    });
  };
  const { frame, canvas, redraw } = useCanvas(draw);

  const itemOf = ({ lane, range }: Place): LaneItem => lanes[lane]!.item(range);
  const laneAt = (event: MouseEvent): number => {
    const found = tops.findIndex((top) => event.offsetY < top) - 1;
    return found;
  };
  const under = (event: MouseEvent): { lane: number; bar: Bar } | null => {
    const lane = laneAt(event);
    const ofLane = bars.current[lane];
    if (!ofLane || event.offsetX < left) return null;
    const ratio = devicePixelRatio || 1;
    if (lanes[lane]?.kind === 'more') return null;
    const bar = ofLane[barAt(ofLane, (event.offsetX - left) * ratio, NEAR * ratio)];
    return bar ? { lane, bar } : null;
  };
  const tipOf = (place: Place, merged: number): Tip => {
    const item = itemOf(place);
    const detail = KINDS[item.kind];
    if (merged && item.kind !== 'span' && item.kind !== 'step') {
      const lane = lanes.find(({ kind }) => kind === 'point')!;
      const first = place.range;
      const all = Array.from({ length: Math.min(merged, NAMES) }, (_, i) => lane.item(first + i));
      const rows = all.map((one): [string, string] => [
        one.name,
        (props.words?.(one) ?? []).map(([, text]) => text).join(', '),
      ]);
      if (merged > NAMES) rows.push(['…', `${merged - NAMES} more`]);
      return { title: counted(merged, 'mark'), rows };
    }
    if (merged) {
      const title = counted(merged, item.kind === 'step' ? 'step' : 'annotation');
      return { title, detail: `narrower than a pixel; first: ${item.name}`, rows: [] };
    }
    const rows = props.words?.(item) ?? [];
    return { title: item.name || detail, ...(saysKind(item) ? {} : { detail }), rows };
  };

  const hover = (event: PointerEvent) => {
    const hit = under(event);
    if (!hit) {
      leave();
      const lane = lanes[laneAt(event)];
      if (lane?.kind !== 'more') return;
      const tip = {
        title: lane.label,
        detail: 'Click to see them in separate rows.',
        rows: [],
      };
      pointed.value = { tip, x: event.clientX, y: event.clientY };
      return;
    }
    const place = { lane: hit.lane, range: hit.bar.range };
    if (hovered.current?.range !== place.range || hovered.current.lane !== place.lane) {
      hovered.current = place;
      redraw();
    }
    pointed.value = { tip: tipOf(place, hit.bar.merged), x: event.clientX, y: event.clientY };
  };
  const leave = () => {
    pointed.value = null;
    if (!hovered.current) return;
    hovered.current = null;
    redraw();
  };

  const rangeOf = ({ from, to }: LaneItem): LaneRange => ({ from, to });
  const pick = (place: Place) => {
    setFocus(place);
    const item = itemOf(place);
    props.onPick?.(rangeOf(item), item);
  };
  const zoom = (place: Place) => {
    const item = itemOf(place);
    if (item.to > item.from) props.onZoom?.(rangeOf(item), item);
  };
  const click = (event: MouseEvent) => {
    pointed.value = null;
    const hit = under(event);
    if (hit && !hit.bar.merged) pick({ lane: hit.lane, range: hit.bar.range });
    else if (lanes[laneAt(event)]?.kind === 'more') setOpen(true);
  };
  const twice = (event: MouseEvent) => {
    const hit = under(event);
    if (!hit) return;
    // If several ranges share a pixel, zoom in until they separate.
    const place = { lane: hit.lane, range: hit.bar.range };
    if (!hit.bar.merged) zoom(place);
    else {
      const x = itemOf(place).from;
      const half = (span.to - span.from) / 20;
      props.onZoom?.({ from: x - half, to: x + half }, itemOf(place));
    }
  };

  const go = (place: Place) => {
    setFocus(place);
    const { from, to } = itemOf(place);
    if (to <= span.from || from >= span.to) props.onReveal?.({ from, to });
  };
  /** The first item of a lane at a position on the axis, or the last one. */
  const enter = (lane: number, x: number) => {
    const { ranges, row } = lanes[lane]!;
    go({ lane, range: row[Math.min(firstEnding(ranges, row, x), row.length - 1)]! });
  };
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const usable = lanes.flatMap(({ kind }, i) => (kind === 'more' ? [] : [i]));
    if (!usable.length) return;
    const now = focused;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const turn = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step || turn) {
      if (!now) enter(usable[0]!, span.from);
      else if (turn) {
        const lane = usable[usable.indexOf(now.lane) + turn];
        if (lane !== undefined) enter(lane, Math.max(itemOf(now).from, span.from));
      } else {
        const { row } = lanes[now.lane]!;
        const range = row[row.indexOf(now.range) + step!];
        if (range !== undefined) go({ lane: now.lane, range });
      }
    } else if ((event.key === 'Enter' || event.key === ' ') && now) {
      if (event.shiftKey) zoom(now);
      else pick(now);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const said = (place: Place): string => {
    const item = itemOf(place);
    const words = props.words?.(item) ?? [];
    const kind = saysKind(item) ? [] : [KINDS[item.kind]];
    return [item.name, ...kind, ...words.map((pair) => pair.join(' '))].join(', ');
  };
  if (!lanes.length) return null;
  return (
    <div class="mr-frame mr-lanes" ref={frame} style={{ height: `${tops.at(-1)}px` }}>
      <canvas
        class="mr-canvas"
        ref={canvas}
        tabIndex={0}
        role="listbox"
        aria-label="Annotations and steps"
        aria-activedescendant={focused ? `${id}-item` : undefined}
        onPointerMove={hover}
        onPointerLeave={leave}
        onClick={click}
        onDblClick={twice}
        onKeyDown={key}
        onFocus={() => setActive(canvas.current?.matches(':focus-visible') ?? false)}
        onBlur={() => setActive(false)}
      >
        {focused && (
          <div id={`${id}-item`} role="option" tabIndex={-1} aria-selected={true}>
            {said(focused)}
          </div>
        )}
      </canvas>
      <div class="mr-unseen" aria-live="polite">
        {active && focused ? said(focused) : ''}
      </div>
      {open && (
        <button type="button" class="mr-button" onClick={() => setOpen(false)}>
          Fewer rows
        </button>
      )}
      <Tooltip pointed={pointed} />
    </div>
  );
}
