// Live bytes per line of one file: of all allocations with that line in their stacks.

import type { Holder } from '../protocol.js';
import type { Live } from './tree.js';

/** Returns lines as groups, in the order of lines. An allocation counts for each line of the file in
 * its stack, but only once. `file` is an index in the snapshot's `texts`. */
export function fileLines(
  { code, timeline, moment, stacks, selected }: Live,
  file: number,
): Holder[] {
  const { frames, ids, offsets } = code;
  const found = new Map<number, { group: number; bytes: number; count: number }>();
  const known = new Map<number, ReadonlySet<number>>();
  for (const id of timeline.live(moment)) {
    if (selected && !selected.has(id)) continue;
    const stack = stacks[id]!;
    let lines = known.get(stack);
    if (!lines) {
      const own = ids.subarray(offsets[stack] ?? 0, offsets[stack + 1] ?? 0);
      lines = new Set(
        Array.from(
          own.filter((one) => frames.files[one] === file),
          (one) => frames.lines[one]!,
        ),
      );
      known.set(stack, lines);
    }
    for (const line of lines) {
      const sum = found.get(line) ?? { group: line, bytes: 0, count: 0 };
      sum.bytes += timeline.bytes[id]!;
      sum.count++;
      found.set(line, sum);
    }
  }
  return [...found.values()].sort((a, b) => a.group - b.group);
}
