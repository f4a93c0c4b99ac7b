// Which allocations a filter lets through: those with a frame that a pattern is found in, and those of
// a group. The pattern is that of `--include`: what it is found in is as in analysis/selecting/filters.py,
// for what a regular expression of Python and one of JavaScript have in common.

import type { Code } from './code.js';
import type { Grouping } from './groups.js';

/** What a filter lets through. */
export interface Selection {
  has(id: number): boolean;
}

class Both implements Selection {
  constructor(
    private readonly met: Uint8Array | null,
    private readonly stacks: Int32Array | null,
    private readonly groups: Grouping | null,
    private readonly group: number,
  ) {}

  has(id: number): boolean {
    const { met, stacks, groups } = this;
    if (met && !met[stacks![id]!]) return false;
    return !groups || groups.at(id) === this.group;
  }
}

/** Those whose stack is one of `met` (null: all of them), and whose group is this one. */
export function selection(
  met: Uint8Array | null,
  stacks: Int32Array | null,
  groups: Grouping | null,
  group: number,
): Selection {
  return new Both(met, stacks, groups, group);
}

/** What a name of C++ stands for: `at::_ops::add_::call` is the operator `add_`. */
const OPERATOR = /at::_ops::(\w+)::(?:call|redispatch)\b/;
/** What stands around a place where it was copied out of a table. */
const BEFORE = /^(?:… |via (?:[\w.-]+: )?)/;
const BEHIND = /(?: +\((?:autograd|PyTorch's own)\)(?: +aten::\w+)?|(?<=\d) {2,}aten::\w+)$/;

/** Of each stack whether the pattern is found in one of its frames; of those behind the stacks, which
 * stand for none, it is not. Throws an Error for what is no regular expression. */
export function stacksMet(code: Code, pattern: string): Uint8Array {
  const searched = searches(pattern);
  const found = (text: string): boolean => searched.some((one) => one.test(text));
  const { functions, files, lines } = code.frames;
  const { texts } = code;
  // Texts without the line are searched once, however many lines of them are frames.
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

/** The regular expression, and the same text to the letter, as a name of C++ is none. A line's number
 * at the end is the whole number; `…` is where a name was cut. */
export function searches(pattern: string): RegExp[] {
  const place = pattern.trim().replace(BEHIND, '').replace(BEFORE, '');
  const text = place.replace(/ {2,}/g, ' ').replaceAll('…', '.*');
  const letters = text.split('.*').map(escaped).join('.*');
  const end = /:\d+$/.test(text) ? '(?!\\d)' : '';
  const found = [new RegExp(letters + end)];
  if (text === letters) return found;
  // `(?i)` in front is what Python has for a flag.
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

/** Letters, digits and `_` of all scripts: what Python means by `\\w`. */
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
/** What may be escaped with the flag `u`; Python lets any sign be. */
const ESCAPED = /[\^$\\.*+?()[\]{}|/]/;

/** A regular expression of Python's as JavaScript has it with the flag `u`, which refuses what it does
 * not know: letters are those of all scripts, `\\A` and `\\Z` are the ends, `{,n}` begins with 0. */
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
        throw new SyntaxError(`${two} in [] is not known here`);
      }
      if (known) found += known;
      else if (sign && /[^\w\s]/.test(sign) && !ESCAPED.test(sign))
        found += inside && sign === '-' ? two : sign;
      else found += two;
      continue;
    }
    if (inside) {
      // In a set brackets that open one are signs like any other.
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
      // A bracket that stands first is one of the set.
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
