// Arranges the contents of lanes in rows: points at the top, then steps, then annotations.

import { count } from '../../units.js';
import { type Laid, laid, type Ranges, type Row } from './layout.js';

/** An annotation's range on the axis. */
export interface LaneSpan {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** A step, or a point at which memory ran out or a snapshot was taken. */
export interface LaneMark {
  readonly kind: 'oom' | 'snapshot' | 'step';
  readonly text: string;
  readonly from: number;
  /** For a step, where it ends. */
  readonly to: number | null;
}

/** An item in a lane. */
export interface LaneItem {
  readonly kind: 'span' | LaneMark['kind'];
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

export interface Lane {
  readonly kind: 'point' | 'step' | 'span' | 'more';
  /** Said beside it. */
  readonly label: string;
  readonly ranges: Ranges;
  readonly row: Row;
  readonly item: (range: number) => LaneItem;
}

export interface LaneModel {
  readonly lanes: readonly Lane[];
}

/** Overlapping steps, such as those from several threads, get separate rows, up to this many. */
const STEP_ROWS = 3;

function rangesOf(items: readonly { readonly from: number; readonly to: number }[]): Ranges {
  const from = new Float64Array(items.length);
  const to = new Float64Array(items.length);
  for (let i = 0; i < items.length; i++) {
    from[i] = items[i]!.from;
    to[i] = Math.max(items[i]!.to, items[i]!.from);
  }
  return { from, to };
}

/** Arranges spans and marks: annotations in at most this many rows, and one row for the rest. */
export function modelOf(
  spans: readonly LaneSpan[],
  marks: readonly LaneMark[],
  most: number,
): LaneModel {
  const lanes: Lane[] = [];
  const points: LaneItem[] = [];
  const steps: LaneItem[] = [];
  for (const { kind, text, from, to } of marks) {
    if (kind === 'step') steps.push({ kind, name: text, from, to: to ?? from });
    else points.push({ kind, name: text, from, to: from });
  }
  points.sort((one, other) => one.from - other.from);
  if (points.length) {
    const row = Int32Array.from(points, (_, i) => i);
    lanes.push({
      kind: 'point',
      label: '',
      ranges: rangesOf(points),
      row,
      item: (i) => points[i]!,
    });
  }
  const item = (i: number): LaneItem => steps[i]!;
  pushRows(lanes, 'step', 'steps', rangesOf(steps), STEP_ROWS, item);
  pushRows(lanes, 'span', 'annotations', rangesOf(spans), most, (i) => {
    const { name, from, to } = spans[i]!;
    return { kind: 'span', name, from, to };
  });
  return { lanes };
}

function pushRows(
  lanes: Lane[],
  kind: 'step' | 'span',
  label: string,
  ranges: Ranges,
  most: number,
  item: (range: number) => LaneItem,
): void {
  const found: Laid = laid(ranges, most);
  found.rows.forEach((row, i) => {
    lanes.push({ kind, label: i ? '' : label, ranges, row, item });
  });
  if (!found.more.length) return;
  // The remaining ranges overlap, so their row only shows where there are any.
  const where = union(ranges, found.more);
  const row = Int32Array.from(where.from, (_, i) => i);
  lanes.push({
    kind: 'more',
    label: `+${count(found.more.length)} more`,
    ranges: where,
    row,
    item,
  });
}

/** The union of some ranges as disjoint ranges; `row` has them sorted by start. */
export function union({ from, to }: Ranges, row: Row): Ranges {
  const starts: number[] = [];
  const ends: number[] = [];
  for (const one of row) {
    const last = ends.length - 1;
    if (last >= 0 && from[one]! <= ends[last]!) ends[last] = Math.max(ends[last]!, to[one]!);
    else {
      starts.push(from[one]!);
      ends.push(to[one]!);
    }
  }
  return { from: Float64Array.from(starts), to: Float64Array.from(ends) };
}
