// How much of the picture each group is: bytes times the events that they are live for.

import type { Grouping } from './groups.js';
import type { Timeline } from './lives.js';

/** Of each group its sum over all moments, up to the highest group that there is. */
export function prominence({ bytes, ends, events }: Timeline, groups: Grouping): Float64Array {
  const { begin, end } = ends;
  let most = 0;
  for (let id = 0; id < begin.length; id++) most = Math.max(most, groups.at(id) + 1);
  const found = new Float64Array(most);
  for (let id = 0; id < begin.length; id++) {
    // Live at moments begin < m <= end, of which the last one is that of the last event.
    const moments = Math.min(end[id]!, events) - begin[id]!;
    if (moments > 0) found[groups.at(id)]! += bytes[id]! * moments;
  }
  return found;
}
