// The holders of memory at a moment, by group, and what was allocated and freed between two
// moments.

import type { Changed, Held, Holders } from '../protocol.js';
import type { Grouping } from './groups.js';
import type { Timeline } from './lives.js';
import type { Selection } from './search.js';

/** Sums of groups. Their numbers may have gaps. */
class Sums {
  private readonly sums = new Map<number, { bytes: number; count: number; heights: number }>();

  /** Adds an allocation; `height` is the middle of its bytes in the stack. */
  add(group: number, bytes: number, height = 0): void {
    const sum = this.sums.get(group);
    if (!sum) this.sums.set(group, { bytes, count: 1, heights: bytes * height });
    else {
      sum.bytes += bytes;
      sum.count++;
      sum.heights += bytes * height;
    }
  }

  of(group: number): Omit<Held, 'group'> {
    const { bytes, count, heights } = this.sums.get(group) ?? { bytes: 0, count: 0, heights: 0 };
    return { bytes, count, level: bytes ? heights / bytes : 0 };
  }

  get groups(): IterableIterator<number> {
    return this.sums.keys();
  }
}

/** The groups of the selected allocations (null: all of them) that are live at a moment. */
export function holders(
  timeline: Timeline,
  moment: number,
  grouping: Grouping,
  selected: Selection | null,
): Holders {
  const { bytes } = timeline;
  const live = timeline.live(moment);
  const sums = new Sums();
  let all = 0;
  let count = 0;
  let height = 0;
  for (const id of live) {
    height += bytes[id]!;
    if (selected && !selected.has(id)) continue;
    sums.add(grouping.at(id), bytes[id]!, height - bytes[id]! / 2);
    all += bytes[id]!;
    count++;
  }
  const groups: Held[] = Array.from(sums.groups, (group) => ({ group, ...sums.of(group) }));
  groups.sort((a, b) => b.bytes - a.bytes || a.group - b.group);
  return {
    bytes: all,
    count,
    allBytes: timeline.usage.at(moment),
    allCount: live.length,
    groups,
  };
}

/** What was allocated and freed between two moments, by group, largest change first. */
export function between(
  timeline: Timeline,
  moment: number,
  later: number,
  grouping: Grouping,
  selected: Selection | null,
): Changed[] {
  const { bytes } = timeline;
  const { begin, end } = timeline.ends;
  const [first, last] = moment <= later ? [moment, later] : [later, moment];
  const came = new Sums();
  const went = new Sums();
  for (const id of timeline.live(first)) {
    if (end[id]! >= last || (selected && !selected.has(id))) continue;
    went.add(grouping.at(id), bytes[id]!);
  }
  for (const id of timeline.live(last)) {
    if (begin[id]! < first || (selected && !selected.has(id))) continue;
    came.add(grouping.at(id), bytes[id]!);
  }
  const found = Array.from(new Set([...came.groups, ...went.groups]), (group): Changed => {
    const [more, less] = [came.of(group), went.of(group)];
    return {
      group,
      bytes: more.bytes - less.bytes,
      count: more.count - less.count,
      came: more.bytes,
      cameCount: more.count,
      went: less.bytes,
      wentCount: less.count,
    };
  });
  return found.sort(
    (a, b) =>
      Math.abs(b.bytes) - Math.abs(a.bytes) ||
      b.came + b.went - (a.came + a.went) ||
      a.group - b.group,
  );
}
