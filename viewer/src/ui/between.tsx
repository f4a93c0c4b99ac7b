// Bytes allocated and freed between two cursors, by group.

import { useSignal } from '@preact/signals';
import type { Changed } from '../protocol.js';
import { useAnswer } from './answers.js';
import { commandOf } from './commands.js';
import { Copying } from './copying.js';
import { choose, eventOf, groupLines, groupsOf, useGround, wayOf } from './ground.js';
import { GroupName, WaySelect } from './holders.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, signedCount, signedSize, size } from './units.js';

type Key = 'bytes' | 'came' | 'went' | 'count';

export function Between() {
  const ground = useGround();
  const { engine, place, counted: measure, at, other, state } = ground;
  const way = wayOf(ground);
  const sort = useSignal<{ key: Key; descending: boolean }>({ key: 'bytes', descending: true });
  const first = other === null ? at : Math.min(at, other);
  const later = other === null ? at : Math.max(at, other);
  const filter = state.search ? { include: state.search } : null;
  const answer = useAnswer(
    JSON.stringify([place, measure, first, later, way, filter]),
    async () => ({
      way,
      rows: await engine.between({ place, measure, moment: first, way, filter }, later),
    }),
  );
  if (other === null) {
    return (
      <p class="hint">
        Hold Shift and drag over the picture, or press [ and ] at two moments, to see what was
        allocated and freed in between.
      </p>
    );
  }
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const found = answer.value?.way === way ? answer.value.rows : [];
  const net = found.reduce((sum, one) => sum + one.bytes, 0);
  const { key, descending } = sort.value;
  const rows = [...found].sort((a, b) =>
    key === 'bytes'
      ? (descending ? 1 : -1) * (Math.abs(b.bytes) - Math.abs(a.bytes))
      : (descending ? 1 : -1) * (b[key] - a[key]),
  );
  const bytes = (k: Key, title: string, show: (one: Changed) => string): Column<Changed> => ({
    key: k,
    title,
    right: true,
    width: '7rem',
    sortable: true,
    cell: (one) => (
      <span
        class={k === 'bytes' ? (one.bytes > 0 ? 'more' : 'less') : ''}
        data-what={k}
        data-bytes={one[k]}
      >
        {show(one)}
      </span>
    ),
  });
  const columns: Column<Changed>[] = [
    bytes('bytes', 'net', (one) => signedSize(one.bytes)),
    { ...bytes('came', 'allocated', (one) => size(one.came)), spare: true },
    { ...bytes('went', 'freed', (one) => size(one.went)), spare: true },
    {
      key: 'count',
      title: 'count',
      right: true,
      width: '5rem',
      sortable: true,
      cell: (one) => signedCount(one.count),
    },
    {
      key: 'name',
      title: groupsOf(ground.device, way)?.title ?? way,
      cell: ({ group }) => <GroupName ground={ground} way={way} group={group} />,
    },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        <WaySelect ground={ground} />
        <span class="sum">
          <span data-what="total" data-bytes={net}>
            {signedSize(net)}
          </span>{' '}
          <span class="dim">
            ({signedCount(net)} bytes) between events {count(eventOf(ground, first))} and{' '}
            {count(eventOf(ground, later))}
          </span>
        </span>
        <button type="button" class="small" onClick={() => change({ other: null })}>
          clear
        </button>
        <Copying
          name="between"
          command={commandOf(ground, 'between')}
          note="lists both ends"
          csv={() => [
            ['net_bytes', 'allocated_bytes', 'freed_bytes', 'count', way],
            ...rows.map((one) => [
              one.bytes,
              one.came,
              one.went,
              one.count,
              groupLines(ground, way, one.group).join(' <- '),
            ]),
          ]}
        />
      </div>
      <Table
        label="Allocated and freed"
        columns={columns}
        total={rows.length}
        row={(index) => rows[index]}
        rowHeight={way === 'stack' ? 42 : 26}
        sort={sort.value}
        onSort={(next) => {
          sort.value = { key: next as Key, descending: key === next ? !descending : true };
        }}
        chosen={({ group }) => state.group === group && state.of === way}
        onChoose={({ group }) => choose(ground, way, group)}
        attributes={({ group }) => ({ 'data-group': group })}
        empty="no changes in between"
      />
    </div>
  );
}
