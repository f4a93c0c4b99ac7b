// The commands that the page offers, and their command lines.

import { freePath } from './dropped.js';

/** A setting that adds an option to the command line: a flag if it's on, a value unless it's empty. */
export interface Setting {
  label: string;
  option: string;
  /** The values to choose from; none for a text field. "on" alone is a flag. */
  values?: readonly string[];
  example?: string;
}

export interface Command {
  name: string;
  title: string;
  /** Words before and after the files. `free` turns a file's name into one that is free. */
  words: readonly string[];
  output?: (name: string, free: (file: string) => string) => readonly string[];
  settings?: readonly Setting[];
  /** Whether its output is a page. */
  page?: boolean;
}

const FLAG = ['on'] as const;
const TOTAL: Setting = { label: 'Card', option: '--total-memory', example: '80GiB' };
const BY: Setting = {
  label: 'Group by',
  option: '--by',
  values: ['stack', 'line', 'function', 'file', 'module', 'category', 'size'],
};
const TREE: Setting = { label: 'Call tree', option: '--tree', values: FLAG };
const MEASURE: Setting = {
  label: 'Measure',
  option: '--measure',
  values: ['requested', 'allocated', 'active', 'held', 'reserved'],
};

/** Returns a file's name without its endings, as the name of what is made from it. */
export function stem(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return name.replace(/(\.(pkl|pickle|json|html|gz|zst|xz|bz2|zip|bin))+$/i, '') || 'snapshot';
}

export const ONE: readonly Command[] = [
  {
    name: 'page',
    title: 'Page',
    words: ['view'],
    output: (name, free) => ['-o', free(`${name}.html`)],
    page: true,
  },
  { name: 'report', title: 'Report', words: ['report'], settings: [TOTAL] },
  { name: 'summary', title: 'Summary', words: ['summary'] },
  { name: 'peak', title: 'Peak', words: ['peak'], settings: [BY, MEASURE, TREE] },
  { name: 'timeline', title: 'Timeline', words: ['timeline'], settings: [BY, MEASURE] },
  { name: 'oom', title: 'Out of memory', words: ['oom'], settings: [TOTAL] },
  { name: 'leaks', title: 'Leaks', words: ['leaks'], settings: [BY] },
  { name: 'steps', title: 'Steps', words: ['steps'] },
  { name: 'fragmentation', title: 'Fragmentation', words: ['fragmentation'] },
  { name: 'allocations', title: 'Allocations', words: ['allocations'], settings: [BY] },
  { name: 'modules', title: 'Modules', words: ['modules'] },
  {
    name: 'simulate',
    title: 'Simulate',
    words: ['simulate'],
    settings: [
      { label: 'Settings', option: '--set', example: 'expandable_segments:True' },
      { ...TOTAL, label: 'Cards', example: '80GiB,40GiB' },
      { label: 'Search', option: '--search', values: ['card', 'settings'] },
      { label: 'Scale', option: '--scale', example: '1.5' },
      { label: 'Checkpoint', option: '--checkpoint', values: FLAG },
    ],
  },
  {
    name: 'export',
    title: 'Export',
    words: ['export'],
    settings: [],
  },
];

export const TWO: readonly Command[] = [
  {
    name: 'page',
    title: 'Page',
    words: ['view'],
    output: (_, free) => ['-o', free('compared.html')],
    page: true,
  },
  { name: 'diff', title: 'Differences', words: ['diff'], settings: [BY, MEASURE] },
];

export const MANY: readonly Command[] = [
  {
    name: 'page',
    title: 'Page',
    words: ['fleet'],
    output: (_, free) => ['--write', `html=${free('fleet.html')}`],
    page: true,
  },
  { name: 'fleet', title: 'Ranks', words: ['fleet'], settings: [TOTAL, MEASURE] },
];

/** What an export can write, by the ending of the file's name. */
export const EXPORTS: readonly (readonly [string, string])[] = [
  ['.speedscope.json', 'speedscope: flame graph'],
  ['.pftrace', 'Perfetto: trace'],
  ['.trace.json', 'Chrome: trace'],
  ['.pb.gz', 'pprof: flame graph'],
  ['.json', 'JSON: the snapshot'],
  ['.txt', 'text: a line for each event'],
  ['.pickle', 'pickle: the snapshot'],
];

/** Returns the commands for so many files. */
export function commandsFor(count: number): readonly Command[] {
  return count === 1 ? ONE : count === 2 ? TWO : count ? MANY : [];
}

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns an open file's name as it is in a command line. */
export function argument(path: string): string {
  return quoted(unlikeOption(path));
}

function unlikeOption(path: string): string {
  return path.startsWith('-') ? `./${path}` : path;
}

/**
 * Returns the command line for these files, with the values of the settings. `open`: the files that the output mayn't
 * replace.
 */
export function lineOf(
  command: Command,
  paths: readonly string[],
  values: ReadonlyMap<string, string>,
  open: readonly string[],
): string {
  const words = [...command.words, ...paths.map(unlikeOption)];
  const name = stem(paths[0] ?? '');
  const free = (file: string) => freePath(file, open);
  for (const { option, values: among } of command.settings ?? []) {
    const value = values.get(option);
    if (value) words.push(option, ...(among === FLAG ? [] : [value]));
  }
  if (command.name === 'export') {
    words.push('-o', free(`${name}${values.get('-o') ?? EXPORTS[0]![0]}`));
  } else words.push(...(command.output?.(name, free) ?? []));
  return ['memreplay', ...words].map(quoted).join(' ');
}
