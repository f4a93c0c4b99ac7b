// Keeps two snapshots in sync: both show the same part, by step or by time.

import { signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { PageDevice } from '../core/page.js';
import type { Ground } from './ground.js';

export const ComparedContext = createContext<readonly [Ground, Ground] | null>(null);

/** The base snapshot, and the one compared with it. */
export function useCompared(): readonly [Ground, Ground] | null {
  return useContext(ComparedContext);
}

/** Each picture's maximum; compared pictures share a scale. */
export const heights = signal<ReadonlyMap<number, number>>(new Map());

/** The height of a picture's scale, given its contents. */
export function commonHeight(high: number, compared: boolean): number {
  return compared ? Math.max(high, ...heights.value.values()) : high;
}

export function sayHeight(snapshot: number, high: number): void {
  if (heights.value.get(snapshot) !== high) {
    heights.value = new Map(heights.value).set(snapshot, high);
  }
}

/** Returns the moments by which two recordings are aligned: the start, the start and end of each
 * step, and the end. */
export function anchors(device: PageDevice): number[] {
  const steps = device.marks.filter(({ kind }) => kind === 'step');
  return [0, ...steps.flatMap(({ moment, end }) => [moment, end ?? moment]), device.events + 1];
}

/** Maps a position on one event axis to the corresponding position on another, by interpolating
 * between anchors. The k-th step corresponds to the other's k-th step. The part after the last
 * step that both have corresponds to the other's remaining part. */
export function mapped(from: readonly number[], to: readonly number[], x: number): number {
  const both = Math.min(from.length, to.length) - 1;
  const a = [...from.slice(0, both), from[from.length - 1]!];
  const b = [...to.slice(0, both), to[to.length - 1]!];
  let k = 1;
  while (k < both && x > a[k]!) k++;
  const [a0, a1, b0, b1] = [a[k - 1]!, a[k]!, b[k - 1]!, b[k]!];
  const part = a1 > a0 ? Math.min(Math.max((x - a0) / (a1 - a0), 0), 1) : 0;
  return b0 + part * (b1 - b0);
}
