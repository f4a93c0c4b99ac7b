// The allocations live at a moment, sorted, a page at a time.

import type { LiveQuery, LiveRows, SortKey } from '../protocol.js';
import { allocation } from './allocation.js';
import type { Device } from './device.js';
import type { Timeline } from './lives.js';
import type { Selection } from './search.js';

export type Order = Pick<LiveQuery, 'sort' | 'descending' | 'offset' | 'limit'>;

/** Returns the selected allocations (null: all of them) that are live at a moment, in the requested
 * order. Among equal ones, the older comes first. */
export function listing(
  device: Device,
  timeline: Timeline,
  moment: number,
  selected: Selection | null,
  { sort, descending, offset, limit }: Order,
): LiveRows {
  const live = timeline.live(moment);
  const ids = selected ? live.filter((id) => selected.has(id)) : live;
  const { bytes } = timeline;
  let sum = 0;
  for (const id of ids) sum += bytes[id]!;
  const key = keys(device, timeline, sort);
  const sign = descending ? -1 : 1;
  const sorted = ids.sort((a, b) => sign * (key(a) - key(b)) || a - b);
  const rows = Array.from(sorted.subarray(offset, offset + limit), (id) => allocation(device, id));
  return { total: ids.length, bytes: sum, rows };
}

function keys(device: Device, { bytes }: Timeline, sort: SortKey): (id: number) => number {
  const { begin, end } = device.ends(false);
  if (sort === 'bytes') return (id) => bytes[id]!;
  // Carried-over allocations all have the same begin. Allocations that never end sort last.
  if (sort === 'made') return (id) => begin[id]!;
  if (sort === 'life') return (id) => end[id]! - begin[id]!;
  const { addresses } = device;
  return (id) => addresses[id]!;
}
