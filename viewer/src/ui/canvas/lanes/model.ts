// What lanes show, put into rows: points on top, then steps, then annotations.

import { count } from '../../units.js';
import { type Laid, laid, type Ranges, type Row } from './layout.js';

/** An annotation, along the axis. */
export interface LaneSpan {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** A step, or a point: where memory ran out, or where a snapshot was taken. */
export interface LaneMark {
  readonly kind: 'oom' | 'snapshot' | 'step';
  readonly text: string;
  readonly from: number;
  /** Of a step where it ends. */
  readonly to: number | null;
}

/** One thing of the lanes. */
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

/** Steps that overlap, as those of several threads do, have rows of their own, but no more. */
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

/** Lays spans and marks out: annotations in at most so many rows, and one for the rest. */
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
  // What is left overlaps: its row only shows where something is.
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

/** Where any of some ranges is, as ranges that do not touch; `row` has them by their beginnings. */
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
