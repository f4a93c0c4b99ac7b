// The groups whose blocks keep free memory from being returned to the driver at the cursor.

import { useSignal } from '@preact/signals';
import type { Blocker, Blocking, PoolShare } from '../protocol.js';
import { useAnswer } from './answers.js';
import { groupName } from './canvas/blocks/words.js';
import { Copying, type Rows } from './copying.js';
import { choose, type Ground, groupLines, groupsOf, useGround, wayOf } from './ground.js';
import { GroupName, WaySelect } from './holders.js';
import { colourOf, useColours, useShades } from './legend.js';
import { css } from './palette.js';
import { type Column, Table } from './table.js';
import { count, percent, size } from './units.js';

const ONE_LINE = 26;
const TWO_LINES = 42;
/** The heights of the title row, and of the message if there are no other rows. */
const TITLES = 28;
const NO_ROWS = 44;

type Key = 'bytes' | 'alone' | 'count' | 'segments';

export function Blockers() {
  const ground = useGround();
  const { engine, place, at, state } = ground;
  const way = wayOf(ground);
  const colours = useColours(ground);
  const shades = useShades();
  const sort = useSignal<{ key: Key; descending: boolean }>({ key: 'bytes', descending: true });
  const answer = useAnswer(JSON.stringify([place, at, way]), async () => ({
    way,
    ...(await engine.blockers(place, at, way)),
  }));
  const pin = useAnswer(JSON.stringify([place, state.pin]), async () =>
    state.pin === null ? null : engine.allocation(place, state.pin),
  );
  const pinned = state.pin === null ? undefined : pin.value?.groups[way];
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const found = answer.value?.way === way ? answer.value : null;
  const { key, descending } = sort.value;
  const rows = [...(found?.blockers ?? [])];
  if (key !== 'bytes' || !descending) {
    rows.sort((a, b) => (descending ? b[key] - a[key] : a[key] - b[key]));
  }
  const most = Math.max(found?.blockers[0]?.bytes ?? 1, 1);
  const bytes = (k: 'bytes' | 'alone', title: string): Column<Blocker> => ({
    key: k,
    title,
    right: true,
    width: '6.6rem',
    sortable: true,
    cell: (one) => (
      <span data-what={k} data-bytes={one[k]} title={`${count(one[k])} bytes`}>
        {size(one[k])}
      </span>
    ),
  });
  const counts = (k: 'count' | 'segments', title: string): Column<Blocker> => ({
    key: k,
    title,
    right: true,
    width: '5.4rem',
    sortable: true,
    cell: (one) => count(one[k]),
  });
  const columns: Column<Blocker>[] = [
    bytes('bytes', 'blocked'),
    {
      key: 'share',
      spare: true,
      title: 'share',
      right: true,
      width: '8.5rem',
      cell: (one) => (
        <span class="bar">
          <span class="length">
            <i
              style={{
                width: `${(100 * one.bytes) / most}%`,
                background: css(
                  way === colours.way ? colourOf(colours, shades, one.group) : shades.others[0]!,
                ),
              }}
            />
          </span>
          <span>{found?.blocked ? percent(one.bytes / found.blocked) : ''}</span>
        </span>
      ),
    },
    bytes('alone', 'alone'),
    { ...counts('count', 'blocks'), spare: true },
    { ...counts('segments', 'segments'), spare: true },
    {
      key: 'name',
      title: groupsOf(ground.device, way)?.pinned_title ?? way,
      cell: ({ group }) => <GroupName ground={ground} way={way} group={group} />,
    },
  ];
  const rowHeight = way === 'stack' ? TWO_LINES : ONE_LINE;
  const high = TITLES + (rows.length ? rows.length * rowHeight : NO_ROWS);
  return (
    <>
      <div class="toolbar blockers">
        <WaySelect ground={ground} />
        {found && <Sum found={found} />}
        {found && (
          <Copying name="blockers" command={null} csv={() => blockerRows(ground, found, rows)} />
        )}
      </div>
      {found && found.pools.length > 1 && <Shares pools={found.pools} />}
      {/* The table is no higher than its rows, because the map gets the rest. */}
      <div class="blocked" style={{ '--high': `${high}px` }}>
        <Table
          label={`Who blocks free memory, by ${way}`}
          columns={columns}
          total={rows.length}
          row={(index) => rows[index]}
          rowHeight={rowHeight}
          sort={sort.value}
          onSort={(next) => {
            sort.value = { key: next as Key, descending: key === next ? !descending : true };
          }}
          chosen={({ group }) => (state.group === group && state.of === way) || pinned === group}
          onChoose={({ group }) => choose(ground, way, group)}
          attributes={({ group }) => ({ 'data-group': group })}
          empty={found ? 'no free memory is blocked here' : '…'}
        />
      </div>
    </>
  );
}

/** Describes how much can be returned and how much can't. */
function Sum({ found }: { found: Blocking }) {
  const { free, blocked, returned, returnedPending, privateReturned } = found;
  return (
    <span class="sum">
      <span data-what="blocked" data-bytes={blocked}>
        {blocked ? size(blocked) : 'nothing'}
      </span>{' '}
      of the {size(free)} free {blocked ? 'are' : 'is'} blocked by blocks in use next to them;
      empty_cache() gives back{' '}
      <span data-what="returned" data-bytes={returned}>
        {size(returned)}
      </span>
      {returnedPending > 0 ? `, ${size(returnedPending)} of it is waiting for a stream` : ''}
      {privateReturned > 0
        ? `; at most ${size(privateReturned)} more if private pools were released`
        : ''}
    </span>
  );
}

/** Free memory serves only requests of its own pool, stream and kind. */
function Shares({ pools }: { pools: readonly PoolShare[] }) {
  return (
    <details class="shares">
      <summary>by pool, stream and kind</summary>
      <table>
        <thead>
          <tr>
            {['free', 'largest', 'can go', 'in use', 'reserved', 'segments'].map((title) => (
              <th key={title} scope="col" class="right">
                {title}
              </th>
            ))}
            <th scope="col">for requests of</th>
          </tr>
        </thead>
        <tbody>
          {pools.map((one) => (
            <tr key={`${one.pool} ${one.stream} ${one.small}`}>
              <td class="right">{size(one.free)}</td>
              <td class="right">{size(one.largest)}</td>
              <td class="right">
                {one.pool !== '0:0' && one.returnable > 0 ? '≤ ' : ''}
                {size(one.returnable)}
              </td>
              <td class="right">{size(one.inUse)}</td>
              <td class="right">{size(one.reserved)}</td>
              <td class="right">{count(one.segments)}</td>
              <td>
                {one.small ? 'small' : 'large'}, {groupName(one.pool, one.stream)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

/** One row per group. */
function blockerRows(ground: Ground, { blocked }: Blocking, rows: readonly Blocker[]): Rows {
  const way = wayOf(ground);
  return [
    ['blocked_bytes', 'share', 'alone_bytes', 'blocks', 'segments', way],
    ...rows.map((one) => [
      one.bytes,
      blocked ? one.bytes / blocked : 0,
      one.alone,
      one.count,
      one.segments,
      groupLines(ground, way, one.group).join(' <- '),
    ]),
  ];
}
