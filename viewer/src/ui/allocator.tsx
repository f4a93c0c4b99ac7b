// The allocator at the cursor: segments, their blocks, free memory and the groups that block it.

import type { SegmentMap } from '../protocol.js';
import { useAnswer } from './answers.js';
import { Blockers } from './blockers.js';
import { BlockMap } from './canvas/blockmap.js';
import { commandOf } from './commands.js';
import { Copying, type Rows } from './copying.js';
import { Choice } from './flame.js';
import { useGround } from './ground.js';
import { groupWords } from './labels.js';
import { colourOf, useColours, useShades } from './legend.js';
import { css } from './palette.js';
import { canvasSvg } from './saving.js';
import { blockColour, showsSegments } from './segments.js';
import { change } from './state.js';
import { count, percent, size } from './units.js';

const MOST_ENLARGED = 12;

/** The map and, below it, `blockers`, unless there's no room for them. */
export function Allocator({ blockers = true }: { blockers?: boolean }) {
  const ground = useGround();
  const { engine, place, at, device, state, counted: measure } = ground;
  const colours = useColours(ground);
  const shades = useShades();
  const answer = useAnswer(JSON.stringify([place, at]), () => engine.map(place, at));
  const groups = useAnswer(JSON.stringify([place, measure, colours.way]), () =>
    engine.groups(place, measure, colours.way),
  );
  const stacks = useAnswer(JSON.stringify([place, measure]), async () =>
    device.groups.some(({ way }) => way === 'stack')
      ? engine.groups(place, measure, 'stack')
      : null,
  );
  if (device.segments === null) {
    return (
      <p class="hint">
        This device's segments can't be shown, because the file's data about them is inconsistent.
      </p>
    );
  }
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const map = answer.value;
  if (!map) return null;
  const free = map.reserved - map.active;
  const zoom = (by: 1 | -1) =>
    change({ enlarged: Math.min(Math.max(state.enlarged + by, 0), MOST_ENLARGED) });
  return (
    <div class="panel allocator">
      <div class="toolbar">
        <span class="sum">
          <span data-what="reserved" data-bytes={map.reserved}>
            {size(map.reserved)}
          </span>{' '}
          reserved in {count(map.segments.length)}{' '}
          {map.segments.length === 1 ? 'segment' : 'segments'},{' '}
          <span data-what="active" data-bytes={map.active}>
            {size(map.active)}
          </span>{' '}
          active, {size(free)} free{map.reserved > 0 ? ` (${percent(free / map.reserved)})` : ''}
        </span>
        <Choice
          label="How segments are laid out"
          value={state.map}
          choices={[
            ['rows', 'rows'],
            ['all', 'all at once'],
          ]}
          onChange={(next) => change({ map: next })}
        />
        <span hidden={state.map === 'all'}>
          {([1, -1] as const).map((by) => (
            <button
              key={by}
              type="button"
              class="small"
              aria-label={by > 0 ? 'Larger blocks' : 'Smaller blocks'}
              disabled={by < 0 && state.enlarged < 1}
              onClick={() => zoom(by)}
            >
              {by > 0 ? '+' : '−'}
            </button>
          ))}
        </span>
        <Copying
          name="allocator"
          command={commandOf(ground, 'allocator')}
          picture={() => canvasSvg('.mr-blocks canvas')}
          csv={() => mapRows(map)}
        />
      </div>
      <BlockMap
        map={map}
        colour={(id, segment) =>
          css(
            showsSegments(ground)
              ? blockColour(ground, segment, shades)
              : colourOf(colours, shades, groups.value?.[id] ?? 0),
          )
        }
        name={(id) => {
          const group = stacks.value?.[id];
          return group === undefined ? null : (groupWords(ground, 'stack', group)[0] ?? '');
        }}
        fold={state.map === 'all'}
        zoom={Math.min(Math.max(state.enlarged, 0), MOST_ENLARGED)}
        onZoom={zoom}
        selected={state.pin}
        onSelect={(id) => change({ pin: id, group: null })}
      />
      {blockers && <Blockers />}
    </div>
  );
}

/** One row per block, and one per hole. */
function mapRows({ segments }: SegmentMap): Rows {
  const rows: (readonly (string | number)[])[] = [
    ['segment', 'pool', 'stream', 'offset', 'bytes', 'requested_bytes', 'state', 'allocation'],
  ];
  for (const { address, size: whole, pool, stream, blocks } of segments) {
    const of = [address, pool ?? '', stream ?? ''];
    let end = 0;
    const hole = (to: number) => to > end && rows.push([...of, end, to - end, 0, 'free', '']);
    for (const { id, offset, size: bytes, requested, awaiting } of blocks) {
      hole(offset);
      rows.push([...of, offset, bytes, requested, awaiting ? 'awaiting free' : 'active', id]);
      end = offset + bytes;
    }
    hole(whole);
  }
  return rows;
}
