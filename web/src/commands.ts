// The commands that the page offers, and their command lines.

import { freePath } from './dropped.js';

/** A setting that adds an option to the command line: a flag if it's on, a value unless it's empty. */
export interface Setting {
  label: string;
  /** The option, or "" for a word of its own. */
  option: string;
  /** The values to choose from, perhaps with other words for them; none for a text field. "on" alone is a flag. */
  values?: readonly (string | readonly [string, string])[];
  /** What applies without the option. */
  otherwise?: string;
  /** What may be typed into a text field; the first is shown there. */
  examples?: readonly string[];
}

/** An open file, as a command line names it. */
export interface Named {
  path: string;
  /** Whether to read only the intact part. */
  salvage: boolean;
}

export interface Command {
  name: string;
  title: string;
  /** Words before and after the files. */
  words: readonly string[];
  /** Words for the output: `free` makes a file's name that isn't taken from an ending, and a stem other than the snapshot's. */
  output?: (free: (ending: string, name?: string) => string) => readonly string[];
  settings?: readonly Setting[];
  /** Whether its output is a page. */
  page?: boolean;
}

const FLAG = ['on'] as const;
const TOTAL: Setting = {
  label: 'Card',
  option: '--total-memory',
  examples: ['80GiB', '16GiB', '24GiB', '40GiB', '48GiB', '141GiB'],
};
const BY: Setting = {
  label: 'Group by',
  option: '--by',
  otherwise: 'stack',
  values: ['line', 'function', 'file', 'module', 'category', 'size'],
};
const TREE: Setting = { label: 'Call tree', option: '--tree', values: FLAG };
const MEASURE: Setting = {
  label: 'Measure',
  option: '--measure',
  otherwise: 'requested',
  values: ['allocated', 'active', 'held', 'reserved'],
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
    output: (free) => ['-o', free('.html')],
    page: true,
  },
  { name: 'report', title: 'Report', words: ['report'], settings: [TOTAL] },
  { name: 'summary', title: 'Summary', words: ['summary'] },
  { name: 'peak', title: 'Peak', words: ['peak'], settings: [BY, MEASURE, TREE] },
  {
    name: 'at',
    title: 'At a moment',
    words: ['at'],
    settings: [
      {
        label: 'Moment',
        option: '',
        otherwise: 'end',
        examples: ['end', 'peak:2', 'oom', 'step:2', '1200', '1.5s'],
      },
      BY,
      MEASURE,
      TREE,
    ],
  },
  {
    name: 'timeline',
    title: 'Timeline',
    words: ['timeline'],
    settings: [{ ...BY, otherwise: 'nothing', values: ['stack', ...BY.values!] }, MEASURE],
  },
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
      {
        label: 'Allocator settings',
        option: '--set',
        examples: [
          'expandable_segments:True',
          'max_split_size_mb:128',
          'roundup_power2_divisions:4',
        ],
      },
      { ...TOTAL, label: 'Cards', examples: ['80GiB,40GiB', ...TOTAL.examples!] },
      {
        label: 'Find',
        option: '--search',
        otherwise: 'nothing',
        values: [
          ['card', 'the smallest card'],
          ['settings', 'the best settings'],
        ],
      },
      { label: 'Only', option: '--only', examples: ['category=activations', 'min-bytes=1MiB'] },
      { label: 'Scale by', option: '--scale', examples: ['1.5', '0.5'] },
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
    output: (free) => ['-o', free('.html', 'compared')],
    page: true,
  },
  { name: 'diff', title: 'Differences', words: ['diff'], settings: [BY, MEASURE] },
];

export const MANY: readonly Command[] = [
  {
    name: 'page',
    title: 'Page',
    words: ['fleet'],
    output: (free) => ['--write', `html=${free('.html', 'fleet')}`],
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
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns the command line for these files, with the values of the settings. No output has a name that is taken. */
export function lineOf(
  command: Command,
  files: readonly Named[],
  values: ReadonlyMap<string, string>,
  taken: ReadonlySet<string>,
): string {
  const first = stem(files[0]?.path ?? '');
  const free = (ending: string, name = first) => freePath(`${name}${ending}`, taken);
  // A name that begins with - would be an option.
  const paths = files.map(({ path }) => (path.startsWith('-') ? `./${path}` : path));
  const words = [...command.words, ...paths];
  for (const { option, values: among, otherwise } of command.settings ?? []) {
    const value = values.get(option) ?? (option ? '' : otherwise);
    if (value) words.push(...(option ? [option] : []), ...(among === FLAG ? [] : [value]));
  }
  if (files.some((one) => one.salvage)) words.push('--salvage');
  if (command.name === 'export') words.push('-o', free(values.get('-o') ?? EXPORTS[0]![0]));
  else words.push(...(command.output?.(free) ?? []));
  return ['memreplay', ...words].map(quoted).join(' ');
}
