// Data shared by all parts of the page: the displayed device, its peaks, and its extent.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Measure, Page, PageData, PageDevice, PageGroups, Way } from '../core/page.js';
import type { Axis, Filter, Frames, Place, Span } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import { counted } from './answers.js';
import { state as current, type State } from './state.js';

export interface Ground {
  readonly page: Page;
  readonly engine: Remote;
  readonly state: State;
  readonly place: Place;
  readonly snapshot: PageData;
  readonly device: PageDevice;
  /** The meaning of the indices in stacks. */
  readonly frames: Frames;
  readonly axis: Axis;
  /** The whole axis, and its visible part. */
  readonly whole: Span;
  readonly span: Span;
  /** The moments of the cursors. */
  readonly at: number;
  readonly other: number | null;
  /** The measure for lists of allocations. For reserved bytes, which consist of segments, it's the
   * measure of the blocks in them. */
  readonly counted: Exclude<Measure, 'reserved'>;
  /** Changes the view. Positions on the axis are specific to this device. */
  readonly change: (partial: Partial<State>) => void;
  /** Moves the cursor. In a comparison, that doesn't choose this snapshot. */
  readonly move: (at: number) => void;
}

export const GroundContext = createContext<Ground | null>(null);

export function useGround(): Ground {
  return useContext(GroundContext)!;
}

/** Reads a device, whose numbers for a measure must match the page's. */
export async function read(engine: Remote, place: Place, measure: Measure): Promise<Frames> {
  await engine.open(place.snapshot);
  await engine.bytesAt(place, measure, 0);
  return engine.frames(place.snapshot);
}

/** Derives the view of a device from the state. */
export function grounded(
  page: Page,
  engine: Remote,
  state: State,
  place: Place,
  frames: Frames,
  change: (partial: Partial<State>) => void,
): Ground {
  const snapshot = page.snapshots[place.snapshot]!;
  const device = snapshot.devices[place.device]!;
  const axis = device.last_us === null ? 'event' : state.axis;
  const whole = { from: 0, to: axis === 'event' ? device.events + 1 : device.last_us! + 1 };
  // In a comparison, each cursor begins at its own peak.
  const failure = page.kind === 'compare' ? undefined : device.ooms[0];
  const moment = (at: number) => Math.min(Math.max(Math.round(at), 0), device.events);
  return {
    page,
    engine,
    state,
    place,
    snapshot,
    device,
    frames,
    axis,
    whole,
    span: within(whole, state.from ?? whole.from, state.to ?? whole.to),
    at: moment(state.at ?? failure?.moment ?? device.peaks[state.measure].moment),
    other: state.other === null ? null : moment(state.other),
    counted: state.measure === 'reserved' ? 'active' : state.measure,
    change,
    move: (at) => change({ at }),
  };
}

/** A part of the whole with the requested length, if there's room. */
export function within(whole: Span, from: number, to: number): Span {
  const length = Math.min(Math.max(to - from, 1), whole.to - whole.from);
  const start = Math.min(Math.max(from, whole.from), whole.to - length);
  return { from: start, to: start + length };
}

/** A device's groups by a key, if it has any. */
export function groupsOf(device: PageDevice, way: Way): PageGroups | undefined {
  return device.groups.find((one) => one.way === way);
}

/** The keys for which a device has data. */
export function waysOf(device: PageDevice): Way[] {
  return device.groups.map((one) => one.way);
}

/** The key that rows are grouped by: the requested one, if the device has it. */
export function wayOf({ state, device }: Ground): Way {
  const ways = waysOf(device);
  return ways.includes(state.by) ? state.by : (ways[0] ?? 'stack');
}

/** A group's text: its name, then its callers. */
export function groupLines({ snapshot, device }: Ground, way: Way, group: number): string[] {
  const lines = groupsOf(device, way)?.lines[group] ?? [];
  return lines.length ? lines.map((one) => snapshot.texts[one] ?? '') : [`#${group}`];
}

const NAMES = new WeakMap<PageGroups, readonly string[]>();

/** The full names of a device's groups by a key. */
export function namesOf(snapshot: PageData, device: PageDevice, way: Way): readonly string[] {
  const groups = groupsOf(device, way);
  if (!groups) return [];
  let found = NAMES.get(groups);
  if (!found) {
    found = groups.lines.map((lines) => lines.map((one) => snapshot.texts[one]).join('\n'));
    NAMES.set(groups, found);
  }
  return found;
}

/** The search or selection as a filter; null for none. */
export function filterOf({ state, device }: Ground): Filter | null {
  const { search, group, of } = state;
  const selected = group !== null && groupsOf(device, of) !== undefined;
  if (!search && !selected) return null;
  return { ...(search ? { include: search } : {}), ...(selected ? { way: of, group } : {}) };
}

/** Selects a group, with its allocation if a single one is live, or clears the selection if the
 * group is already selected. */
export function choose(ground: Ground, way: Way, group: number): void {
  const { engine, place, counted: measure, at: moment, state, change } = ground;
  const chosen = ({ group: one, of }: State) => one === group && of === way;
  if (chosen(state)) {
    change({ group: null, pin: null });
    return;
  }
  change({ of: way, group, pin: null });
  const order = { sort: 'bytes', descending: true, offset: 0, limit: 1 } as const;
  const found = engine.live({ place, measure, moment, filter: { way, group }, ...order });
  const pinned = found.then(({ total, rows }) => {
    if (total === 1 && chosen(current.value)) change({ pin: rows[0]!.id });
  });
  void counted(pinned);
}

/** The number of the event before a moment, as the command line counts: -1 for the start. */
export function eventOf({ device }: Ground, moment: number): number {
  return moment === 0 && device.first_event === 0 ? -1 : device.first_event + moment - 1;
}
