// Selects the allocations that pass a filter: those with a frame that matches a pattern, and those
// in a group. Patterns work as with `--include`, and are searched in the same text as in
// analysis/selecting/filters.py, as far as Python's and JavaScript's regular expressions agree.

import type { Code } from './code.js';
import type { Grouping } from './groups.js';

/** The allocations that pass a filter. */
export interface Selection {
  has(id: number): boolean;
}

class Both implements Selection {
  constructor(
    private readonly met: Uint8Array | null,
    private readonly stacks: Int32Array | null,
    private readonly groups: Grouping | null,
    private readonly group: number,
    private readonly first: number,
  ) {}

  has(id: number): boolean {
    const { met, stacks, groups } = this;
    if (id < this.first) return false;
    if (met && !met[stacks![id]!]) return false;
    return !groups || groups.at(id) === this.group;
  }
}

/** Selects the allocations of a group whose stack is in `met` (null: any stack), from the number
 * `first` on. */
export function selection(
  met: Uint8Array | null,
  stacks: Int32Array | null,
  groups: Grouping | null,
  group: number,
  first = 0,
): Selection {
  return new Both(met, stacks, groups, group, first);
}

/** Finds the operator in a C++ name: `at::_ops::add_::call` is `add_`. */
const OPERATOR = /at::_ops::(\w+)::(?:call|redispatch)\b/;
/** Characters around a location that was copied from a table. */
const BEFORE = /^(?:… |via (?:[\w.-]+: )?)/;
const BEHIND = /(?: +\((?:autograd|PyTorch's own)\)(?: +aten::\w+)?|(?<=\d) {2,}aten::\w+)$/;

/** Returns whether the pattern matches each frame. Throws an Error for an invalid regular
 * expression. */
export function framesMet(code: Code, pattern: string): Uint8Array {
  const searched = searches(pattern);
  const found = (text: string): boolean => searched.some((one) => one.test(text));
  const { functions, files, lines } = code.frames;
  const { texts } = code;
  // Each text without its line number is searched once, however many frames have it.
  const known = new Map<number, boolean>();
  const frames = new Uint8Array(lines.length);
  for (let i = 0; i < frames.length; i++) {
    const key = functions[i]! * texts.length + files[i]!;
    const name = texts[functions[i]!] ?? '';
    const file = texts[files[i]!] ?? '';
    let met = known.get(key);
    if (met === undefined) {
      const operator = OPERATOR.exec(name)?.[1];
      met =
        found(`${file}:${name}`) ||
        found(`${name} ${file}`) ||
        (operator !== undefined && found(`aten::${operator}`));
      known.set(key, met);
    }
    if (!met && lines[i]) {
      met = found(`${file}:${lines[i]}`) || found(`${name} ${file}:${lines[i]}`);
    }
    if (met) frames[i] = 1;
  }
  return frames;
}

/** Returns, for each stack, whether the pattern matches one of its frames. The numbers after the
 * last stack, which mean no stack, never match. */
export function stacksMet(code: Code, pattern: string): Uint8Array {
  const frames = framesMet(code, pattern);
  const stacks = new Uint8Array(code.stacks + 2);
  for (let k = 0; k < code.stacks; k++) {
    for (let i = code.offsets[k]!; i < code.offsets[k + 1]!; i++) {
      if (frames[code.ids[i]!]) {
        stacks[k] = 1;
        break;
      }
    }
  }
  return stacks;
}

/** Returns what to search for: the pattern as a regular expression and as literal text, because C++
 * names often aren't valid expressions. A line number at the end only matches whole numbers. `…`
 * marks where a name was cut. */
export function searches(pattern: string): RegExp[] {
  const place = pattern.trim().replace(BEHIND, '').replace(BEFORE, '');
  const text = place.replace(/ {2,}/g, ' ').replaceAll('…', '.*');
  const letters = text.split('.*').map(escaped).join('.*');
  const end = /:\d+$/.test(text) ? '(?!\\d)' : '';
  const found = [new RegExp(letters + end)];
  if (text === letters) return found;
  // Python writes flags as a leading `(?i)`.
  const flag = /^\(\?([im]+)\)/.exec(text);
  try {
    const said = asJavaScript(text.slice(flag?.[0].length ?? 0));
    found.unshift(new RegExp(said + end, `u${flag?.[1] ?? ''}`));
  } catch (error) {
    if (!pattern.includes('…')) {
      throw new Error(`not a regular expression: ${(error as Error).message.split(': ').pop()}`);
    }
  }
  return found;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
}

/** Python's `\\w`: letters and digits of all scripts, and `_`. */
const WORD = '\\p{L}\\p{N}_';
const EDGE = `(?:(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}]))`;
const OUTSIDE: Readonly<Record<string, string>> = {
  '\\A': '^',
  '\\Z': '$',
  '\\w': `[${WORD}]`,
  '\\W': `[^${WORD}]`,
  '\\d': '\\p{Nd}',
  '\\D': '\\P{Nd}',
  '\\b': EDGE,
  '\\B': `(?!${EDGE})`,
};
const INSIDE: Readonly<Record<string, string>> = {
  '\\w': WORD,
  '\\d': '\\p{Nd}',
  '\\D': '\\P{Nd}',
};
/** Characters that may be escaped with the flag `u`; Python allows any punctuation. */
const ESCAPED = /[\^$\\.*+?()[\]{}|/]/;

/** Converts a Python regular expression to JavaScript's syntax with the flag `u`, which rejects
 * anything unknown. Letters are those of all scripts, `\\A` and `\\Z` match the start and the end,
 * and `{,n}` starts at 0. */
export function asJavaScript(pattern: string): string {
  let found = '';
  let inside = false;
  for (let i = 0; i < pattern.length; i++) {
    const one = pattern[i]!;
    if (one === '\\') {
      const two = pattern.slice(i, i + 2);
      const sign = two[1] ?? '';
      i++;
      const known = (inside ? INSIDE : OUTSIDE)[two];
      if (inside && (two === '\\W' || two === '\\b')) {
        throw new SyntaxError(`${two} in [] isn't supported`);
      }
      if (known) found += known;
      else if (sign && /[^\w\s]/.test(sign) && !ESCAPED.test(sign))
        found += inside && sign === '-' ? two : sign;
      else found += two;
      continue;
    }
    if (inside) {
      // Inside a set, an opening bracket is an ordinary character.
      if (one === '[') {
        found += '\\[';
        continue;
      }
      if (one === ']') inside = false;
      found += one;
      continue;
    }
    if (one === '[') {
      inside = true;
      found += one;
      // A leading closing bracket is a member of the set.
      const rest = /^\^?\]/.exec(pattern.slice(i + 1));
      if (rest) {
        found += rest[0].replace(']', '\\]');
        i += rest[0].length;
      }
      continue;
    }
    const times = one === '{' ? /^\{(\d*)(,?)(\d*)\}/.exec(pattern.slice(i)) : null;
    if (times && (times[1] || times[3])) {
      found += `{${times[1] || '0'}${times[2]}${times[3]}}`;
      i += times[0].length - 1;
    } else if (one === '{' || one === '}') found += `\\${one}`;
    else found += one;
  }
  return found;
}
