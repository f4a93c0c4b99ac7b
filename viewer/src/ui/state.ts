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
  'file',
  'diff',
  'ranks',
  'report',
] as const;
export type Tab = (typeof TABS)[number];

export interface State {
  /** Indices into the page's snapshots, and into that snapshot's devices. */
  readonly snapshot: number;
  readonly device: number;
  readonly measure: Measure;
  readonly axis: Axis;
  /** The visible part of the recording, along the axis; null for all. */
  readonly from: number | null;
  readonly to: number | null;
  /** The moments of the two cursors; null means the peak for the first, and none for the second. */
  readonly at: number | null;
  readonly other: number | null;
  readonly tab: Tab;
  readonly by: Way;
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
  /** An allocation that stays selected. */
  readonly pin: number | null;
  /** A group that stays selected, and its key. */
  readonly group: number | null;
  readonly of: Way;
}

export const START: State = {
  snapshot: 0,
  device: 0,
  measure: 'requested',
  axis: 'event',
  from: null,
  to: null,
  at: null,
  other: null,
  tab: 'holders',
  by: 'stack',
  colour: 'category',
  segments: 'pool',
  map: 'rows',
  enlarged: 0,
  file: null,
  search: '',
  root: 'outermost',
  frames: 'code',
  pin: null,
  group: null,
  of: 'stack',
};

const CHOICES: { readonly [K in keyof State]?: readonly string[] } = {
  measure: MEASURES,
  axis: ['event', 'time'],
  tab: TABS,
  segments: SEGMENT_KEYS,
  map: ['rows', 'all'],
  root: ['outermost', 'innermost'],
  frames: ['code', 'all'],
};
const NUMBERS = new Set([
  'snapshot',
  'device',
  'from',
  'to',
  'at',
  'other',
  'pin',
  'group',
  'enlarged',
  'file',
]);
/** Only these can be any position on the axis; all others are whole numbers. */
const PLACES = new Set(['from', 'to']);

/** The initial tab for a kind of page. */
const FIRST_TABS: Readonly<Record<Page['kind'], Tab>> = {
  one: 'holders',
  compare: 'diff',
  ranks: 'ranks',
};

/** A page's initial state; for ranks, the one with the highest peak. */
export function startOf({ kind, snapshots }: Pick<Page, 'kind' | 'snapshots'>): State {
  const high = snapshots.map(({ devices }) =>
    Math.max(-1, ...devices.map(({ peaks }) => peaks.requested.bytes)),
  );
  const snapshot = kind === 'ranks' ? Math.max(high.indexOf(Math.max(...high)), 0) : 0;
  return { ...START, snapshot, tab: FIRST_TABS[kind] };
}

/** Reads the state from a URL's fragment; missing or invalid values get their defaults. */
export function fromFragment(fragment: string, start: State = START): State {
  const found: Record<string, unknown> = { ...start };
  for (const [key, value] of new URLSearchParams(fragment.replace(/^#/, ''))) {
    if (!Object.hasOwn(START, key)) continue;
    const choices = CHOICES[key as keyof State];
    if (NUMBERS.has(key)) {
      const number = Number(value);
      const fits = PLACES.has(key) ? Number.isFinite(number) : Number.isSafeInteger(number);
      if (value !== '' && fits) found[key] = number;
    } else if (!choices || choices.includes(value)) found[key] = value;
  }
  return found as unknown as State;
}

/** Writes values that differ from the defaults as a fragment. */
export function toFragment(state: State, start: State = START): string {
  const said = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof State)[]) {
    const value = state[key];
    if (value !== start[key] && value !== null) said.set(key, String(value));
  }
  return said.toString();
}

export const state: Signal<State> = signal(START);

/** Changes the state. */
export function change(partial: Partial<State>): void {
  state.value = { ...state.value, ...partial };
}
