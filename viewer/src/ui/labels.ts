// Names of code, with what differs first: file and line, then function and operator.

import type { PageData, Way } from '../core/page.js';
import { type Ground, groupLines, groupsOf } from './ground.js';

interface Names {
  /** The files' names. */
  readonly files: ReadonlyMap<number, string>;
  /** The parts of lines that name code. */
  readonly code: ReadonlyMap<number, readonly number[]>;
  /** The file with each name without folders; null if there are several. */
  readonly last: ReadonlyMap<string, string | null>;
}

const known = new WeakMap<PageData, Names>();

export function tail(path: string): string {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

function namesOf(snapshot: PageData): Names {
  let names = known.get(snapshot);
  if (!names) {
    const { texts, files, code } = snapshot;
    const last = new Map<string, string | null>();
    for (const [, name] of files) {
      const path = texts[name]!;
      const before = last.get(tail(path));
      last.set(tail(path), before === undefined || before === path ? path : null);
    }
    names = {
      files: new Map(files.map(([file, name]) => [file, texts[name]!])),
      code: new Map(code.map((one) => [one[0]!, one])),
      last,
    };
    known.set(snapshot, names);
  }
  return names;
}

/** A file's path in the page's folder and its line; `brief`: without folders, unless another file
 * has the same name. The file is an index in `texts`. */
export function placeOf(snapshot: PageData, file: number, line: number, brief = false): string {
  const { files, last } = namesOf(snapshot);
  const path = files.get(file) ?? snapshot.texts[file] ?? '';
  const name = brief && last.get(tail(path)) !== null ? tail(path) : path;
  return name && line ? `${name}:${line}` : name;
}

/** A group's lines: its name, then its callers. Lines that name code begin with file and line. */
export function groupWords(ground: Ground, way: Way, group: number, brief = false): string[] {
  const { snapshot, device } = ground;
  const { code } = namesOf(snapshot);
  const whole = groupLines(ground, way, group);
  const lines = groupsOf(device, way)?.lines[group] ?? [];
  return whole.map((text, i) => {
    const parts = code.get(lines[i] ?? -1);
    if (!parts) return text;
    const [, line, file, ...names] = parts;
    const words = names.map((one) => snapshot.texts[one]);
    return [placeOf(snapshot, file!, line!, brief), ...words].filter(Boolean).join(' ');
  });
}

/** A group's name with its file's folders, and its callers without. */
export function nameAndCallers(ground: Ground, way: Way, group: number): string[] {
  const [name = ''] = groupWords(ground, way, group);
  return [name, ...groupWords(ground, way, group, true).slice(1)];
}

/** A C++ function without its parameters. */
export function withoutParameters(name: string): string {
  return name.replace(/\([^()]*(?:\([^()]*\)[^()]*)*\)(?: const)?$/, '') || name;
}

/** The places of each text in a list. */
function places(texts: readonly string[]): number[][] {
  const found = new Map<string, number[]>();
  texts.forEach((one, i) => {
    found.set(one, [...(found.get(one) ?? []), i]);
  });
  return [...found.values()];
}

/** One label per row: its first line, and of rows with the same label, the first callers that
 * differ. */
export function distinct(rows: readonly (readonly string[])[]): string[] {
  const labels = rows.map(([name = '']) => name);
  const most = Math.max(0, ...rows.map(({ length }) => length));
  for (let at = 1; at < most; at++) {
    for (const set of places(labels)) {
      if (new Set(set.map((i) => rows[i]![at])).size < 2) continue;
      for (const i of set) if (rows[i]![at]) labels[i] += ` ← ${rows[i]![at]}`;
    }
  }
  return labels;
}

/** Shortens texts to at most `most` characters, from their middles. Texts that would then look the
 * same keep the part in which they differ; if that's not enough, they aren't shortened. */
export function elided(texts: readonly string[], most: number): string[] {
  const found = texts.map((text) => {
    const head = Math.ceil(most * 0.6);
    return text.length <= most ? text : `${text.slice(0, head)}…${text.slice(head + 1 - most)}`;
  });
  const ambiguous = () => places(found).filter((set) => new Set(set.map((i) => texts[i])).size > 1);
  for (const set of ambiguous()) {
    const first = texts[set[0]!]!;
    let same = 0;
    while (set.every((i) => texts[i]![same] === first[same]) && same < first.length) same++;
    const from = Math.max(same - (most >> 2), 0);
    for (const i of set) {
      const rest = from ? `…${texts[i]!.slice(from + 1)}` : texts[i]!;
      found[i] = rest.length > most ? `${rest.slice(0, most - 1)}…` : rest;
    }
  }
  for (const set of ambiguous()) for (const i of set) found[i] = texts[i]!;
  return found;
}
