// What all parts of the page stand on: the device that is shown, its peaks, and how far it reaches.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Measure, Page, PageData, PageDevice, PageGroups, Way } from '../core/page.js';
import type { Axis, Filter, Frames, Place, Span } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import type { State } from './state.js';

export interface Ground {
  readonly page: Page;
  readonly engine: Remote;
  readonly state: State;
  readonly place: Place;
  readonly snapshot: PageData;
  readonly device: PageDevice;
  /** What the places in stacks stand for. */
  readonly frames: Frames;
  readonly axis: Axis;
  /** All there is along the axis, and what is seen. */
  readonly whole: Span;
  readonly span: Span;
  /** The moments of the cursors. */
  readonly at: number;
  readonly other: number | null;
  /** What counts where allocations are listed: reserved bytes are segments, in which blocks are. */
  readonly counted: Exclude<Measure, 'reserved'>;
  /** Shows something else. Places along the axis are this device's own. */
  readonly change: (partial: Partial<State>) => void;
}

export const GroundContext = createContext<Ground | null>(null);

export function useGround(): Ground {
  return useContext(GroundContext)!;
}

/** Reads a device, whose numbers by a measure must be those of the page. */
export async function read(engine: Remote, place: Place, measure: Measure): Promise<Frames> {
  await engine.open(place.snapshot);
  await engine.bytesAt(place, measure, 0);
  return engine.frames(place.snapshot);
}

/** Puts together what the state means for a device. */
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
    at: moment(state.at ?? device.peaks[state.measure].moment),
    other: state.other === null ? null : moment(state.other),
    counted: state.measure === 'reserved' ? 'active' : state.measure,
    change,
  };
}

/** A part of the whole, as long as asked where there is room. */
export function within(whole: Span, from: number, to: number): Span {
  const length = Math.min(Math.max(to - from, 1), whole.to - whole.from);
  const start = Math.min(Math.max(from, whole.from), whole.to - length);
  return { from: start, to: start + length };
}

/** The groups of a device by a way, where it has them. */
export function groupsOf(device: PageDevice, way: Way): PageGroups | undefined {
  return device.groups.find((one) => one.way === way);
}

/** The ways that say something of a device. */
export function waysOf(device: PageDevice): Way[] {
  return device.groups.map((one) => one.way);
}

/** The way that rows are grouped by: the one that was asked for, if the device has it. */
export function wayOf({ state, device }: Ground): Way {
  const ways = waysOf(device);
  return ways.includes(state.by) ? state.by : (ways[0] ?? 'stack');
}

/** The lines that a group is called by: its name, then callers. */
export function groupLines({ snapshot, device }: Ground, way: Way, group: number): string[] {
  const lines = groupsOf(device, way)?.lines[group] ?? [];
  return lines.length ? lines.map((one) => snapshot.texts[one] ?? '') : [`#${group}`];
}

/** A line with files by their last name, for where there is little room. */
export function short(line: string): string {
  return line.replace(/(^|\s)\S*\/(?=[^\s/]+)/g, '$1');
}

/** What is searched for or selected, as a filter; null for nothing. */
export function filterOf({ state, device }: Ground): Filter | null {
  const { search, group, of } = state;
  const selected = group !== null && groupsOf(device, of) !== undefined;
  if (!search && !selected) return null;
  return { ...(search ? { include: search } : {}), ...(selected ? { way: of, group } : {}) };
}

/** Selects a group, or nothing where it is the one that is selected. */
export function toggled({ state }: Ground, way: Way, group: number): Partial<State> {
  const chosen = state.group === group && state.of === way;
  return chosen ? { group: null } : { of: way, group, pin: null };
}

/** The number of the event before a moment, as the command line counts: -1 for the start. */
export function eventOf({ device }: Ground, moment: number): number {
  return moment === 0 && device.first_event === 0 ? -1 : device.first_event + moment - 1;
}
