// A page's data about a fleet: the records of export/page/fleet_records.py, and its ranks over time.

import { type Coded, decoded } from './columns.js';
import { inflated } from './inflate.js';
import type { Measure, ReportBlock } from './page.js';

export interface PageShare {
  /** An index into `texts`. */
  readonly text: number;
  readonly bytes: number;
}

export interface PageRank {
  readonly rank: number | null;
  readonly file: string;
  readonly status: string;
  readonly error: string | null;
  readonly host: string | null;
  /** The index of the rank's group in `groups`. */
  readonly group: number | null;
  /** For an odd rank: the number of the rank that it was compared with. */
  readonly typical: number | null;
  /** The URL of the rank's own page, if it was there when this page was written. */
  readonly page: string | null;
  readonly device: number | null;
  readonly peak_bytes: number;
  readonly reserved_bytes: number | null;
  readonly headroom_bytes: number | null;
  readonly step: number | null;
  readonly ooms: number;
  readonly leak_bytes_per_step: number | null;
  /** `exact`, or the reason why the rank's numbers aren't exact. */
  readonly trust: string;
  readonly categories: readonly PageShare[];
  readonly holders: readonly PageShare[];
  /** How many numbers in `curves` belong to the rank. */
  readonly moments: number;
}

export interface PageAlike {
  readonly name: string;
  readonly differs: readonly string[];
}

export interface FleetPage {
  readonly schema: 'memreplay.fleet_page/1';
  readonly version: string;
  readonly title: string;
  readonly headline: string;
  /** Why some numbers can't be trusted; empty if all can. */
  readonly doubt: string;
  readonly measure: Measure;
  /** What a row represents. */
  readonly noun: 'rank' | 'device';
  readonly curve_by: 'steps' | 'events';
  readonly texts: readonly string[];
  readonly ranks: readonly PageRank[];
  readonly groups: readonly PageAlike[];
  readonly curves: Coded;
  readonly bytes: number;
  readonly report: readonly ReportBlock[];
}

/** Each rank's highest byte count in each moment, rank by rank; NaN if a rank has no such moment. */
export interface Curves {
  readonly ranks: number;
  readonly moments: number;
  readonly bytes: Float64Array;
}

/** Reads the ranks from the page's column. */
export async function curvesOf(page: FleetPage, base64: string): Promise<Curves> {
  const data = await inflated(base64, page.bytes);
  return spread(
    page.ranks.map(({ moments }) => moments),
    decoded(data, page.curves),
  );
}

/** Turns concatenated curves into rows of equal length. */
export function spread(lengths: readonly number[], numbers: Float64Array): Curves {
  const moments = lengths.reduce((most, one) => Math.max(most, one), 0);
  const whole = lengths.reduce((sum, one) => sum + one, 0);
  if (whole !== numbers.length) {
    throw new Error(`the page is damaged: it has ${numbers.length} numbers, not ${whole}`);
  }
  const bytes = new Float64Array(lengths.length * moments).fill(Number.NaN);
  let at = 0;
  lengths.forEach((length, rank) => {
    bytes.set(numbers.subarray(at, at + length), rank * moments);
    at += length;
  });
  return { ranks: lengths.length, moments, bytes };
}

export function bytesAt({ moments, bytes }: Curves, rank: number, moment: number): number {
  return bytes[rank * moments + moment] ?? Number.NaN;
}

/** The median of sorted numbers: of an even number, the mean of the middle two, rounded down. */
export function medianOf(sorted: readonly number[]): number {
  const { length } = sorted;
  const half = length >> 1;
  const middle = sorted[half] ?? Number.NaN;
  return length % 2 ? middle : Math.floor((sorted[half - 1]! + middle) / 2);
}

/** The distribution over all ranks at one moment. NaN if no rank has the moment. */
export interface Lying {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export function lyingOf(curves: Curves): Lying[] {
  return Array.from({ length: curves.moments }, (_, moment) => {
    const there = Array.from({ length: curves.ranks }, (_, rank) => bytesAt(curves, rank, moment))
      .filter((one) => !Number.isNaN(one))
      .sort((a, b) => a - b);
    const { length } = there;
    if (!length) return { min: Number.NaN, median: Number.NaN, max: Number.NaN };
    return { min: there[0]!, median: medianOf(there), max: there[length - 1]! };
  });
}

export const ORDERS = ['rank', 'peak', 'alike', 'host'] as const;
export type Order = (typeof ORDERS)[number];

/** The ranks' indices in a given order. Ranks without a number or that weren't read come last. */
export function ordered(ranks: readonly PageRank[], order: Order): number[] {
  const number = ({ rank }: PageRank) => rank ?? Number.POSITIVE_INFINITY;
  const by: Record<Order, (a: PageRank, b: PageRank) => number> = {
    rank: () => 0,
    peak: (a, b) => b.peak_bytes - a.peak_bytes,
    alike: (a, b) => (a.group ?? Infinity) - (b.group ?? Infinity) || 0,
    host: (a, b) => compared(a.host ?? '\uffff', b.host ?? '\uffff'),
  };
  const unread = ({ device }: PageRank) => Number(device === null);
  return ranks
    .map((_, place) => place)
    .sort((one, other) => {
      const [a, b] = [ranks[one]!, ranks[other]!];
      const last = order === 'rank' ? 0 : unread(a) - unread(b);
      return last || by[order](a, b) || number(a) - number(b) || one - other;
    });
}

function compared(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
