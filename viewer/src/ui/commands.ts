// The command line that prints the displayed numbers.

import type { Ground } from './ground.js';
import { eventOf, wayOf } from './ground.js';
import { quoted } from './quoting.js';
import type { Tab } from './state.js';

function event(ground: Ground, moment: number): string {
  return moment ? String(eventOf(ground, moment)) : 'start';
}

/** The command's words for a tab; null if no command prints exactly that. */
export function wordsOf(ground: Ground, tab: Tab): string[] | null {
  const { snapshot, page, state, device, at, other, counted } = ground;
  // Adds the options that make the command read the same part of the file.
  const file = [snapshot.file, ...snapshot.options];
  const one = snapshot.devices.length > 1 ? ['--device', String(device.device)] : [];
  const of = [...one, ...(counted === 'requested' ? [] : ['--measure', counted])];
  const include = state.search ? ['--include', state.search] : [];
  const way = wayOf(ground);
  const by = way === 'stack' ? [] : ['--by', way];
  // With a filter, the peak is that of the matching allocations; reserved bytes peak at another moment.
  const highest = at === device.peaks[counted].moment;
  const unfiltered = !state.search || tab === 'flame';
  const peak = highest && unfiltered && state.measure !== 'reserved';
  const moment = peak ? ['peak', ...file] : ['at', ...file, event(ground, at)];
  switch (tab) {
    case 'holders':
      return [...moment, ...by, ...of, ...include];
    case 'flame':
      if (state.root === 'innermost' || state.group !== null) return null;
      return [...moment, '--tree', ...(state.frames === 'all' ? ['--all-frames'] : []), ...of];
    case 'list':
      if (state.group !== null) return null;
      return ['at', ...file, event(ground, at), '--list', ...of, ...include];
    case 'between': {
      if (other === null) return null;
      const ends = [event(ground, Math.min(at, other)), event(ground, Math.max(at, other))];
      return ['at', ...file, ...ends, ...by, ...of, ...include];
    }
    case 'allocator':
      return ['fragmentation', ...file, '--map', '--at', event(ground, at), ...by, ...one];
    case 'diff':
      return [
        'diff',
        ...page.snapshots.slice(0, 2).map((each) => each.file),
        ...snapshot.options,
        ...of,
      ];
    case 'ranks':
      return ['peak', ...file, ...of];
    case 'events':
      return null;
    case 'report':
      return ['report', ...file];
    case 'file':
      return null;
  }
}

/** The command as a shell command line. */
export function commandOf(ground: Ground, tab: Tab): string | null {
  const words = wordsOf(ground, tab);
  return words && ['memreplay', ...words].map(quoted).join(' ');
}
