// Two snapshots in sync: what is seen of one is seen of the other, step by step or by time.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { PageDevice } from '../core/page.js';
import type { Ground } from './ground.js';

export const ComparedContext = createContext<readonly [Ground, Ground] | null>(null);

/** The snapshot to compare with, and the one that is compared. */
export function useCompared(): readonly [Ground, Ground] | null {
  return useContext(ComparedContext);
}

/** Moments of a device that are the same place in a program: the start, each step's, the end. */
export function anchors(device: PageDevice): number[] {
  const steps = device.marks.filter(({ kind }) => kind === 'step').map(({ moment }) => moment);
  return [...new Set([0, ...steps, device.events + 1])].sort((a, b) => a - b);
}

/** A place on one axis of events where the other has its like: between two anchors in proportion.
 * Where the numbers of steps differ the k-th is the k-th, and what is left over goes to the end. */
export function mapped(from: readonly number[], to: readonly number[], x: number): number {
  const pairs = Math.min(from.length, to.length);
  // The ends are each other's, however many steps there are.
  const a = [...from.slice(0, pairs - 1), from[from.length - 1]!];
  const b = [...to.slice(0, pairs - 1), to[to.length - 1]!];
  for (let k = 1; k < a.length; k++) {
    if (x <= a[k]! || k === a.length - 1) {
      const part = (x - a[k - 1]!) / Math.max(a[k]! - a[k - 1]!, Number.MIN_VALUE);
      return b[k - 1]! + part * (b[k]! - b[k - 1]!);
    }
  }
  return x;
}
