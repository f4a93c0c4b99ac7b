// Names of ranks, moments and shares.

import type { FleetPage, PageRank } from '../../core/fleet.js';
import { count, counted, percent, size } from '../units.js';

/** `rank 5`, or `device 5` for one file's devices; the file's name if it has no rank. */
export function rankName({ noun }: FleetPage, { rank, file }: PageRank): string {
  return rank === null ? (file.split('/').pop() ?? file) : `${noun} ${rank}`;
}

/** `Devices`: for a title. */
export function rowsTitle({ noun }: FleetPage): string {
  return noun === 'device' ? 'Devices' : 'Ranks';
}

/** `step 3`, or the part of the events. */
export function momentName(page: FleetPage, moment: number, moments: number): string {
  return page.curve_by === 'steps'
    ? `step ${count(moment + 1)}`
    : `part ${moment + 1} of ${moments} of the events`;
}

/** `+21.4%`: how far a number is above another. */
export function overWords(bytes: number, median: number): string {
  if (!(median > 0)) return '';
  const share = bytes / median - 1;
  return `${share < 0 ? '-' : '+'}${percent(Math.abs(share))}`;
}

/** A rank's problems and oddities; empty if there are none. */
export function troubleWords(one: PageRank): string {
  if (one.device === null) return one.error ?? one.status;
  const said: string[] = [];
  if (one.ooms) said.push(`${counted(one.ooms, 'request')} failed`);
  if (one.leak_bytes_per_step) said.push(`leaks ${size(one.leak_bytes_per_step)} a step`);
  if (one.typical !== null) said.push('unlike any other');
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

/** Names of code without their files' folders, unless another name would look the same. */
export function briefly(names: readonly string[]): string[] {
  const short = names.map((one) => one.replace(/(?<=^|\s)\S*[/\\](?=[^/\\\s]+:\d+$)/, ''));
  return names.map((one, i) =>
    short.some((other, k) => other === short[i] && names[k] !== one) ? one : short[i]!,
  );
}
