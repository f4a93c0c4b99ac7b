// The ranks of a run: each with its peak and curve; click one to show it.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { medianOf } from '../core/fleet.js';
import type { Curve, Place } from '../protocol.js';
import { counted } from './answers.js';
import { commandOf } from './commands.js';
import { Copying } from './copying.js';
import { useGround } from './ground.js';
import { ELSEWHERE } from './snapshots.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, counted as numbered, signedSize, size } from './units.js';

const COLUMNS = 160;
const HEIGHT = 22;

interface Row extends Place {
  readonly name: string;
  readonly peak: number;
}

function Spark({ curve, most }: { curve: Curve | undefined; most: number }) {
  if (!curve) return <span class="dim">…</span>;
  const points = Array.from(curve.high, (bytes, i) =>
    Number.isNaN(bytes) ? '' : `${i},${(HEIGHT * (1 - bytes / Math.max(most, 1))).toFixed(1)}`,
  ).join(' ');
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${COLUMNS} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={`0,${HEIGHT} ${points} ${COLUMNS},${HEIGHT}`} />
    </svg>
  );
}

export function Ranks() {
  const ground = useGround();
  const { page, engine, place, state, axis } = ground;
  const { measure } = state;
  const curves = useSignal<ReadonlyMap<string, Curve>>(new Map());
  const seen = useSignal<readonly [number, number]>([0, 20]);
  const rows: Row[] = page.snapshots
    .flatMap(({ name, devices }, snapshot) =>
      devices.map((one, device) => ({
        snapshot,
        device,
        name: devices.length > 1 ? `${name}, device ${one.device}` : name,
        peak: one.peaks[measure].bytes,
      })),
    )
    .sort((a, b) => b.peak - a.peak);
  const most = rows[0]?.peak ?? 1;
  const median = medianOf(rows.map(({ peak }) => peak).reverse());
  const key = (one: Place) => `${one.snapshot} ${one.device} ${measure}`;
  useEffect(() => {
    let gone = false;
    const get = async () => {
      for (const one of rows.slice(seen.value[0], seen.value[1] + 1)) {
        if (gone || curves.value.has(key(one))) continue;
        const device = page.snapshots[one.snapshot]!.devices[one.device]!;
        await engine.open(one.snapshot);
        const span = { from: 0, to: device.events + 1 };
        const where = { snapshot: one.snapshot, device: one.device };
        const curve = await engine.curve({
          place: where,
          measure,
          axis: 'event',
          span,
          columns: COLUMNS,
        });
        curves.value = new Map(curves.value).set(key(one), curve);
      }
    };
    void counted(get());
    return () => {
      gone = true;
    };
  }, [measure, seen.value, axis]);
  const columns: Column<Row>[] = [
    { key: 'name', title: 'rank', width: '9rem', cell: ({ name }) => name },
    {
      key: 'peak',
      title: 'peak',
      right: true,
      width: '6.5rem',
      cell: ({ peak }) => (
        <span data-what="bytes" data-bytes={peak} title={`${count(peak)} bytes`}>
          {size(peak)}
        </span>
      ),
    },
    {
      key: 'exact',
      title: 'bytes',
      right: true,
      width: '8.5rem',
      spare: true,
      cell: ({ peak }) => count(peak),
    },
    {
      key: 'median',
      title: 'vs. median',
      right: true,
      width: '8rem',
      spare: true,
      cell: ({ peak }) => signedSize(peak - median),
    },
    {
      key: 'curve',
      title: 'over the recording',
      cell: (one) => <Spark curve={curves.value.get(key(one))} most={most} />,
    },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        <span class="sum">
          {numbered(page.snapshots.length, 'rank')}, highest peak first; the median is{' '}
          {size(median)}
        </span>
        <Copying
          name="ranks"
          command={commandOf(ground, 'ranks')}
          csv={() => [
            ['rank', `peak_${measure}_bytes`],
            ...rows.map((one) => [one.name, one.peak]),
          ]}
        />
      </div>
      <Table
        label="Ranks"
        columns={columns}
        total={rows.length}
        row={(index) => rows[index]}
        rowHeight={30}
        chosen={(one) => one.snapshot === place.snapshot && one.device === place.device}
        onChoose={({ snapshot, device }) => change({ ...ELSEWHERE, snapshot, device })}
        onRange={(first, last) => {
          if (first !== seen.value[0] || last !== seen.value[1]) seen.value = [first, last];
        }}
      />
    </div>
  );
}
