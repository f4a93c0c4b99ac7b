// How much of the picture each group fills: bytes times the number of events for which they're live.

import type { Grouping } from './groups.js';
import type { Timeline } from './lives.js';

/** Each group's sum over all moments, up to the highest group number. */
export function prominence({ bytes, ends, events }: Timeline, groups: Grouping): Float64Array {
  const { begin, end } = ends;
  let most = 0;
  for (let id = 0; id < begin.length; id++) most = Math.max(most, groups.at(id) + 1);
  const found = new Float64Array(most);
  for (let id = 0; id < begin.length; id++) {
    // An allocation is live at moments begin < m <= end, at most up to the last event's moment.
    const moments = Math.min(end[id]!, events) - begin[id]!;
    if (moments > 0) found[groups.at(id)]! += bytes[id]! * moments;
  }
  return found;
}
