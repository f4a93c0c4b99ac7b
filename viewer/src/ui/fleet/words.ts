// What is called how: ranks, moments, shares.

import type { FleetPage, PageRank } from '../../core/fleet.js';
import { count, counted, percent, size } from '../units.js';

/** `rank 5`, or `device 5` of one file's devices; of a file that tells no rank its name. */
export function rankName({ noun }: FleetPage, { rank, file }: PageRank): string {
  return rank === null ? (file.split('/').pop() ?? file) : `${noun} ${rank}`;
}

/** `Devices`: of a title. */
export function rowsTitle({ noun }: FleetPage): string {
  return noun === 'device' ? 'Devices' : 'Ranks';
}

/** `step 3`, or which part of the events it is. */
export function momentName(page: FleetPage, moment: number, moments: number): string {
  return page.curve_by === 'steps'
    ? `step ${count(moment + 1)}`
    : `part ${moment + 1} of ${moments} of the events`;
}

/** `+21.4%`: by how much it is over another number. */
export function overWords(bytes: number, median: number): string {
  if (!(median > 0)) return '';
  const share = bytes / median - 1;
  return `${share < 0 ? '-' : '+'}${percent(Math.abs(share))}`;
}

/** What is wrong with a rank, or odd; empty if nothing is. */
export function troubleWords(one: PageRank): string {
  if (one.device === null) return one.error || one.status;
  const said: string[] = [];
  if (one.ooms) said.push(`${counted(one.ooms, 'request')} failed`);
  if (one.leak_bytes_per_step) said.push(`leaks ${size(one.leak_bytes_per_step)} a step`);
  if (one.typical !== null) said.push('like no other');
  if (one.trust !== 'exact') said.push(one.trust);
  return said.join(', ');
}

/** `activations 35.9%`: the largest category. */
export function mostWords(page: FleetPage, one: PageRank): string {
  const [first] = one.categories;
  if (!first || !one.peak_bytes) return '';
  return `${page.texts[first.text]} ${percent(first.bytes / one.peak_bytes)}`;
}

export function sizeOrNot(bytes: number | null): string {
  return bytes === null ? '' : size(bytes);
}
