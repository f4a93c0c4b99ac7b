// Memory outside PyTorch's allocator: bands that hang from the card's size, and their bytes. The gap between them and reserved memory is free.

import type { PageOutside } from '../core/page.js';
import { useAnswer } from './answers.js';
import { type Ground, useGround } from './ground.js';
import { change } from './state.js';
import { duration, percent, size } from './units.js';

/** The position of the sample that a moment has. */
export function sampleAt({ moments }: PageOutside, moment: number): number {
  let at = moments.length - 1;
  while (at > 0 && moments[at]! > moment) at--;
  return at;
}

/** The colours of the bands, from the top. */
export const BANDS = ['#b3b7bf', '#aa4488'];

/** A sample's parts of the card with their bytes, from the top. */
export function partsOf(one: PageOutside, at: number): [string, number | null][] {
  const other = one.other_bytes[at]!;
  const own = other === null ? 'outside PyTorch, with other processes' : 'outside PyTorch';
  return [
    ['other processes', other],
    [own, one.outside_bytes[at]!],
    ['free', one.free_bytes[at]!],
  ];
}

/** When the sample was taken, as seen from a time. */
export function sampledText({ times_us }: PageOutside, at: number, us: number): string {
  const away = times_us[at]! - us;
  return away ? `${duration(Math.abs(away))} ${away < 0 ? 'earlier' : 'later'}` : 'then';
}

/** The axis of a picture. */
type Axis = Pick<Ground, 'whole' | 'axis'>;

/** Where a sample begins on the axis. */
function begins({ whole, axis }: Axis, one: PageOutside, i: number): number {
  const last = i === one.moments.length;
  if (last || i === 0) return last ? whole.to : whole.from;
  return axis === 'event' ? one.moments[i]! : (one.times_us[i - 1]! + one.times_us[i]!) / 2;
}

/** The bands' outlines, from the top. `along`: the pixel at a place on the axis. */
export function bandsOf(
  ground: Axis,
  one: PageOutside,
  along: (x: number) => number,
  up: (bytes: number) => number,
): string[] {
  const { total_bytes, outside_bytes, other_bytes } = one;
  const bounds = [
    () => total_bytes,
    (i: number) => total_bytes - (other_bytes[i] ?? 0),
    (i: number) => total_bytes - (other_bytes[i] ?? 0) - outside_bytes[i]!,
  ].map((bound) =>
    outside_bytes.flatMap((_, i) =>
      [i, i + 1].map(
        (end) => `${along(begins(ground, one, end)).toFixed(1)},${up(bound(i)).toFixed(1)}`,
      ),
    ),
  );
  return BANDS.map((_, i) => `M${[...bounds[i]!, ...bounds[i + 1]!.slice().reverse()].join(' ')}`);
}

/** The bands in the legend, with their bytes at the cursor. */
export function OutsideLegend() {
  const { engine, place, device, at, state } = useGround();
  const answer = useAnswer(JSON.stringify([place, at]), async () => ({
    moment: at,
    us: await engine.xOf(place, 'time', at),
  }));
  const one = device.outside;
  if (!one || !answer.value) return null;
  const { moment, us } = answer.value;
  const sample = sampleAt(one, moment);
  return (
    <section class="legend" aria-label="The card" data-what="outside" data-moment={moment}>
      <button
        type="button"
        class="small"
        aria-pressed={state.card === 'whole'}
        title="Show all of the card"
        onClick={() =>
          change({ card: state.card === 'whole' ? 'auto' : 'whole', low: null, high: null })
        }
      >
        whole card
      </button>{' '}
      <span class="dim">sampled {sampledText(one, sample, us)}</span>
      <ul>
        {partsOf(one, sample).map(
          ([name, bytes], i) =>
            bytes !== null && (
              <li key={name}>
                <span class="rest">
                  <i class="swatch" style={{ background: BANDS[i] ?? 'none' }} />
                  <span class="name">{name}</span>
                  <span class="number" data-bytes={bytes}>
                    {size(bytes)}
                  </span>
                  <span class="number share">{percent(bytes / one.total_bytes)}</span>
                </span>
              </li>
            ),
        )}
      </ul>
    </section>
  );
}
