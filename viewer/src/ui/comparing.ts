// Two snapshots in sync: what is seen of one is seen of the other, step by step or by time.

import { signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { PageDevice } from '../core/page.js';
import type { Ground } from './ground.js';

export const ComparedContext = createContext<readonly [Ground, Ground] | null>(null);

/** The snapshot to compare with, and the one that is compared. */
export function useCompared(): readonly [Ground, Ground] | null {
  return useContext(ComparedContext);
}

/** Of each picture what it goes up to: two that are compared have one scale. */
export const heights = signal<ReadonlyMap<number, number>>(new Map());

/** What a picture is to go up to, given what is in it. */
export function commonHeight(high: number, compared: boolean): number {
  return compared ? Math.max(high, ...heights.value.values()) : high;
}

export function sayHeight(snapshot: number, high: number): void {
  if (heights.value.get(snapshot) !== high) {
    heights.value = new Map(heights.value).set(snapshot, high);
  }
}

/** Moments of a device that are places in a program: the start, where each step begins and ends, the
 * end. */
export function anchors(device: PageDevice): number[] {
  const steps = device.marks.filter(({ kind }) => kind === 'step');
  return [0, ...steps.flatMap(({ moment, end }) => [moment, end ?? moment]), device.events + 1];
}

/** A place on one axis of events where the other has its like: between two anchors in proportion.
 * The k-th step is the other's k-th; what comes behind the last that both have goes to the end. */
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
