// The state of a fleet's page. All of it is in the URL, so that a link shows the same view.

import { type Signal, signal } from '@preact/signals';
import { ORDERS, type Order } from '../../core/fleet.js';

export const COLOURS = ['bytes', 'median'] as const;
export type Colouring = (typeof COLOURS)[number];
export const TABS = ['ranks', 'report'] as const;
export type Tab = (typeof TABS)[number];
export const SORTS = ['rank', 'peak', 'reserved', 'headroom', 'alike', 'host'] as const;
export type Sort = (typeof SORTS)[number];

export interface State {
  /** The order of the picture's rows. */
  readonly order: Order;
  readonly colour: Colouring;
  /** The index of the selected rank, and a moment; null: none. */
  readonly rank: number | null;
  readonly moment: number | null;
  readonly tab: Tab;
  readonly sort: Sort;
  readonly descending: boolean;
  /** The width of the details, in pixels; null: as usual. */
  readonly side: number | null;
}

export const START: State = {
  order: 'rank',
  colour: 'bytes',
  rank: null,
  moment: null,
  tab: 'ranks',
  sort: 'peak',
  descending: true,
  side: null,
};

const CHOICES: { readonly [K in keyof State]?: readonly string[] } = {
  order: ORDERS,
  colour: COLOURS,
  tab: TABS,
  sort: SORTS,
};

/** Reads the state from a URL's fragment; missing or invalid values get their defaults. */
export function fromFragment(fragment: string): State {
  const found: Record<string, unknown> = { ...START };
  for (const [key, value] of new URLSearchParams(fragment.replace(/^#/, ''))) {
    if (key === 'rank' || key === 'moment' || key === 'side') {
      if (/^\d{1,9}$/.test(value)) found[key] = Number(value);
    } else if (key === 'descending') found[key] = value === 'true';
    else if (CHOICES[key as keyof State]?.includes(value)) found[key] = value;
  }
  return found as unknown as State;
}

/** Writes values that differ from the defaults as a fragment. */
export function toFragment(state: State): string {
  const said = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof State)[]) {
    const value = state[key];
    if (value !== START[key] && value !== null) said.set(key, String(value));
  }
  return said.toString();
}

export const state: Signal<State> = signal(START);

/** Shows something else. */
export function change(partial: Partial<State>): void {
  state.value = { ...state.value, ...partial };
}
