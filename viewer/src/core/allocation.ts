// One allocation, as the page describes it.

import type { Allocation } from '../protocol.js';
import type { Device } from './device.js';
import type { Way } from './page.js';

export function allocation(device: Device, id: number): Allocation {
  const { said } = device;
  const { begin, end } = device.ends(false);
  const { end: asked } = device.ends(true);
  const [made, freed, let_go] = [begin[id]!, end[id]!, asked[id]!];
  const event = (at: number): number => at + said.first_event;
  const done = freed < said.events;
  const groups: Partial<Record<Way, number>> = {};
  for (const { way } of said.groups) groups[way] = device.grouping(way, 'requested')!.at(id);
  const address = device.addresses[id]!;
  return {
    id,
    made: made < 0 ? null : event(made),
    freed: done ? event(freed) : null,
    // Null if the free was never requested, or was requested before the trace.
    asked: let_go >= 0 && let_go < freed ? event(let_go) : null,
    madeUs: made < 0 ? null : device.timeOf(made),
    freedUs: done ? device.timeOf(freed) : null,
    requested: device.bytes('requested')[id]!,
    block: device.bytes('active')[id]!,
    address: address ? device.addressText(address - 1) : '',
    stack: device.stacks[id]!,
    groups,
    stream: said.streams[device.streams[id]!] ?? null,
    pool: poolText(said.pools[device.pools[id]!]),
  };
}

/** `0:1`; null for an unknown pool. */
export function poolText(pool: readonly [number, number] | null | undefined): string | null {
  return pool ? pool.join(':') : null;
}
