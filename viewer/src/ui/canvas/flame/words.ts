// Describes a flame graph's box: in its tooltip, and for screen readers.

import { count, counted, exactSize, percent, signedSize, size } from '../../units.js';
import type { Tip } from '../tooltip.js';
import type { Extents } from './layout.js';

/** A frame's name and location. */
export interface FrameName {
  readonly title: string;
  readonly detail: string;
  /** The location without folders, which comes first in the box. */
  readonly where?: string;
}

/** The total for percentages, and the tree's total before. */
export interface Shown {
  readonly extents: Extents;
  readonly before: Float64Array | null;
  readonly total: number;
  readonly names: (frame: number, node: number) => FrameName;
}

export function nameOf({ extents, names }: Shown, node: number): FrameName {
  return names(extents.tree.frame[node]!, node);
}

function both(bytes: number): string {
  return bytes < 1024 ? exactSize(bytes) : `${size(bytes)} (${exactSize(bytes)})`;
}

function shares(shown: Shown, node: number, bytes: number): (readonly [string, string])[] {
  const { tree } = shown.extents;
  const parent = tree.parent[node]!;
  const rows: (readonly [string, string])[] = [];
  if (shown.total > 0 && parent >= 0) rows.push(['of all', percent(bytes / shown.total)]);
  // The root is the total, so its children's percentage of it is already shown.
  if (parent >= 0 && tree.parent[parent]! >= 0 && tree.bytes[parent]! > 0) {
    rows.push(['of its caller', percent(bytes / tree.bytes[parent]!)]);
  }
  return rows;
}

function change(bytes: number, before: number): string {
  const delta = bytes - before;
  const share =
    before > 0 && delta !== 0 ? `, ${delta > 0 ? '+' : ''}${percent(delta / before)}` : '';
  return `${signedSize(delta)} (${delta > 0 ? '+' : ''}${exactSize(delta)}${share})`;
}

export function tipOf(shown: Shown, node: number, colour: string): Tip {
  const { extents, before } = shown;
  const { tree } = extents;
  const { title, detail } = nameOf(shown, node);
  const bytes = tree.bytes[node]!;
  if (before) {
    const rows = [
      ['before', both(before[node]!)],
      ['after', both(bytes)],
      ['change', change(bytes, before[node]!)],
    ] as const;
    return { title, detail, rows, colour };
  }
  const rows: (readonly [string, string])[] = [
    ['bytes', both(bytes)],
    ...shares(shown, node, bytes),
  ];
  const own = tree.own[node]!;
  if (own > 0 && own < bytes) rows.push(['its own', both(own)]);
  rows.push(['allocations', count(tree.count[node]!)]);
  return { title, detail, rows, colour };
}

/** Describes siblings that share a box. */
export function restTip(shown: Shown, first: number, merged: number): Tip {
  const { extents, before } = shown;
  const { tree, end } = extents;
  let [bytes, earlier, allocations] = [0, 0, 0];
  let node = first;
  for (let i = 0; i < merged; i++, node = end[node]!) {
    bytes += tree.bytes[node]!;
    earlier += before ? before[node]! : 0;
    allocations += tree.count[node]!;
  }
  const title = `${counted(merged, 'smaller one')}, too narrow to draw`;
  const rows: (readonly [string, string])[] = before
    ? [
        ['before', both(earlier)],
        ['after', both(bytes)],
      ]
    : [['bytes', both(bytes)], ...shares(shown, first, bytes), ['allocations', count(allocations)]];
  return { title, rows, note: 'Zoom into the box above to see them.' };
}

/** `forward model.py:58, 1.1 GiB, 21.6% of 5.2 GiB, 3 allocations`. */
export function described(shown: Shown, node: number): string {
  const { tree } = shown.extents;
  const { title, detail } = nameOf(shown, node);
  const bytes = tree.bytes[node]!;
  const name = detail ? `${title} ${detail}` : title;
  if (shown.before) {
    const earlier = shown.before[node]!;
    return `${name}, ${size(earlier)} before, ${size(bytes)} after, ${signedSize(bytes - earlier)}`;
  }
  const share = shown.total > 0 ? `, ${percent(bytes / shown.total)} of ${size(shown.total)}` : '';
  return `${name}, ${size(bytes)}${share}, ${counted(tree.count[node]!, 'allocation')}`;
}
