// Each allocation's group, for each key.

import { type Coded, type Counts, integers } from './columns.js';
import type { PageGroups } from './page.js';

/** The group of each allocation. */
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

/** The number of bits in a number: 0 for 0, 1 for 1, 2 for 2 and 3. */
export function bits(bytes: number): number {
  const high = Math.floor(bytes / 2 ** 32);
  return high ? 64 - Math.clz32(high) : 32 - Math.clz32(bytes);
}

/** Returns the groups of a device's allocations by one key. `stacks` returns each allocation's
 * stack, and `bytes` its size by the measure that groups by size refer to. */
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
