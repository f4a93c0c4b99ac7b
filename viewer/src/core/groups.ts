// Which group each allocation is in, by each way.

import { type Coded, type Counts, integers } from './columns.js';
import type { PageGroups } from './page.js';

/** Of each allocation its group. */
export interface Grouping {
  at(id: number): number;
}

class ByStack implements Grouping {
  constructor(
    private readonly groups: Int32Array,
    private readonly stacks: Int32Array,
  ) {}

  at(id: number): number {
    return this.groups[this.stacks[id]!]!;
  }
}

class ByLife implements Grouping {
  constructor(private readonly groups: Int32Array) {}

  at(id: number): number {
    return this.groups[id]!;
  }
}

class BySize implements Grouping {
  constructor(private readonly bytes: Counts) {}

  at(id: number): number {
    return bits(this.bytes[id]!);
  }
}

/** How many bits a number has: 0 of 0, 1 of 1, 2 of 2 and 3. */
export function bits(bytes: number): number {
  const high = Math.floor(bytes / 2 ** 32);
  return high ? 64 - Math.clz32(high) : 32 - Math.clz32(bytes);
}

/** The groups of a device's allocations by one way. `stacks` are those of its allocations, `bytes`
 * theirs by the measure that sizes go by. */
export function grouping(
  said: PageGroups,
  data: Uint8Array,
  stacks: () => Int32Array,
  bytes: () => Counts,
): Grouping {
  const column = (coded: Coded): Int32Array => integers(data, coded);
  if (said.of_stacks) return new ByStack(column(said.of_stacks), stacks());
  if (said.of_lives) return new ByLife(column(said.of_lives));
  return new BySize(bytes());
}
