// The group or allocation under the pointer, in the picture or in the legend: each marks it in the other.

import { signal } from '@preact/signals';
import type { Way } from '../core/page.js';

export interface PointedAt {
  readonly from: 'picture' | 'legend';
  readonly snapshot: number;
  /** An allocation. */
  readonly id?: number;
  /** Groups, by key. */
  readonly groups?: Readonly<Partial<Record<Way, number>>>;
}

export const pointed = signal<PointedAt | null>(null);
