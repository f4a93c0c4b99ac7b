// The script of a fleet's page.

import { effect } from '@preact/signals';
import { render } from 'preact';
import { curvesOf, type FleetPage } from './core/fleet.js';
import { keepInAddress } from './ui/address.js';
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
  keepInAddress(
    (fragment) => {
      state.value = fromFragment(fragment);
    },
    () => toFragment(state.value),
  );
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
