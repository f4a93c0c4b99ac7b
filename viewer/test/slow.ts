// A slow but obvious implementation of src/core on plain rows, with which tests compare it.

import type { LifeMeasure, Measure } from '../src/core/page.js';
import type { Axis, Colouring, Span } from '../src/protocol.js';
import { bytesOf, endOf, type World } from './world.js';

/** The allocations that are live at a moment. */
export function live(world: World, measure: LifeMeasure, moment: number): number[] {
  const found: number[] = [];
  world.lives.forEach((one, i) => {
    if (one.begin < moment && endOf(one, measure) >= moment) found.push(i);
  });
  return found;
}

export function usage(world: World, measure: Measure, moment: number): number {
  if (measure !== 'reserved') {
    return live(world, measure, moment).reduce(
      (sum, i) => sum + bytesOf(world.lives[i]!, measure),
      0,
    );
  }
  const before = world.reserved.filter(([event]) => event < moment);
  return before[before.length - 1]?.[1] ?? world.reservedStart;
}

/** When a moment begins and ends, in microseconds. */
export function lasts(world: World, moment: number): [number, number] {
  const times = world.times!;
  const start = moment === 0 ? 0 : times[moment - 1]!;
  return [start, moment === world.events ? times[world.events - 1]! : times[moment]!];
}

/** The moments that a column of pixels covers. */
export function covered(
  world: World,
  axis: Axis,
  span: Span,
  columns: number,
  column: number,
): number[] {
  const step = (span.to - span.from) / columns;
  const left = span.from + column * step;
  const right = span.from + (column + 1) * step;
  const all = Array.from({ length: world.events + 1 }, (_, m) => m);
  if (axis === 'time') {
    return all.filter((m) => {
      const [start, end] = lasts(world, m);
      return start < right && end >= left;
    });
  }
  const first = Math.floor(left);
  const stop = Math.max(Math.floor(right), first + 1);
  return all.filter((m) => m >= first && m < stop);
}

/** The first moment with the highest usage; -1 if there are no moments. */
export function highest(world: World, measure: Measure, moments: readonly number[]): number {
  let best = -1;
  for (const m of moments) {
    if (best < 0 || usage(world, measure, m) > usage(world, measure, best)) best = m;
  }
  return best;
}

export interface Heights {
  readonly low: number;
  readonly high: number;
  readonly height: number;
}

/** The allocation that holds the byte in the middle of a pixel. `row` counts from the bottom. */
export function pixel(
  world: World,
  measure: LifeMeasure,
  moment: number,
  { low, high, height }: Heights,
  row: number,
): number {
  if (moment < 0) return -1;
  const byte = low + ((row + 0.5) * (high - low)) / height;
  let top = 0;
  for (const i of live(world, measure, moment)) {
    const bytes = bytesOf(world.lives[i]!, measure);
    if (byte >= top && byte < top + bytes) return i;
    top += bytes;
  }
  return -1;
}

/** The colours of a picture as [red, green, blue], by the rules in src/core/colour.ts. */
export function colours(
  ids: readonly number[],
  width: number,
  { colours, others, background }: Colouring,
  groupOf: (id: number) => number,
  highlighted: (id: number) => boolean,
): number[][] {
  const split = (colour: number): number[] => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const colour = (id: number): number[] => {
    if (id < 0) return split(background);
    const own = colours.find(([group]) => group === groupOf(id));
    const plain = split(own ? own[1] : others[groupOf(id) % others.length]!);
    if (highlighted(id)) return plain;
    return plain.map((c, k) => Math.floor((c + 3 * split(background)[k]! + 2) / 4));
  };
  const height = ids.length / width;
  return ids.map((id, i) => {
    const [x, y] = [i % width, Math.floor(i / width)];
    const at = (row: number): number => (row >= 0 && row < height ? ids[row * width + x]! : -1);
    const found = colour(id);
    const below = at(y + 1);
    if (id < 0 || below < 0 || below === id || String(colour(below)) !== String(found))
      return found;
    let high = 0;
    while (at(y - high) === id) high++;
    return high < 3 ? found : found.map((c) => Math.floor((4 * c + 2) / 5));
  });
}

/** An allocation's group by one key. */
export function group(world: World, way: string, measure: LifeMeasure, id: number): number {
  const one = world.lives[id]!;
  const said = world.groups.find((rows) => rows.way === way)!;
  if (said.ofStacks) return said.ofStacks[one.stack]!;
  if (said.ofLives) return said.ofLives[id]!;
  const bytes = bytesOf(one, measure);
  return bytes ? bytes.toString(2).length : 0;
}

/** A frame's spellings. A pattern matches the frame if it matches one of them. */
export function written(world: World, frame: number): string[] {
  const [name, file, line] = world.frames[frame]!;
  const [function_, path] = [world.texts[name]!, world.texts[file]!];
  const found = [`${path}:${function_}`, `${function_} ${path}`];
  if (function_.startsWith('at::_ops::add::')) found.push('aten::add');
  if (line) found.push(`${path}:${line}`, `${function_} ${path}:${line}`);
  return found;
}

/** Whether a pattern matches a frame of an allocation's stack. */
export function met(world: World, pattern: RegExp, id: number): boolean {
  const stack = world.stacks[world.lives[id]!.stack];
  return !!stack?.frames.some((frame) => written(world, frame).some((text) => pattern.test(text)));
}
