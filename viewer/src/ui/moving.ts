// Navigation: the cursor by events, peaks and marks; the view by windows and zoom.

import { useRef } from 'preact/hooks';
import type { Axis, Span } from '../protocol.js';
import { counted } from './answers.js';
import { eventOf, type Ground, within } from './ground.js';
import type { State } from './state.js';

const PEAKS = 100;
/** The whole recording, and the whole stack. */
export const ALL: Partial<State> = { from: null, to: null, low: null, high: null };

/** Precise enough for any pixel, but short in a URL. */
function rounded(x: number): number {
  return Math.round(x * 100) / 100;
}

/** Shows this part, or as much of it as there is, and returns it. */
export function lookAt({ whole, change }: Ground, next: Span): Span {
  const { from, to } = within(whole, rounded(next.from), rounded(next.to));
  const all = from <= whole.from && to >= whole.to;
  change(all ? { from: null, to: null } : { from, to });
  return { from, to };
}

/** Zooms to a part. */
export function zoomTo(ground: Ground, next: Span, around?: number): void {
  keepInside(ground, lookAt(ground, next), around);
}

/** After zooming, moves a cursor whose moment isn't visible: to the position around which the view
 * was zoomed, if there is one, otherwise to the highest visible moment. */
export function keepInside(ground: Ground, span: Span, around?: number): void {
  const { engine, place, axis, at, state, move } = ground;
  const moved = async () => {
    const [first = 0, last = 0, fixed = 0] = await Promise.all(
      [span.from, span.to, around ?? 0].map((x) => engine.momentAt(place, axis, x)),
    );
    const end = (await engine.xOf(place, axis, last)) < span.to ? last + 1 : last;
    if (at >= first && at < end) return;
    if (around !== undefined) return move(Math.min(fixed, end - 1));
    const [peak] = await engine.peaks(place, state.measure, first, end, 1);
    move(peak?.moment ?? first);
  };
  void counted(moved());
}

/** How far into a moment its marks are: on the event axis a moment has a width. */
export function middle(axis: Axis): number {
  return axis === 'event' ? 0.5 : 0;
}

/** Zooms around the cursor if it's visible, otherwise around the middle. */
export async function zoomBy(ground: Ground, factor: number): Promise<void> {
  const { engine, place, axis, at, span } = ground;
  const x = await engine.xOf(place, axis, at);
  const inside = x >= span.from && x < span.to;
  const fixed = inside ? x + middle(axis) : (span.from + span.to) / 2;
  const from = fixed - (fixed - span.from) * factor;
  const to = fixed + (span.to - fixed) * factor;
  // The cursor's moment stays in view as a whole.
  if (inside) lookAt(ground, { from: Math.min(from, x), to: Math.max(to, x + 1) });
  else zoomTo(ground, { from, to }, fixed);
}

/** A double click shows the whole recording, with the cursor and the selection as they were before
 * its first click. */
export function useClicks(ground: Ground): { keep(): void; twice(): void } {
  const before = useRef<Partial<State>[]>([]);
  return {
    keep: () => {
      const { at, pin, group } = ground.state;
      before.current = [...before.current.slice(-1), { at, pin, group }];
    },
    twice: () => ground.change({ ...before.current[0], ...ALL }),
  };
}

/** Scrolls by a fraction of the view. */
export function pan(ground: Ground, part: number): void {
  const by = part * (ground.span.to - ground.span.from);
  lookAt(ground, { from: ground.span.from + by, to: ground.span.to + by });
}

/** Moves the cursor to a moment, and scrolls it into view. */
export async function goTo(ground: Ground, moment: number): Promise<void> {
  const { engine, place, axis, span, device, change } = ground;
  const at = Math.min(Math.max(moment, 0), device.events);
  const x = await engine.xOf(place, axis, at);
  change({ at });
  if (x < span.from || x >= span.to) {
    const half = (span.to - span.from) / 2;
    lookAt(ground, { from: x - half, to: x + half });
  }
}

/** The moments of the highest separate peaks, in chronological order. */
export async function peakMoments(ground: Ground): Promise<number[]> {
  const { engine, place, counted, device } = ground;
  const found = await engine.peaks(place, counted, 0, device.events + 1, PEAKS);
  return found.map(({ moment }) => moment).sort((a, b) => a - b);
}

/** Moves to the next of these moments, forward or backward, if there is one. */
export async function toNext(
  ground: Ground,
  moments: readonly number[],
  step: 1 | -1,
): Promise<void> {
  const inOrder = step > 0 ? moments : [...moments].reverse();
  const next = inOrder.find((one) => (step > 0 ? one > ground.at : one < ground.at));
  if (next !== undefined) await goTo(ground, next);
}

/** The moments of steps, failures and starts of annotations. */
export function markMoments({ device }: Ground, kind: 'step' | 'oom' | 'annotation'): number[] {
  const found =
    kind === 'annotation'
      ? device.spans.map(({ begin }) => begin)
      : device.marks.filter((one) => one.kind === kind).map(({ moment }) => moment);
  return [...new Set(found)].sort((a, b) => a - b);
}

/** `event 1,087`: the label of a moment. */
export function momentName(ground: Ground, moment: number): string {
  const event = eventOf(ground, moment);
  return event < 0 ? 'the start' : `event ${event.toLocaleString('en')}`;
}
