// The allocator's events around the cursor, or those of one address, next to the allocator's map.

import { useRef } from 'preact/hooks';
import type { EventRow, Events as Found } from '../protocol.js';
import { Allocator } from './allocator.js';
import { useAnswer } from './answers.js';
import { Copying, type Rows } from './copying.js';
import { groupLines, useGround } from './ground.js';
import { groupWords } from './labels.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, size } from './units.js';

/** The number of listed events, and how many of them are at least before and after the cursor. */
const LISTED = 2000;
const ASIDE = 100;

export function Events() {
  const ground = useGround();
  const { engine, place, at, device, state } = ground;
  const { address } = state;
  // The list stays where it is while the cursor moves within it.
  const first = useRef(0);
  const event = Math.max(at - 1, 0);
  const below = Math.min(first.current + LISTED, device.events) < device.events;
  if (
    event < first.current + (first.current ? ASIDE : 0) ||
    event >= first.current + LISTED - (below ? ASIDE : 0)
  ) {
    first.current = Math.max(Math.min(event - LISTED / 2, device.events - LISTED), 0);
  }
  const from = address ? 0 : first.current;
  const limit = address ? Number.MAX_SAFE_INTEGER : LISTED;
  const key = JSON.stringify([place, address, from]);
  const answer = useAnswer(
    key,
    async (): Promise<Found & { key: string }> => ({
      key,
      ...(await engine.events(place, address, from, limit)),
    }),
  );
  const pinned = useAnswer(JSON.stringify([place, state.pin]), async () =>
    state.pin === null ? '' : (await engine.allocation(place, state.pin)).address,
  );
  const rows = answer.value?.rows ?? [];
  const nameOf = ({ stack }: EventRow) =>
    stack < 0 ? '' : groupLines(ground, 'stack', stack).join(' ← ');
  const columns: Column<EventRow>[] = [
    {
      key: 'event',
      title: 'event',
      right: true,
      width: '5.2rem',
      cell: (one) => count(one.event),
    },
    {
      key: 'action',
      title: 'action',
      width: '9.2rem',
      cell: ({ action }) => <span class={action === 'oom' ? 'warning' : ''}>{action}</span>,
    },
    {
      key: 'bytes',
      title: 'bytes',
      right: true,
      width: '6.4rem',
      cell: ({ bytes }) =>
        bytes !== null && <span title={`${count(bytes)} bytes`}>{size(bytes)}</span>,
    },
    {
      key: 'address',
      title: 'address',
      width: '9.5rem',
      cell: (one) => <code>{one.address}</code>,
    },
    {
      key: 'where',
      spare: true,
      title: 'pool, stream',
      width: '7.6rem',
      cell: ({ pool, stream }) => [pool, stream].filter((one) => one !== null).join(', '),
    },
    {
      key: 'name',
      title: 'allocated at, and its callers',
      cell: (one) => (
        <span class="name" title={nameOf(one)}>
          {one.stack < 0 ? '' : groupWords(ground, 'stack', one.stack, true).join(' ← ')}
        </span>
      ),
    },
  ];
  const csv = async (): Promise<Rows> => {
    const all = await engine.events(place, address, 0, Number.MAX_SAFE_INTEGER);
    return [
      ['event', 'us', 'action', 'bytes', 'address', 'pool', 'stream', 'stack'],
      ...all.rows.map((one) => [
        one.event,
        one.us ?? '',
        one.action,
        one.bytes ?? '',
        one.address,
        one.pool ?? '',
        one.stream ?? '',
        nameOf(one),
      ]),
    ];
  };
  return (
    <div class="events">
      <div class="panel">
        <div class="toolbar">
          <input
            type="search"
            placeholder="Address (0x7f…)"
            aria-label="Only events of the block at this address"
            value={address}
            onInput={(typed) => change({ address: typed.currentTarget.value.trim() })}
          />
          {pinned.value && pinned.value !== address && (
            <button
              type="button"
              class="small"
              title="Only events of the selected allocation's address"
              onClick={() => change({ address: pinned.value! })}
            >
              selected
            </button>
          )}
          <span class="sum" data-what="events">
            {answer.value && !answer.error && `${count(answer.value.total)} events`}
          </span>
          <Copying name="events" command={null} csv={csv} />
        </div>
        {answer.error ? (
          <p class="failed">{answer.error}</p>
        ) : (
          <Table
            label="Allocator events"
            columns={columns}
            total={rows.length}
            row={(index) => rows[index]}
            rowHeight={26}
            shown={
              answer.value?.key === key
                ? rows.filter(({ moment }) => moment <= at).length - 1
                : undefined
            }
            chosen={({ moment }) => moment === at}
            onChoose={({ moment, id }) =>
              change({ at: moment, pin: id < 0 ? null : id, group: null })
            }
            attributes={(one) => ({ 'data-event': one.event })}
            empty="no event"
          />
        )}
      </div>
      <Allocator blockers={false} />
    </div>
  );
}
