// The height of a picture's scale: which bytes of the stack are visible, and what is there to see.

import { useEffect, useMemo } from 'preact/hooks';
import { useAnswer } from './answers.js';
import { cardWithin } from './card.js';
import { commonHeight, sayHeight } from './comparing.js';
import type { Ground } from './ground.js';
import { showsSegments } from './segments.js';
import { type Heights, lookedAt, scrolled, zoomedBytes } from './vertical.js';

const HEADROOM = 1.04;
/** The line of reserved bytes is in the picture if it's at most this many times the stack's
 * height. */
const ROOM = 1.3;

export interface Scale extends Heights {
  /** The height at which everything is visible. */
  readonly whole: number;
  /** Reserved bytes in each column of pixels. */
  readonly reserved: Float64Array | null;
  readonly ready: boolean;
  readonly error: string | null;
}

/** The scales of the displayed pictures, by snapshot, for keys. */
const scales = new Map<number, Heights & { readonly whole: number }>();

/** Whether the picture leaves out what was carried over. Segments are all there. */
export function withoutCarried(ground: Ground): boolean {
  return ground.state.carried === 'hidden' && !showsSegments(ground);
}

export function useScale(ground: Ground, width: number): Scale {
  const { engine, place, state, axis, span, counted } = ground;
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
  const highest = useMemo(() => {
    const most = (values: Float64Array) => values.reduce((a, b) => (b > a ? b : a), 0);
    if (!curves.value) return 1;
    const stack = most(curves.value.stack.high);
    const reserved = curves.value.reserved ? most(curves.value.reserved.high) : 0;
    // The line of reserved bytes is visible, unless the stack would become too low.
    return Math.max(
      stack,
      Math.min(reserved, state.measure === 'reserved' ? reserved : stack * ROOM),
      recorded ? 0 : cardWithin(ground.device.card, stack),
      1,
    );
  }, [curves.value, state.measure]);
  // Compared pictures share the higher of their two maxima.
  const compared = ground.page.kind === 'compare';
  useEffect(() => {
    if (compared && curves.value) sayHeight(place.snapshot, highest);
  }, [highest, curves.value]);
  const whole = commonHeight(highest, compared) * HEADROOM;
  const part = state.high !== null && state.high > (state.low ?? 0);
  const low = part ? (state.low ?? 0) : 0;
  const high = part ? state.high! : whole;
  scales.set(place.snapshot, { low, high, whole });
  return {
    ...{ low, high, whole },
    reserved: curves.value?.reserved?.high ?? null,
    ready: curves.value !== null,
    error: curves.error,
  };
}

/** Zooms the visible bytes around the selected allocation if it's live at the cursor, otherwise
 * around the middle. */
export async function zoomHeights(ground: Ground, factor: number): Promise<void> {
  const { engine, place, state, at, counted: measure, change } = ground;
  const scale = scales.get(place.snapshot);
  if (!scale) return;
  const recorded = withoutCarried(ground);
  const band =
    state.pin === null || showsSegments(ground)
      ? null
      : await engine.bandOf({ place, measure, moment: at, id: state.pin, recorded });
  let fixed = (scale.low + scale.high) / 2;
  let seen: Heights = scale;
  if (band) {
    fixed = (band.low + band.high) / 2;
    // An allocation that isn't visible comes to the middle.
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
