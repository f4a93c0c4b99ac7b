// The script of a fleet's page.

import { effect } from '@preact/signals';
import { render } from 'preact';
import { curvesOf, type FleetPage } from './core/fleet.js';
import { FleetApp } from './ui/fleet/app.js';
import { change, fromFragment, type State, state, toFragment } from './ui/fleet/state.js';
import { worldOf } from './ui/fleet/world.js';
import { columnsOf, recordsOf } from './ui/page.js';
import { applyTheme } from './ui/theme.js';
import './ui/style.css';

function frames(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}

async function show(root: HTMLElement): Promise<void> {
  const page = recordsOf(document) as FleetPage;
  const world = worldOf(page, await curvesOf(page, columnsOf(document)[0] ?? ''));
  state.value = fromFragment(location.hash);
  let said = toFragment(state.value);
  effect(() => {
    const fragment = toFragment(state.value);
    if (fragment === said) return;
    said = fragment;
    try {
      history.replaceState(null, '', `#${fragment}`);
    } catch {
      // Inside a notebook's frame, the URL can't be changed.
    }
  });
  globalThis.addEventListener('hashchange', () => {
    if (location.hash.slice(1) !== said) state.value = fromFragment(location.hash);
  });
  effect(applyTheme);
  root.textContent = '';
  render(<FleetApp world={world} />, root);
}

const root = document.getElementById('memreplay-root')!;
const ready = show(root)
  .catch((error: unknown) => {
    root.textContent = `Can't show the page: ${error instanceof Error ? error.message : error}`;
  })
  .then(frames);

/** A handle for scripts that drive the page. */
(globalThis as { memreplay?: unknown }).memreplay = {
  ready,
  state: () => state.value,
  set: (partial: Partial<State>) => {
    change(partial);
    return frames();
  },
};
