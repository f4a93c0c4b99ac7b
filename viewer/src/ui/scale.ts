// The height of a picture's scale: which bytes of the stack are visible, and what is there to see.

import { useEffect, useMemo } from 'preact/hooks';
import { useAnswer } from './answers.js';
import { cardWithin } from './card.js';
import { commonHeight, sayHeight } from './comparing.js';
import { filterOf, type Ground } from './ground.js';
import { showsSegments } from './segments.js';
import { type Heights, lookedAt, scrolled, zoomedBytes } from './vertical.js';

const HEADROOM = 1.04;
/** The line of reserved bytes is in the picture if it's at most this many times the stack's
 * height. */
const ROOM = 1.3;
/** What is fitted has this part of its height above and below it. */
const MARGIN = 0.5;

export interface Scale extends Heights {
  /** The height at which everything is visible. */
  readonly whole: number;
  /** Reserved bytes in each column of pixels. */
  readonly reserved: Float64Array | null;
  readonly ready: boolean;
  readonly error: string | null;
}

/** The scales of the displayed pictures, by snapshot, for keys; and the lowest and the highest stack
 * in view. */
const scales = new Map<number, Heights & { readonly whole: number; readonly varying: Heights }>();

/** Whether the picture leaves out what was carried over. Segments are all there. */
export function withoutCarried(ground: Ground): boolean {
  return ground.state.carried === 'hidden' && !showsSegments(ground);
}

export function useScale(ground: Ground, width: number): Scale {
  const { engine, place, state, axis, span, counted } = ground;
  const { card, outside } = ground.device;
  const isWhole = state.card === 'whole' && outside;
  const drawn = showsSegments(ground) ? 'reserved' : counted;
  const recorded = withoutCarried(ground);
  const columns = Math.round(width);
  const curves = useAnswer(
    JSON.stringify([place, state.measure, drawn, axis, span, columns, recorded]),
    async () => {
      const query = { place, axis, span, columns };
      const [stack, reserved] = await Promise.all([
        engine.curve({ ...query, measure: drawn, recorded }),
        recorded ? null : engine.curve({ ...query, measure: 'reserved' }),
      ]);
      return { stack, reserved };
    },
  );
  const [highest, varying] = useMemo(() => {
    const most = (values: Float64Array) => values.reduce((a, b) => (b > a ? b : a), 0);
    if (!curves.value) return [1, { low: 0, high: 1 }];
    const { low, high } = curves.value.stack;
    const stack = most(high);
    const reserved = curves.value.reserved ? most(curves.value.reserved.high) : 0;
    // The line of reserved bytes is visible, unless the stack would become too low.
    const highest = Math.max(
      stack,
      Math.min(reserved, state.measure === 'reserved' ? reserved : stack * ROOM),
      recorded ? 0 : isWhole ? outside.total_bytes : cardWithin(card, stack),
      1,
    );
    return [highest, { low: low.reduce((a, b) => (b < a ? b : a), stack), high: stack }];
  }, [curves.value, state.measure, state.card]);
  // Compared pictures share the higher of their two maxima.
  const compared = ground.page.kind === 'compare';
  useEffect(() => {
    if (compared && curves.value) sayHeight(place.snapshot, highest);
  }, [highest, curves.value]);
  const whole = commonHeight(highest, compared) * HEADROOM;
  const part = state.high !== null && state.high > (state.low ?? 0);
  const low = part ? (state.low ?? 0) : 0;
  const high = part ? state.high! : whole;
  scales.set(place.snapshot, { low, high, whole, varying });
  return {
    ...{ low, high, whole },
    reserved: curves.value?.reserved?.high ?? null,
    ready: curves.value !== null,
    error: curves.error,
  };
}

/** The part of the stack at the cursor that has the selected allocation or group; null if nothing
 * that is selected is live. */
async function selectedBand(ground: Ground): Promise<Heights | null> {
  const { engine, place, at: moment, counted: measure } = ground;
  const id = ground.state.pin;
  const filter = id === null ? filterOf(ground) : null;
  if (showsSegments(ground) || (id === null && !filter)) return null;
  const recorded = withoutCarried(ground);
  return engine.bandOf({ place, measure, moment, id, filter, recorded });
}

/** Fits the selection's bytes into the picture with a margin, or else what changes in view; shows
 * the whole stack if that's what the picture shows already. */
export async function fitHeights(ground: Ground): Promise<void> {
  const { place, state, change } = ground;
  const scale = scales.get(place.snapshot);
  if (!scale) return;
  const { low, high } = (await selectedBand(ground)) ?? scale.varying;
  const margin = (high - low) * MARGIN;
  const next = lookedAt({ low: low - margin, high: high + margin }, scale.whole);
  const same = next.low === state.low && next.high === state.high;
  change(same ? { low: null, high: null } : next);
}

/** Zooms the visible bytes around the selection if it's live at the cursor, otherwise around the
 * middle. */
export async function zoomHeights(ground: Ground, factor: number): Promise<void> {
  const { place, change } = ground;
  const scale = scales.get(place.snapshot);
  if (!scale) return;
  const band = await selectedBand(ground);
  let fixed = (scale.low + scale.high) / 2;
  let seen: Heights = scale;
  if (band) {
    fixed = (band.low + band.high) / 2;
    // What isn't visible comes to the middle.
    if (fixed < scale.low || fixed > scale.high) {
      const by = fixed - (scale.low + scale.high) / 2;
      seen = { low: scale.low + by, high: scale.high + by };
    }
  }
  change(lookedAt(zoomedBytes(seen, fixed, factor), scale.whole));
}

/** Scrolls up or down by a fraction of the visible bytes. */
export function panHeights({ place, state, change }: Ground, part: number): void {
  const scale = scales.get(place.snapshot);
  if (!scale || state.high === null) return;
  change(scrolled(scale, part * (scale.high - scale.low), scale.whole));
}

/** Shows or hides what was carried over, with the whole stack visible. */
export function toggleCarried({ state, change }: Ground): void {
  const carried = state.carried === 'hidden' ? 'shown' : 'hidden';
  change({ carried, low: null, high: null });
}
