// Handles a page's keys.

import { counted } from './answers.js';

/** Keys, their description, and what they do on a page. */
export interface KeyOf<Page> {
  readonly keys: readonly string[];
  readonly shown: string;
  readonly does: string;
  act(page: Page, event: KeyboardEvent): unknown;
}

/** Starts handling keys; returns a function that stops it. `page` returns null while keys are for
 * something else. */
export function listen<Page>(keys: readonly KeyOf<Page>[], page: () => Page | null): () => void {
  const act = (event: KeyboardEvent) => {
    const target = event.target as Element | null;
    const now = page();
    if (!now || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target?.matches('input, select, textarea')) {
      if (event.key === 'Escape') (target as HTMLElement).blur();
      return;
    }
    // Some focused elements handle the arrow keys themselves.
    if (
      target?.closest('[role=tree], [role=tablist], .own-keys') &&
      /^(Arrow|Home|End|Page)/.test(event.key)
    ) {
      return;
    }
    if (event.key === 'Enter' && target?.closest('button, a')) return;
    const key = keys.find((one) => one.keys.includes(event.key));
    if (!key) return;
    event.preventDefault();
    void counted(Promise.resolve(key.act(now, event)));
  };
  document.addEventListener('keydown', act);
  return () => document.removeEventListener('keydown', act);
}
