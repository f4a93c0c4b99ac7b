// The legend: groups with a colour, and their bytes at the cursor.

import type { Way } from '../core/page.js';
import { useAnswer } from './answers.js';
import { type Ground, groupLines, toggled, useGround, waysOf } from './ground.js';
import { distinct, elided, groupWords } from './labels.js';
import { css, DARK, GROUPS, LIGHT, type Shades } from './palette.js';
import { SegmentLegend, showsSegments } from './segments.js';
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

/** Characters of a name. */
const MOST = 72;
/** Number of listed groups. */
const ROWS = 14;

/** Allocations without a meaningful group are drawn in the same muted colours as the remaining
 * groups. */
const NOBODYS = /^\(|^unknown$|^before the recording/;

/** Returns the groups that have their own colour: those that fill most of the whole recording's
 * picture. They keep it at every zoom and for every measure. */
export function useColours(ground: Ground): Coloured {
  const { engine, place, state, device } = ground;
  const ways = waysOf(device);
  const way = ways.includes(state.colour) ? state.colour : (ways[0] ?? 'stack');
  const answer = useAnswer(JSON.stringify([place, way]), async () => ({
    way,
    sums: ways.length ? await engine.prominence(place, way) : new Float64Array(),
  }));
  if (answer.value?.way !== way) return { way, own: [] };
  const named = Array.from(answer.value.sums, (sum, group) => ({ sum, group }))
    .filter(({ sum, group }) => sum > 0 && !NOBODYS.test(groupLines(ground, way, group)[0] ?? ''))
    .sort((a, b) => b.sum - a.sum || a.group - b.group);
  return {
    way,
    own: named.slice(0, GROUPS.length).map(({ group }, i) => ({ group, colour: GROUPS[i]! })),
  };
}

export function colourOf(colours: Coloured, shades: Shades, group: number): number {
  const own = colours.own.find((one) => one.group === group);
  return own?.colour ?? shades.others[group % shades.others.length]!;
}

export function Legend() {
  const shades = useShades();
  return showsSegments(useGround()) ? <SegmentLegend shades={shades} /> : <Groups />;
}

function Groups() {
  const ground = useGround();
  const { engine, place, at, counted: measure, device, state } = ground;
  const colours = useColours(ground);
  const shades = useShades();
  const { way } = colours;
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
  const listed = [...colours.own, ...quiet];
  const briefs = (some: readonly { group: number }[]) =>
    elided(distinct(some.map(({ group }) => groupWords(ground, way, group, true))), MOST);
  const names = briefs(listed);
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
        {listed.map(({ group, colour }, i) => {
          const bytes = of.get(group)?.bytes ?? 0;
          const chosen = state.of === way && state.group === group;
          return (
            <li key={group} data-group={group} data-colour={css(colour)}>
              <button
                type="button"
                class={chosen ? 'chosen' : ''}
                title={groupLines(ground, way, group).join('\n')}
                aria-pressed={chosen}
                onClick={() => change(toggled(ground, way, group))}
              >
                <i class="swatch" style={{ background: css(colour) }} />
                <span class="name">{names[i]}</span>
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
        {restBytes > 0 && (
          <li data-group="rest">
            <span class="rest">
              <i class="swatch" style={{ background: css(shades.others[0]!) }} />
              <span class="name">
                {rest.length === 1 ? briefs(rest) : `${rest.length} other groups`}
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
