// Keeps a page's state in the address, after the #.

import { effect } from '@preact/signals';

/** `write` returns the state as a fragment, and `read` takes it from one. */
export function keepInAddress(read: (fragment: string) => void, write: () => string): void {
  read(location.hash);
  let said = write();
  effect(() => {
    const fragment = write();
    if (fragment === said) return;
    said = fragment;
    try {
      history.replaceState(null, '', `#${fragment}`);
    } catch {
      // Inside a notebook's frame, the URL can't be changed.
    }
  });
  globalThis.addEventListener('hashchange', () => {
    if (location.hash.slice(1) !== said) read(location.hash);
  });
}
