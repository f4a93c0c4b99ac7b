// The holders of memory at the cursor, as a table: groups by one key, largest first.

import { useSignal } from '@preact/signals';
import type { Way } from '../core/page.js';
import type { Holder } from '../protocol.js';
import { useAnswer } from './answers.js';
import { commandOf } from './commands.js';
import { Copying } from './copying.js';
import { choose, type Ground, groupLines, groupsOf, useGround, wayOf, waysOf } from './ground.js';
import { groupWords, nameAndCallers } from './labels.js';
import { colourOf, useColours, useShades } from './legend.js';
import { css } from './palette.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, percent, size } from './units.js';

const ONE_LINE = 26;
const TWO_LINES = 42;

/** A group's name, with its callers on a second line. */
export function GroupName({ ground, way, group }: { ground: Ground; way: Way; group: number }) {
  const [name, ...callers] = nameAndCallers(ground, way, group);
  return (
    <div class="group" title={groupLines(ground, way, group).join('\n')}>
      <div class="name">{name}</div>
      {callers.length > 0 && (
        <div class="callers">{callers.map((one) => `← ${one}`).join(' ')}</div>
      )}
    </div>
  );
}

export function WaySelect({ ground }: { ground: Ground }) {
  if (!waysOf(ground.device).length) return null;
  return (
    <label class="field">
      by{' '}
      <select
        value={wayOf(ground)}
        onChange={(event) => change({ by: event.currentTarget.value as Way })}
      >
        {waysOf(ground.device).map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

type Sort = { readonly key: string; readonly descending: boolean };

export function Holders() {
  const ground = useGround();
  const { engine, place, counted: measure, at, state } = ground;
  const way = wayOf(ground);
  const search = state.search ? { include: state.search } : null;
  const colours = useColours(ground);
  const shades = useShades();
  const sort = useSignal<Sort>({ key: 'bytes', descending: true });
  const answer = useAnswer(JSON.stringify([place, measure, at, way, search]), async () => ({
    way,
    ...(await engine.holders({ place, measure, moment: at, way, filter: search })),
  }));
  const found = answer.value?.way === way ? answer.value : null;
  const pin = useAnswer(JSON.stringify([place, state.pin]), async () =>
    state.pin === null ? null : engine.allocation(place, state.pin),
  );
  const pinned = state.pin === null ? undefined : pin.value?.groups[way];
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const name = ({ group }: Holder) => groupWords(ground, way, group)[0] ?? '';
  const groups = [...(found?.groups ?? [])];
  const { key, descending } = sort.value;
  if (key !== 'bytes' || !descending) {
    const order = (a: Holder, b: Holder) =>
      key === 'name'
        ? name(a).localeCompare(name(b))
        : key === 'count'
          ? a.count - b.count
          : a.bytes - b.bytes;
    groups.sort((a, b) => (descending ? order(b, a) : order(a, b)));
  }
  const columns: Column<Holder>[] = [
    {
      key: 'bytes',
      title: 'bytes',
      right: true,
      width: '6.6rem',
      sortable: true,
      cell: ({ bytes }) => (
        <span data-what="bytes" data-bytes={bytes} title={`${count(bytes)} bytes`}>
          {size(bytes)}
        </span>
      ),
    },
    {
      key: 'share',
      spare: true,
      title: 'share',
      right: true,
      width: '8.5rem',
      cell: ({ group, bytes }) => (
        <span class="bar">
          <span class="length">
            <i
              style={{
                width: `${(100 * bytes) / Math.max(found?.groups[0]?.bytes ?? 1, 1)}%`,
                background: css(
                  way === colours.way ? colourOf(colours, shades, group) : shades.others[0]!,
                ),
              }}
            />
          </span>
          <span>{found?.bytes ? percent(bytes / found.bytes) : ''}</span>
        </span>
      ),
    },
    {
      key: 'count',
      title: 'count',
      right: true,
      width: '5rem',
      sortable: true,
      cell: (one) => count(one.count),
    },
    {
      key: 'name',
      title: groupsOf(ground.device, way)?.title ?? way,
      sortable: true,
      cell: ({ group }) => <GroupName ground={ground} way={way} group={group} />,
    },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        <WaySelect ground={ground} />
        {found && (
          <span class="sum">
            <span data-what="total" data-bytes={found.bytes}>
              {size(found.bytes)}
            </span>{' '}
            <span class="dim">({count(found.bytes)} bytes)</span> in {count(found.count)}{' '}
            {found.count === 1 ? 'block' : 'blocks'}
            {state.measure === 'reserved' && ' in use (active bytes)'}
            {search && found.allBytes > 0
              ? `, ${percent(found.bytes / found.allBytes)} of all`
              : ''}
          </span>
        )}
        <Copying
          name="holders"
          csv={() => [
            ['bytes', 'count', way],
            ...groups.map((one) => [
              one.bytes,
              one.count,
              groupLines(ground, way, one.group).join(' <- '),
            ]),
          ]}
          command={commandOf(ground, 'holders')}
        />
      </div>
      <Table
        label={`Who holds it, by ${way}`}
        columns={columns}
        total={groups.length}
        row={(index) => groups[index]}
        rowHeight={way === 'stack' ? TWO_LINES : ONE_LINE}
        sort={sort.value}
        onSort={(next) => {
          sort.value = {
            key: next,
            descending: sort.value.key === next ? !descending : next !== 'name',
          };
        }}
        chosen={({ group }) => (state.group === group && state.of === way) || pinned === group}
        onChoose={({ group }) => choose(ground, way, group)}
        attributes={({ group }) => ({ 'data-group': group })}
        empty={state.search ? 'no live allocation matches' : 'no live allocations'}
      />
    </div>
  );
}
