// The allocations that are live at the cursor, one by one.

import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Allocation, LiveQuery, SortKey } from '../protocol.js';
import { useAnswer } from './answers.js';
import { commandOf } from './commands.js';
import { Copying, type Rows } from './copying.js';
import { filterOf, type Ground, groupLines, useGround } from './ground.js';
import { nameAndCallers } from './labels.js';
import { Selected } from './selected.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, size } from './units.js';

/** Rows per request. */
const PAGE = 200;

function nameOf(ground: Ground, { groups }: Allocation): string {
  return groups.stack === undefined ? '' : groupLines(ground, 'stack', groups.stack).join(' ← ');
}

export function Listing() {
  const ground = useGround();
  const { engine, place, counted: measure, at, state } = ground;
  const sort = useSignal<{ key: SortKey; descending: boolean }>({ key: 'bytes', descending: true });
  const first = useSignal(0);
  const { key, descending } = sort.value;
  const asked: Omit<LiveQuery, 'offset' | 'limit'> = {
    place,
    measure,
    moment: at,
    filter: filterOf(ground),
    sort: key,
    descending,
  };
  const what = JSON.stringify(asked);
  const offset = Math.max(0, Math.floor(first.value / PAGE) * PAGE - PAGE);
  const answer = useAnswer(JSON.stringify([what, offset]), async () => ({
    what,
    offset,
    ...(await engine.live({ ...asked, offset, limit: 3 * PAGE })),
  }));
  const last = useRef(answer.value);
  if (answer.value?.what === what) last.current = answer.value;
  const found = last.current?.what === what ? last.current : null;
  const rows = async (): Promise<Rows> => {
    const all = await engine.live({ ...asked, offset: 0, limit: Number.MAX_SAFE_INTEGER });
    return [
      ['requested_bytes', 'block_bytes', 'allocated', 'freed', 'address', 'stack'],
      ...all.rows.map((one) => [
        one.requested,
        one.block,
        one.made ?? '',
        one.freed ?? '',
        one.address ?? '',
        nameOf(ground, one),
      ]),
    ];
  };
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const columns: Column<Allocation>[] = [
    {
      key: 'bytes',
      title: 'requested',
      right: true,
      width: '7.2rem',
      sortable: true,
      cell: ({ requested }) => (
        <span data-what="bytes" data-bytes={requested} title={`${count(requested)} bytes`}>
          {size(requested)}
        </span>
      ),
    },
    {
      key: 'block',
      spare: true,
      title: 'block',
      right: true,
      width: '6.6rem',
      cell: ({ block }) => size(block),
    },
    {
      key: 'made',
      spare: true,
      title: 'allocated',
      right: true,
      width: '7rem',
      sortable: true,
      cell: ({ made }) => (made === null ? 'before' : count(made)),
    },
    {
      key: 'life',
      spare: true,
      title: 'events live',
      right: true,
      width: '7rem',
      sortable: true,
      cell: ({ made, freed }) =>
        freed === null ? 'to the end' : count(freed - (made ?? ground.device.first_event - 1)),
    },
    {
      key: 'address',
      spare: true,
      title: 'address',
      width: '9.5rem',
      sortable: true,
      cell: ({ address }) => <code>{address}</code>,
    },
    {
      key: 'name',
      title: 'allocated at, and its callers',
      cell: (one) => (
        <span class="name" title={nameOf(ground, one)}>
          {one.groups.stack !== undefined &&
            nameAndCallers(ground, 'stack', one.groups.stack).join(' ← ')}
        </span>
      ),
    },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        {found && (
          <span class="sum">
            <span data-what="total" data-bytes={found.bytes}>
              {size(found.bytes)}
            </span>{' '}
            <span class="dim">({count(found.bytes)} bytes)</span> in {count(found.total)}{' '}
            {found.total === 1 ? 'allocation' : 'allocations'}
          </span>
        )}
        <Selected ground={ground} />
        <Copying name="allocations" command={commandOf(ground, 'list')} csv={rows} />
      </div>
      <Table
        label="Live allocations"
        columns={columns}
        total={found?.total ?? 0}
        row={(index) => (found ? found.rows[index - found.offset] : undefined)}
        rowHeight={26}
        sort={sort.value}
        onSort={(next) => {
          sort.value = { key: next as SortKey, descending: key === next ? !descending : true };
        }}
        chosen={({ id }) => state.pin === id}
        onChoose={({ id }) => change({ pin: state.pin === id ? null : id, group: null })}
        attributes={({ id }) => ({ 'data-id': id })}
        onRange={(from) => {
          first.value = from;
        }}
        empty="no live allocation matches"
      />
    </div>
  );
}
