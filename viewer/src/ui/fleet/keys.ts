// Keys of a fleet's page, their actions and their help.

import { ordered } from '../../core/fleet.js';
import type { KeyOf } from '../listening.js';
import { nextTheme } from '../theme.js';
import { change, state, TABS } from './state.js';
import type { World } from './world.js';

/** Opens the selected rank's own page, if there is one. */
export function openPage({ page }: World): void {
  const one = page.ranks[state.value.rank ?? -1];
  if (one?.page) location.assign(one.page);
}

/** Selects a rank by how far it is from the selected one, in the order of the picture's rows. */
function toRank({ page }: World, key: string): void {
  const rows = ordered(page.ranks, state.value.order);
  const { rank } = state.value;
  const row = rank === null ? -1 : rows.indexOf(rank);
  const last = rows.length - 1;
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
  const to = key === 'Home' ? 0 : key === 'End' ? last : row + steps[key]!;
  change({ rank: rows[Math.min(Math.max(to, 0), last)] ?? null });
}

/** All keys. `showHelp` is called for `?`. */
export function keysOf(showHelp: () => void): readonly KeyOf<World>[] {
  return [
    {
      keys: ['ArrowUp', 'ArrowDown', 'PageUp', 'PageDown', 'Home', 'End'],
      shown: '↑ ↓',
      does: 'previous and next row (Page up and down: by ten; Home, End: the first, the last)',
      act: (world, { key }) => toRank(world, key),
    },
    {
      keys: ['ArrowLeft', 'ArrowRight'],
      shown: '← →',
      does: 'previous and next column',
      act: ({ curves }, { key }) => {
        const next = (state.value.moment ?? -1) + (key === 'ArrowRight' ? 1 : -1);
        change({ moment: Math.min(Math.max(next, 0), curves.moments - 1) });
      },
    },
    {
      keys: ['Enter'],
      shown: 'Enter',
      does: "open the selected row's own page, if there is one",
      act: openPage,
    },
    {
      keys: ['1', '2'],
      shown: '1 2',
      does: 'the tabs below',
      act: (_, { key }) => change({ tab: TABS[Number(key) - 1]! }),
    },
    {
      keys: ['c'],
      shown: 'c',
      does: 'colours: bytes, or the distance from the median',
      act: () => change({ colour: state.value.colour === 'bytes' ? 'median' : 'bytes' }),
    },
    { keys: ['t'], shown: 't', does: 'light or dark', act: nextTheme },
    {
      keys: ['Escape'],
      shown: 'Esc',
      does: 'deselect',
      act: () => change({ rank: null, moment: null }),
    },
    { keys: ['?'], shown: '?', does: 'this list', act: showHelp },
  ];
}
