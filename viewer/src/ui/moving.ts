// Navigation: the cursor by events, peaks and marks; the view by windows and zoom.

import { useRef } from 'preact/hooks';
import type { Span } from '../protocol.js';
import { eventOf, type Ground, within } from './ground.js';
import type { State } from './state.js';

const PEAKS = 100;
/** The whole recording, and the whole stack. */
export const ALL: Partial<State> = { from: null, to: null, low: null, high: null };

/** Precise enough for any pixel, but short in a URL. */
function rounded(x: number): number {
  return Math.round(x * 100) / 100;
}

export function lookAt({ whole, change }: Ground, next: Span): void {
  const { from, to } = within(whole, rounded(next.from), rounded(next.to));
  const all = from <= whole.from && to >= whole.to;
  change(all ? { from: null, to: null } : { from, to });
}

/** Zooms around the cursor if it's visible, otherwise around the middle. */
export async function zoomBy(ground: Ground, factor: number): Promise<void> {
  const { engine, place, axis, at, span } = ground;
  const x = await engine.xOf(place, axis, at);
  const inside = x >= span.from && x < span.to;
  // On the event axis a moment has a width, and the cursor is in its middle.
  const fixed = inside ? x + (axis === 'event' ? 0.5 : 0) : (span.from + span.to) / 2;
  const from = fixed - (fixed - span.from) * factor;
  const to = fixed + (span.to - fixed) * factor;
  // The cursor's moment stays in view as a whole.
  lookAt(ground, inside ? { from: Math.min(from, x), to: Math.max(to, x + 1) } : { from, to });
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
