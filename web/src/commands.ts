// The commands that the page offers, and their command lines.

import { freePath } from './dropped.js';

/** A setting that adds an option to the command line: a flag if it's on, a value unless it's empty. */
export interface Setting {
  label: string;
  option: string;
  /** The values to choose from, some with a label; a text field has none. A flag has only "on". */
  values?: readonly (string | readonly [string, string])[];
  /** What applies without the option. */
  otherwise?: string;
  /** What it is at first. */
  first?: string;
  /** What may be typed into a text field; the first is shown there. */
  examples?: readonly string[];
}

export interface Command {
  name: string;
  title: string;
  /** Words before the files. */
  words: readonly string[];
  /** Returns the words that name its output, after the snapshot's stem; `free` returns a name that no open file has. */
  output?: (name: string, free: (name: string) => string) => readonly string[];
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
const MOST: Setting = { label: 'Highest peak', option: '--max-peak', examples: ['38GiB'] };
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
    output: (name, free) => ['-o', free(`${name}.html`)],
    page: true,
  },
  { name: 'report', title: 'Report', words: ['report'], settings: [TOTAL] },
  { name: 'summary', title: 'Summary', words: ['summary'] },
  { name: 'peak', title: 'Peak', words: ['peak'], settings: [BY, MEASURE, TREE] },
  {
    name: 'at',
    title: 'Moment',
    words: ['at'],
    settings: [
      {
        label: 'When',
        option: '',
        examples: ['peak:2', 'oom', 'step:3', 'end', '1200', '1.5s'],
        first: 'end',
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
    name: 'gate',
    title: 'Gate',
    words: ['gate'],
    settings: [
      MOST,
      { label: 'Most reserved', option: '--max-reserved', examples: ['40GiB'] },
      { label: 'Forbid', option: '--forbid', values: ['oom', 'leaks'], first: 'oom' },
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
  {
    name: 'gate',
    title: 'Gate',
    words: ['gate', '--base'],
    settings: [{ label: 'Most growth', option: '--max-growth', examples: ['5%'], first: '2%' }],
  },
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
  {
    name: 'gate',
    title: 'Gate',
    words: ['gate'],
    settings: [
      MOST,
      { label: 'Most over the median', option: '--max-spread', examples: ['5%'], first: '10%' },
    ],
  },
];

/** What an export can write, by the ending of the file's name, and the command if it isn't export. */
export const EXPORTS: readonly (readonly [string, string, ...string[]])[] = [
  ['.speedscope.json', 'speedscope: flame graph'],
  ['.pftrace', 'Perfetto: trace'],
  ['.trace.json', 'Chrome: trace'],
  ['.pb.gz', 'pprof: flame graph'],
  ['-timeline.csv', 'CSV: memory over time', 'timeline', '--format', 'csv'],
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
  salvage: boolean,
): string {
  const words = [...command.words, ...paths.map(unlikeOption)];
  const name = stem(paths[0] ?? '');
  const free = (file: string) => freePath(file, open);
  for (const { option, values: among } of command.settings ?? []) {
    const value = values.get(option);
    if (value) words.push(...(option ? [option] : []), ...(among === FLAG ? [] : [value]));
  }
  if (salvage) words.push('--salvage');
  if (command.name === 'export') {
    const ending = values.get('-o') ?? EXPORTS[0]![0];
    const [, , instead, ...more] = EXPORTS.find((one) => one[0] === ending)!;
    if (instead) words[0] = instead;
    words.push(...more, '-o', free(name + ending));
  } else words.push(...(command.output?.(name, free) ?? []));
  return ['memreplay', ...words].map(quoted).join(' ');
}
