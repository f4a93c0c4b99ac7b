// The state of the page. All of it is in the URL, so that a link shows the same view.

import { type Signal, signal } from '@preact/signals';
import { MEASURES, type Measure, type Page, type Way } from '../core/page.js';
import { type Axis, SEGMENT_KEYS, type SegmentKey } from '../protocol.js';

export const TABS = [
  'holders',
  'flame',
  'list',
  'between',
  'allocator',
  'events',
  'file',
  'diff',
  'ranks',
  'report',
] as const;
export type Tab = (typeof TABS)[number];

export const SYNCS = ['step', 'time', 'event'] as const;
export type Sync = (typeof SYNCS)[number];

export interface State {
  /** Indices into the page's snapshots, and into that snapshot's devices. */
  readonly snapshot: number;
  readonly device: number;
  readonly measure: Measure;
  readonly axis: Axis;
  /** The visible part of the recording, along the axis; null for all. */
  readonly from: number | null;
  readonly to: number | null;
  /** The visible bytes of the stack, from the bottom; null for all. */
  readonly low: number | null;
  readonly high: number | null;
  /** Whether the picture has what was carried over. */
  readonly carried: 'shown' | 'hidden';
  /** Whether the picture is as high as the card; `auto`: if that doesn't make the stack low. */
  readonly card: 'auto' | 'whole';
  /** The moments of the two cursors; null means the first failed request
   * or else the peak for the first, and none for the second. */
  readonly at: number | null;
  readonly other: number | null;
  readonly tab: Tab;
  readonly by: Way;
  /** A key, or `auto` (`useColours` chooses one). */
  readonly colour: Way;
  /** What colours the segments in the picture of reserved memory. */
  readonly segments: SegmentKey;
  /** How the allocator's segments are laid out, and how often their blocks were enlarged. */
  readonly map: 'rows' | 'all';
  readonly enlarged: number;
  /** The file shown in its tab, as an index in the snapshot's `texts`. */
  readonly file: number | null;
  /** A regular expression. */
  readonly search: string;
  readonly root: 'outermost' | 'innermost';
  readonly frames: 'code' | 'all';
  /** The box to which a flame graph is zoomed: its tab, then the frames from the root. */
  readonly zoom: string;
  /** An allocation that stays selected. */
  readonly pin: number | null;
  /** A group that stays selected, and its key. */
  readonly group: number | null;
  readonly of: Way;
  /** What the cursors of two snapshots are synchronised by; null: as the axis suggests. */
  readonly sync: Sync | null;
  /** The height of pictures and the width of the panel beside them, in pixels; null: as usual. */
  readonly tall: number | null;
  readonly side: number | null;
  /** The part that fills the window. */
  readonly full: 'picture' | 'table' | null;
  /** An address in hexadecimal: only its events are listed. */
  readonly address: string;
}

export const START: State = {
  snapshot: 0,
  device: 0,
  measure: 'requested',
  axis: 'event',
  from: null,
  to: null,
  low: null,
  high: null,
  carried: 'shown',
  card: 'auto',
  at: null,
  other: null,
  tab: 'holders',
  by: 'stack',
  colour: 'auto',
  segments: 'pool',
  map: 'rows',
  enlarged: 0,
  file: null,
  search: '',
  root: 'outermost',
  frames: 'code',
  zoom: '',
  pin: null,
  group: null,
  of: 'stack',
  sync: null,
  tall: null,
  side: null,
  full: null,
  address: '',
};

const CHOICES: { readonly [K in keyof State]?: readonly string[] } = {
  measure: MEASURES,
  axis: ['event', 'time'],
  carried: ['shown', 'hidden'],
  card: ['auto', 'whole'],
  tab: TABS,
  segments: SEGMENT_KEYS,
  map: ['rows', 'all'],
  root: ['outermost', 'innermost'],
  frames: ['code', 'all'],
  sync: SYNCS,
  full: ['picture', 'table'],
};
const NUMBERS = new Set([
  ...['snapshot', 'device', 'from', 'to', 'low', 'high', 'at', 'other', 'pin', 'group'],
  ...['tall', 'side', 'enlarged', 'file'],
]);
/** Only these can be any position on the axis; all others are whole numbers. */
const PLACES = new Set(['from', 'to']);
/** These are moments in the state, and numbers of events in the URL, as on the page. */
const MOMENTS = new Set(['at', 'other']);

/** The number of the event before a device's first moment. */
export type Before = (of: Pick<State, 'snapshot' | 'device'>) => number;
const FIRST: Before = () => -1;

/** How the devices of a page number their events. */
export function numbering({ snapshots }: Pick<Page, 'snapshots'>): Before {
  return ({ snapshot, device }) => (snapshots[snapshot]?.devices[device]?.first_event ?? 0) - 1;
}

/** The initial tab for a kind of page. */
export const FIRST_TABS: Readonly<Record<Page['kind'], Tab>> = {
  one: 'holders',
  compare: 'diff',
  ranks: 'ranks',
};

/** A page's initial state: the device where a request failed and, for ranks, such a rank or the
 * one with the highest peak; else the first snapshot that has anything to show. */
export function startOf({ kind, snapshots }: Pick<Page, 'kind' | 'snapshots'>): State {
  const high = snapshots.map(({ devices }) =>
    Math.max(
      -1,
      ...devices.map(({ ooms, peaks }) =>
        ooms.length ? Number.POSITIVE_INFINITY : peaks.requested.bytes,
      ),
    ),
  );
  const snapshot =
    kind === 'ranks' ? high.indexOf(Math.max(...high)) : high.findIndex((one) => one >= 0);
  const failed = snapshots[snapshot]?.devices.findIndex(({ ooms }) => ooms.length) ?? 0;
  return {
    ...START,
    snapshot: Math.max(snapshot, 0),
    device: Math.max(failed, 0),
    tab: FIRST_TABS[kind],
  };
}

/** Reads the state from a URL's fragment; missing or invalid values get their defaults. */
export function fromFragment(
  fragment: string,
  start: State = START,
  before: Before = FIRST,
): State {
  const found: Record<string, unknown> = { ...start };
  const events: string[] = [];
  for (const [key, value] of new URLSearchParams(fragment.replace(/^#/, ''))) {
    if (!Object.hasOwn(START, key)) continue;
    const choices = CHOICES[key as keyof State];
    if (NUMBERS.has(key)) {
      const number = Number(value);
      const fits = PLACES.has(key) ? Number.isFinite(number) : Number.isSafeInteger(number);
      if (value === '' || !fits) continue;
      found[key] = number;
      if (MOMENTS.has(key)) events.push(key);
    } else if (!choices || choices.includes(value)) found[key] = value;
  }
  for (const key of events) {
    found[key] = (found[key] as number) - before(found as unknown as State);
  }
  return found as unknown as State;
}

/** Writes values that differ from the defaults as a fragment. */
export function toFragment(state: State, start: State = START, before: Before = FIRST): string {
  const said = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof State)[]) {
    const value = state[key];
    if (value === start[key] || value === null) continue;
    said.set(key, String(MOMENTS.has(key) ? Number(value) + before(state) : value));
  }
  return said.toString();
}

export const state: Signal<State> = signal(START);

/** Changes the state. */
export function change(partial: Partial<State>): void {
  state.value = { ...state.value, ...partial };
}
