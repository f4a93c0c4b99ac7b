// The command line that gives the numbers of what is shown.

import type { Ground } from './ground.js';
import { eventOf } from './ground.js';
import type { Tab } from './state.js';

/** A word as a POSIX shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function event(ground: Ground, moment: number): string[] {
  return ['--event', String(eventOf(ground, moment))];
}

/** The words of the command for a tab. */
export function wordsOf(ground: Ground, tab: Tab): string[] {
  const { snapshot, page, state, device, at, other, counted } = ground;
  // With what makes the command read the same of the file.
  const file = [snapshot.file, ...snapshot.options];
  const one = snapshot.devices.length > 1 ? ['--device', String(device.device)] : [];
  const of = [...one, ...(counted === 'requested' ? [] : ['--measure', counted])];
  const include = state.search ? ['--include', state.search] : [];
  const by = state.by === 'stack' ? [] : ['--by', state.by];
  const moment = state.at === null ? ['peak', ...file] : ['at', ...file, ...event(ground, at)];
  switch (tab) {
    case 'holders':
      return [...moment, ...by, ...of, ...include];
    case 'flame':
      return [...moment, '--tree', ...of, ...include];
    case 'list':
      return ['at', ...file, ...event(ground, at), '--list', ...of, ...include];
    case 'between':
      if (other === null) return ['at', ...file, ...event(ground, at), ...by, ...of, ...include];
      return [
        'at',
        ...file,
        ...event(ground, Math.min(at, other)),
        ...event(ground, Math.max(at, other)),
        ...by,
        ...of,
        ...include,
      ];
    case 'allocator':
      return ['fragmentation', ...file, '--map', '--at', ...event(ground, at).slice(1), ...one];
    case 'diff':
    case 'ranks':
      return ['diff', ...page.snapshots.slice(0, 2).map((of) => of.file), ...of];
    case 'report':
      return ['report', ...file];
  }
}

/** That as a line for a shell. */
export function commandOf(ground: Ground, tab: Tab): string {
  return ['memreplay', ...wordsOf(ground, tab)].map(quoted).join(' ');
}
