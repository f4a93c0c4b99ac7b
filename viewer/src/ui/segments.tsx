// Segments in the picture of reserved memory: their colours, the legend, and one segment's details.

import { type Colouring, type MapSegment, SEGMENT_KEYS, type SegmentKey } from '../protocol.js';
import { useAnswer } from './answers.js';
import { groupName } from './canvas/blocks/words.js';
import { type Ground, useGround } from './ground.js';
import { css, GROUPS, type Shades } from './palette.js';
import { change } from './state.js';
import { count, percent, size } from './units.js';

const NAMES: Readonly<Record<SegmentKey, readonly string[]>> = {
  pool: [],
  size: ['large segments', 'small segments', 'expandable segments'],
  state: ['free', 'active'],
};

/** Whether the picture shows segments. */
export function showsSegments({ state, device }: Ground): boolean {
  return state.measure === 'reserved' && device.segments !== null;
}

function colourOf(key: SegmentKey, group: number, shades: Shades): number {
  if (key === 'state') return group ? GROUPS[0]! : shades.others[0]!;
  return GROUPS[group % GROUPS.length]!;
}

/** The colour of a segment's blocks in use, as in the legend. */
export function blockColour(
  { state, device }: Ground,
  { pool, kind }: MapSegment,
  shades: Shades,
): number {
  const key = state.segments;
  const groups = {
    pool: device.pools.findIndex((one) => (one?.join(':') ?? null) === pool),
    size: kind,
    state: 1,
  };
  return colourOf(key, Math.max(groups[key], 0), shades);
}

export function segmentColours({ state, device }: Ground, shades: Shades): Colouring {
  const key = state.segments;
  const groups = key === 'pool' ? device.pools : NAMES[key];
  return {
    way: key,
    colours: groups.map((_, i) => [i, colourOf(key, i, shades)] as const),
    others: shades.others,
    background: shades.background,
  };
}

export function SegmentLegend({ shades }: { shades: Shades }) {
  const ground = useGround();
  const { engine, place, at, state, device } = ground;
  const key = state.segments;
  const answer = useAnswer(JSON.stringify([place, at, key]), async () => ({
    key,
    groups: await engine.segments(place, at, key),
  }));
  const groups = answer.value?.key === key ? [...answer.value.groups] : [];
  const whole = groups.reduce((sum, { bytes }) => sum + bytes, 0);
  groups.sort((a, b) => b.bytes - a.bytes);
  return (
    <section class="legend" aria-label="Colours of segments">
      <label class="field">
        segments by{' '}
        <select
          value={key}
          onChange={(event) => change({ segments: event.currentTarget.value as SegmentKey })}
        >
          {SEGMENT_KEYS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <ul>
        {groups.map(({ group, bytes }) => (
          <li key={group}>
            <span class="rest">
              <i class="swatch" style={{ background: css(colourOf(key, group, shades)) }} />
              <span class="name">
                {key === 'pool'
                  ? groupName(device.pools[group]?.join(':') ?? null, null)
                  : NAMES[key][group]}
              </span>
              <span class="number" data-what="segment-bytes" data-bytes={bytes}>
                {size(bytes)}
              </span>
              <span class="number share">{whole > 0 ? percent(bytes / whole) : ''}</span>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function SegmentLines(props: { ground: Ground; id: number; moment: number }) {
  const { ground, id, moment } = props;
  const { engine, place } = ground;
  const answer = useAnswer(JSON.stringify([place, id, moment]), () =>
    engine.segment(place, id, moment),
  );
  const one = answer.value;
  if (!one) return null;
  const rows: (readonly [string, string])[] = [
    ['address', one.address],
    ['size', `${count(one.size)} bytes`],
    ['active', `${size(one.active)}, ${size(one.size - one.active)} free`],
    ['pool', groupName(one.pool, one.stream)],
    ['reserved', one.made === null ? 'before the recording' : `event ${count(one.made)}`],
    ['released', one.freed === null ? 'not in the recording' : `event ${count(one.freed)}`],
  ];
  return (
    <div data-what="segment">
      <p class="headline">
        <strong>{size(one.size)}</strong>{' '}
        {one.expandable ? 'piece of an expandable segment' : 'segment'}
      </p>
      <dl class="pairs">
        {rows.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </div>
  );
}
