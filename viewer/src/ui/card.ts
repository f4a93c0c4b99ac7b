// The card's size as a line: where there's room for it, and its name.

import type { PageCard } from '../core/page.js';
import { size } from './units.js';

/** An axis ends at the card's size if that's at most this many times the highest bytes shown. */
const ROOM = 2;

/** The card's bytes if an axis up to `highest` should include them, otherwise 0. */
export function cardWithin(card: PageCard | null, highest: number): number {
  return card && card.bytes <= ROOM * highest ? card.bytes : 0;
}

export function cardName({ bytes, known }: PageCard): string {
  return `card: ${known ? '' : 'at least '}${size(bytes)}`;
}
