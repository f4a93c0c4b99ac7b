// Data shared by a fleet's views: its records, its curves, and values computed from them once.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { type Curves, type FleetPage, type Lying, lyingOf } from '../../core/fleet.js';

export interface World {
  readonly page: FleetPage;
  readonly curves: Curves;
  readonly lying: readonly Lying[];
  /** Statistics of the peaks of all ranks that were read. */
  readonly median: number;
}

export function worldOf(page: FleetPage, curves: Curves): World {
  const peaks = page.ranks
    .filter(({ device }) => device !== null)
    .map(({ peak_bytes }) => peak_bytes)
    .sort((a, b) => a - b);
  const half = peaks.length >> 1;
  const median =
    peaks.length % 2 ? peaks[half]! : Math.floor(((peaks[half - 1] ?? 0) + (peaks[half] ?? 0)) / 2);
  return { page, curves, lying: lyingOf(curves), median };
}

export const WorldContext = createContext<World | null>(null);

export function useWorld(): World {
  const world = useContext(WorldContext);
  if (!world) throw new Error('no fleet data');
  return world;
}
