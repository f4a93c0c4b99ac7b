// The legend: groups with a colour, and their bytes at the cursor.

import { useMemo } from 'preact/hooks';
import type { Way } from '../core/page.js';
import { shared } from '../core/shared.js';
import type { Place } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import { useAnswer } from './answers.js';
import { useCompared } from './comparing.js';
import {
  type Ground,
  groupLines,
  groupsOf,
  namesOf,
  short,
  toggled,
  useGround,
  waysOf,
} from './ground.js';
import { css, DARK, GROUPS, LIGHT, type Shades } from './palette.js';
import { LETTERS } from './snapshots.js';
import { change } from './state.js';
import { dark } from './theme.js';
import { percent, size } from './units.js';

export interface Colour {
  readonly group: number;
  readonly colour: number;
}

export interface Coloured {
  readonly way: Way;
  readonly own: readonly Colour[];
}

export function useShades(): Shades {
  return dark.value ? DARK : LIGHT;
}

/** Number of listed groups. */
const ROWS = 14;

/** Allocations without a meaningful group are drawn in the same muted colours as the remaining
 * groups. */
const NOBODYS = /^\(|^unknown$|^before the recording/;

/** Answers that many parts of the page ask for and that never change. */
const SUMS = new Map<string, Promise<Float64Array>>();

function sumsOf(engine: Remote, place: Place, way: Way): Promise<Float64Array> {
  const key = JSON.stringify([place, way]);
  const found = SUMS.get(key) ?? engine.prominence(place, way);
  SUMS.set(key, found);
  found.catch(() => SUMS.delete(key));
  return found;
}

/** Returns the groups that have their own colour: those that fill most of the whole recording's
 * picture. They keep it at every zoom and for every measure, and in both of two pictures. */
export function useColours(ground: Ground): Coloured {
  const { engine, place, state, device } = ground;
  const ways = waysOf(device);
  const way = ways.includes(state.colour) ? state.colour : (ways[0] ?? 'stack');
  const sides = (useCompared() ?? [ground]).filter((one) => groupsOf(one.device, way));
  const places = sides.map((one) => one.place);
  const key = JSON.stringify([places, way]);
  const answer = useAnswer(key, async () => ({
    key,
    sums: await Promise.all(places.map((one) => sumsOf(engine, one, way))),
  }));
  const sums = answer.value?.key === key ? answer.value.sums : null;
  const own = useMemo(() => {
    if (!sums) return [];
    const found = shared(
      sides.map(({ snapshot, device }, i) => {
        const names = namesOf(snapshot, device, way);
        const named = (group: number) => names[group] || `#${group}`;
        const name = (group: number) => (NOBODYS.test(named(group)) ? null : named(group));
        return { sums: sums[i]!, moments: device.events + 1, name };
      }),
      GROUPS.length,
    );
    const mine = places.findIndex((one) => one.snapshot === place.snapshot);
    return (found[mine] ?? []).map(([group, i]) => ({ group, colour: GROUPS[i]! }));
  }, [sums, place.snapshot]);
  return { way, own };
}

export function colourOf(colours: Coloured, shades: Shades, group: number): number {
  const own = colours.own.find((one) => one.group === group);
  return own?.colour ?? shades.others[group % shades.others.length]!;
}

export function Legend() {
  const ground = useGround();
  const { engine, place, at, counted: measure, device, state } = ground;
  const colours = useColours(ground);
  const shades = useShades();
  const { way } = colours;
  const other = useCompared()?.[1 - place.snapshot];
  const answer = useAnswer(JSON.stringify([place, measure, way, at]), async () => ({
    way,
    ...(await engine.holders({ place, measure, moment: at, way, filter: null })),
  }));
  const now = answer.value?.way === way ? answer.value : null;
  const of = new Map(now?.groups.map((one) => [one.group, one]));
  // The groups with a colour, then the largest of the others.
  const own = new Set(colours.own.map(({ group }) => group));
  const quiet = (now?.groups ?? [])
    .filter(({ group }) => !own.has(group))
    .slice(0, Math.max(ROWS - own.size, 0))
    .map(({ group }) => ({ group, colour: colourOf(colours, shades, group) }));
  for (const { group } of quiet) own.add(group);
  const rest = now?.groups.filter(({ group }) => !own.has(group)) ?? [];
  const restBytes = rest.reduce((sum, { bytes }) => sum + bytes, 0);
  return (
    <section class="legend" aria-label="Colours">
      <label class="field">
        colour by{' '}
        <select
          value={way}
          onChange={(event) => change({ colour: event.currentTarget.value as Way })}
        >
          {waysOf(device).map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <ul>
        {[...colours.own, ...quiet].map(({ group, colour }) => {
          const bytes = of.get(group)?.bytes ?? 0;
          const [name = ''] = groupLines(ground, way, group);
          const chosen = state.of === way && state.group === group;
          return (
            <li key={group} data-group={group} data-colour={css(colour)}>
              <button
                type="button"
                class={chosen ? 'chosen' : ''}
                title={name}
                aria-pressed={chosen}
                onClick={() => change(toggled(ground, way, group))}
              >
                <i class="swatch" style={{ background: css(colour) }} />
                <span class="name">{short(name)}</span>
                <span class="number" data-what="legend-bytes" data-bytes={bytes}>
                  {size(bytes)}
                </span>
                <span class="number share">
                  {now?.allBytes ? percent(bytes / now.allBytes) : ''}
                </span>
              </button>
            </li>
          );
        })}
        {other && <Others other={other} colours={colours} />}
        {restBytes > 0 && (
          <li data-group="rest">
            <span class="rest">
              <i class="swatch" style={{ background: css(shades.others[0]!) }} />
              <span class="name">
                {rest.length === 1
                  ? short(groupLines(ground, way, rest[0]!.group)[0] ?? '')
                  : `${rest.length} other groups`}
              </span>
              <span class="number" data-what="legend-bytes" data-bytes={restBytes}>
                {size(restBytes)}
              </span>
              <span class="number share">
                {now?.allBytes ? percent(restBytes / now.allBytes) : ''}
              </span>
            </span>
          </li>
        )}
      </ul>
    </section>
  );
}

/** The coloured groups that only the other picture has. */
function Others({ other, colours }: { other: Ground; colours: Coloured }) {
  const own = new Set(colours.own.map(({ colour }) => colour));
  return useColours(other)
    .own.filter(({ colour }) => !own.has(colour))
    .map(({ group, colour }) => {
      const [name = ''] = groupLines(other, colours.way, group);
      return (
        <li key={`only ${group}`}>
          <span class="rest" title={name}>
            <i class="swatch" style={{ background: css(colour) }} />
            <span class="name">{short(name)}</span>
            <span class="dim">only in {LETTERS[other.place.snapshot]}</span>
          </span>
        </li>
      );
    });
}
