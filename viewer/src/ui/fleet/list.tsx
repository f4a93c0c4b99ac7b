// The ranks as a sortable table.

import { useMemo } from 'preact/hooks';
import { bytesAt, type Curves, type PageRank } from '../../core/fleet.js';
import { Copying } from '../copying.js';
import { quoted } from '../quoting.js';
import { type Column, Table } from '../table.js';
import { count, counted, size } from '../units.js';
import { RankLink } from './link.js';
import { change, type Sort, state } from './state.js';
import { mostWords, overWords, rowsTitle, sizeOrNot, troubleWords } from './words.js';
import { useWorld } from './world.js';

const HEIGHT = 22;

interface Row {
  readonly place: number;
  readonly one: PageRank;
}

/** A number or text to sort rows by; missing values come last in either direction. */
const KEYS: Record<Sort, (one: PageRank) => number | string | null> = {
  rank: ({ rank }) => rank,
  peak: ({ device, peak_bytes }) => (device === null ? null : peak_bytes),
  reserved: ({ reserved_bytes }) => reserved_bytes,
  headroom: ({ headroom_bytes }) => headroom_bytes,
  alike: ({ group }) => group,
  host: ({ host }) => host,
};

export function sorted(ranks: readonly PageRank[], sort: Sort, descending: boolean): Row[] {
  const key = KEYS[sort];
  const sign = descending ? -1 : 1;
  return ranks
    .map((one, place) => ({ one, place }))
    .sort((a, b) => {
      const [x, y] = [key(a.one), key(b.one)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return x === y ? a.place - b.place : x < y ? -sign : sign;
    });
}

function Spark({ curves, place, most }: { curves: Curves; place: number; most: number }) {
  const { moments } = curves;
  const points = Array.from({ length: moments }, (_, moment) => {
    const bytes = bytesAt(curves, place, moment);
    return Number.isNaN(bytes) ? '' : `${moment},${(HEIGHT * (1 - bytes / most)).toFixed(1)}`;
  }).filter(Boolean);
  if (points.length < 2) return null;
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${moments - 1} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={`0,${HEIGHT} ${points.join(' ')} ${points.length - 1},${HEIGHT}`} />
    </svg>
  );
}

/** Marks a rank that needs a look, also where the column with the words doesn't fit. */
function Odd({ trouble }: { trouble: string }) {
  if (!trouble) return null;
  return (
    <span class="warning" role="img" aria-label={trouble} title={trouble}>
      !
    </span>
  );
}

export function List() {
  const { page, curves, lying, median } = useWorld();
  const { sort, descending, rank } = state.value;
  const rows = useMemo(() => sorted(page.ranks, sort, descending), [page, sort, descending]);
  const most = useMemo(() => lying.reduce((high, { max }) => Math.max(high, max || 0), 1), [lying]);
  const hosts = page.ranks.some(({ host }) => host !== null);
  const heads = page.ranks.some(({ headroom_bytes }) => headroom_bytes !== null);
  const bytes = (key: Sort, title: string, of: (one: PageRank) => number | null): Column<Row> => ({
    key,
    title,
    right: true,
    width: '6.5rem',
    sortable: true,
    cell: ({ one }) => {
      const now = one.device === null ? null : of(one);
      return now === null ? (
        ''
      ) : (
        <span data-what={key} data-bytes={now} title={`${count(now)} bytes`}>
          {size(now)}
        </span>
      );
    },
  });
  const columns: Column<Row>[] = [
    {
      key: 'rank',
      title: page.noun,
      width: '7rem',
      sortable: true,
      cell: ({ one }) => (
        <>
          <RankLink one={one} /> <Odd trouble={troubleWords(one)} />
        </>
      ),
    },
    bytes('peak', 'peak', ({ peak_bytes }) => peak_bytes),
    {
      key: 'over',
      title: 'vs. median',
      right: true,
      width: '7.5rem',
      spare: true,
      cell: ({ one }) => (one.device === null ? '' : overWords(one.peak_bytes, median)),
    },
    bytes('reserved', 'reserved', ({ reserved_bytes }) => reserved_bytes),
    ...(heads ? [bytes('headroom', 'headroom', ({ headroom_bytes }) => headroom_bytes)] : []),
    {
      key: 'alike',
      title: 'group',
      right: true,
      width: '4.5rem',
      spare: true,
      sortable: true,
      cell: ({ one }) => (one.group === null ? '' : count(one.group + 1)),
    },
    ...(hosts
      ? [
          {
            key: 'host',
            title: 'host',
            width: '8rem',
            spare: true,
            sortable: true,
            cell: ({ one }: Row) => one.host ?? '',
          },
        ]
      : []),
    {
      key: 'most',
      title: 'largest',
      width: '19rem',
      spare: true,
      cell: ({ one }) => (
        <>
          {mostWords(page, one)} <span class="warning">{troubleWords(one)}</span>
        </>
      ),
    },
    {
      key: 'curve',
      title: page.curve_by === 'steps' ? 'by step' : 'over the recording',
      cell: ({ place }) => <Spark curves={curves} place={place} most={most} />,
    },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        <span class="sum">
          {counted(page.ranks.length, page.noun)}; the median peak is {size(median)}
        </span>
        <Copying
          name={`${page.noun}s`}
          command={`memreplay fleet ${page.title.split(', ').map(quoted).join(' ')} --top 0`}
          csv={() => [
            [page.noun, 'peak_bytes', 'reserved_bytes', 'headroom_bytes', 'host', 'file', 'error'],
            ...rows.map(({ one }) => [
              one.rank ?? '',
              one.device === null ? '' : one.peak_bytes,
              one.reserved_bytes ?? '',
              sizeOrNot(one.headroom_bytes) && (one.headroom_bytes ?? ''),
              one.host ?? '',
              one.file,
              one.error ?? '',
            ]),
          ]}
        />
      </div>
      <Table
        label={rowsTitle(page)}
        columns={columns}
        total={rows.length}
        row={(index) => rows[index]}
        rowHeight={28}
        sort={{ key: sort, descending }}
        onSort={(key) =>
          change(
            key === sort
              ? { descending: !descending }
              : { sort: key as Sort, descending: key !== 'rank' && key !== 'host' },
          )
        }
        chosen={({ place }) => place === rank}
        onChoose={({ place }) => change({ rank: place })}
        attributes={({ one }) => ({ 'data-rank': one.rank ?? '' })}
      />
    </div>
  );
}
