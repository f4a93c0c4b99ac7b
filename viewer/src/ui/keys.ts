// Keys, their actions and their help: one list for all.

import { mode, toggleMode } from './gestures.js';
import { filterOf, type Ground } from './ground.js';
import type { KeyOf } from './listening.js';
import { ALL, goTo, markMoments, pan, peakMoments, toNext, zoomBy } from './moving.js';
import { fitHeights, panHeights, toggleCarried, zoomHeights } from './scale.js';
import { change, FIRST_TABS, type Tab } from './state.js';
import { nextTheme } from './theme.js';

export type Key = KeyOf<Ground>;

/** The fraction of the visible part that a large cursor step covers. */
const LEAP = 0.02;

async function step(ground: Ground, direction: 1 | -1, large: boolean): Promise<void> {
  const { engine, place, axis, span, at } = ground;
  if (!large) return goTo(ground, at + direction);
  const x = (await engine.xOf(place, axis, at)) + direction * LEAP * (span.to - span.from);
  const moment = await engine.momentAt(place, axis, x);
  return goTo(ground, moment === at ? at + direction : moment);
}

export const TAB_NAMES: readonly (readonly [Tab, string])[] = [
  ['holders', 'Who holds it'],
  ['flame', 'Flame graph'],
  ['list', 'Allocations'],
  ['between', 'Between cursors'],
  ['allocator', 'Allocator'],
  ['events', 'Events'],
  ['file', 'File'],
  ['report', 'Report'],
  ['diff', 'Diff'],
  ['ranks', 'Ranks'],
];

/** The tabs of a page; the one that it opens with comes first. */
export function tabsOf({ page, snapshot, state }: Ground): readonly (readonly [Tab, string])[] {
  const first = ([tab]: readonly [Tab, string]) => Number(tab === FIRST_TABS[page.kind]);
  return TAB_NAMES.filter(
    ([tab]) =>
      (tab !== 'file' || state.file !== null) &&
      (tab !== 'diff' || page.kind === 'compare') &&
      (tab !== 'ranks' || page.kind === 'ranks') &&
      (tab !== 'report' || snapshot.report !== null),
  ).sort((a, b) => first(b) - first(a));
}

function toSearch(): void {
  document.querySelector<HTMLInputElement>('#search')?.focus();
}

/** All keys. `showHelp` is called for `?`, and `next` to show the next or previous snapshot. */
export function keysOf(
  showHelp: () => void,
  next: (ground: Ground, step: 1 | -1) => void,
): readonly Key[] {
  return [
    {
      keys: ['ArrowLeft', 'ArrowRight'],
      shown: '← →',
      does: 'move the cursor by one event (Shift: further)',
      act: (ground, { key, shiftKey }) => step(ground, key === 'ArrowLeft' ? -1 : 1, shiftKey),
    },
    {
      keys: [],
      shown: '↑ ↓ Enter',
      does: 'on the picture: select the next live allocation at the cursor',
      act: () => undefined,
    },
    {
      keys: ['+', '=', '-', '_'],
      shown: '+ −',
      does: 'zoom in and out around the cursor, or in the focused map',
      act: (ground, { key }) => zoomBy(ground, key === '+' || key === '=' ? 0.5 : 2),
    },
    {
      keys: ['v'],
      shown: 'v',
      does: 'fit the bytes of the selection, or of what changes; again: the whole stack',
      act: fitHeights,
    },
    {
      keys: ['e', 'E'],
      shown: 'e E',
      does: 'zoom the bytes in and out, around the selection',
      act: (ground, { key }) => zoomHeights(ground, key === 'e' ? 0.5 : 2),
    },
    {
      keys: ['k', 'j'],
      shown: 'k j',
      does: 'scroll the bytes up and down',
      act: (ground, { key }) => panHeights(ground, key === 'k' ? 0.25 : -0.25),
    },
    {
      keys: ['z'],
      shown: 'z',
      does: 'the next drag zooms to a box',
      act: () => toggleMode('box'),
    },
    {
      keys: ['c'],
      shown: 'c',
      does: 'hide or show what was carried over',
      act: toggleCarried,
    },
    {
      keys: ['a', 'd', 'h', 'l'],
      shown: 'a d',
      does: 'scroll left and right (also h and l)',
      act: (ground, { key }) => pan(ground, key === 'a' || key === 'h' ? -0.25 : 0.25),
    },
    {
      keys: ['PageUp', 'PageDown'],
      shown: 'Page up, down',
      does: 'previous and next window',
      act: (ground, { key }) => pan(ground, key === 'PageUp' ? -1 : 1),
    },
    {
      keys: ['Home', 'End'],
      shown: 'Home, End',
      does: 'cursor to the start, to the end',
      act: (ground, { key }) => goTo(ground, key === 'Home' ? 0 : ground.device.events),
    },
    {
      keys: ['0'],
      shown: '0',
      does: 'show the whole recording, and the whole stack',
      act: () => change(ALL),
    },
    {
      keys: ['p', 'P'],
      shown: 'p P',
      does: 'next and previous peak',
      act: async (ground, { key }) =>
        toNext(ground, await peakMoments(ground), key === 'p' ? 1 : -1),
    },
    {
      keys: ['m'],
      shown: 'm',
      does: 'highest peak',
      act: async (ground) => {
        await goTo(ground, ground.device.peaks[ground.state.measure].moment);
        // In a comparison, each cursor goes to its own peak.
        if (ground.page.kind === 'compare') change({ at: null });
      },
    },
    {
      keys: ['s', 'S'],
      shown: 's S',
      does: 'next and previous step',
      act: (ground, { key }) => toNext(ground, markMoments(ground, 'step'), key === 's' ? 1 : -1),
    },
    {
      keys: ['n', 'N'],
      shown: 'n N',
      does: 'next and previous annotation',
      act: (ground, { key }) =>
        toNext(ground, markMoments(ground, 'annotation'), key === 'n' ? 1 : -1),
    },
    {
      keys: ['o', 'O'],
      shown: 'o O',
      does: 'next and previous failed request',
      act: (ground, { key }) => toNext(ground, markMoments(ground, 'oom'), key === 'o' ? 1 : -1),
    },
    {
      keys: ['[', ']'],
      shown: '[ ]',
      does: 'start a range at the cursor, then end it and show the changes',
      act: ({ at }, { key }) => (key === '[' ? change({ other: at }) : change({ tab: 'between' })),
    },
    { keys: ['/'], shown: '/', does: 'search', act: toSearch },
    {
      keys: ['1', '2', '3', '4', '5', '6', '7', '8', '9'],
      shown: '1 to 9',
      does: 'the tabs below',
      act: (ground, { key }) => {
        const tab = tabsOf(ground)[Number(key) - 1];
        if (tab) change({ tab: tab[0] });
      },
    },
    {
      keys: ['x'],
      shown: 'x',
      does: 'events or time along the axis',
      act: (ground) => swapAxis(ground),
    },
    {
      keys: ['b', 'B'],
      shown: 'b B',
      does: 'the other snapshot, or the next and previous rank',
      act: (ground, { key }) => next(ground, key === 'b' ? 1 : -1),
    },
    {
      keys: ['f', 'F'],
      shown: 'f F',
      does: 'enlarge the picture, enlarge the table (Esc: the whole page)',
      act: ({ state }, { key }) => {
        const full = key === 'f' ? 'picture' : 'table';
        change({ full: state.full === full ? null : full });
      },
    },
    { keys: ['t'], shown: 't', does: 'light or dark', act: nextTheme },
    {
      keys: ['Escape'],
      shown: 'Esc',
      does: 'deselect, then clear the search',
      act: (ground) => {
        const { state } = ground;
        if (mode.value !== 'move') mode.value = 'move';
        else if (state.full) change({ full: null });
        else if (state.pin !== null || state.group !== null) change({ pin: null, group: null });
        else if (filterOf(ground)) change({ search: '' });
        else change({ other: null });
      },
    },
    { keys: ['?'], shown: '?', does: 'this list', act: showHelp },
  ];
}

/** The other axis, with the same part of the recording in view. */
export async function swapAxis(ground: Ground): Promise<void> {
  const { engine, place, axis, span, whole, device } = ground;
  if (device.last_us === null) return;
  const next = axis === 'event' ? 'time' : 'event';
  if (span.from === whole.from && span.to === whole.to) {
    change({ axis: next, from: null, to: null });
    return;
  }
  const [first, last] = await Promise.all([
    engine.momentAt(place, axis, span.from),
    engine.momentAt(place, axis, span.to),
  ]);
  const [from, to] = await Promise.all([
    engine.xOf(place, next, first),
    engine.xOf(place, next, last),
  ]);
  change({ axis: next, from, to: Math.max(to, from + 1) });
}
