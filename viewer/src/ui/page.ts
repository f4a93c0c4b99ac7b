// The page's data, embedded in the document.

import type { Page } from '../core/page.js';

const PAGE = 'memreplay-page';
const COLUMNS = 'memreplay-columns';

/** The records of the page. */
export function pageOf(root: Document): Page {
  return recordsOf(root) as Page;
}

/** The records of a page of any kind. */
export function recordsOf(root: Document): unknown {
  const text = root.getElementById(PAGE)?.textContent;
  if (!text) throw new Error('the page is incomplete: its data is missing');
  return JSON.parse(text);
}

/** The columns of each snapshot, in base64. */
export function columnsOf(root: Document): string[] {
  return [...root.getElementsByClassName(COLUMNS)].map((one) => one.textContent ?? '');
}
