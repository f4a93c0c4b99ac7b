// The script of the page and of its worker; both run the same bundle.

import { effect } from '@preact/signals';
import { render } from 'preact';
import { keepInAddress } from './ui/address.js';
import { App } from './ui/app.js';
import { columnsOf, pageOf } from './ui/page.js';
import { type Handle, handle } from './ui/script.js';
import { fromFragment, numbering, startOf, state, toFragment } from './ui/state.js';
import { applyTheme } from './ui/theme.js';
import { type Remote, remote } from './worker/rpc.js';
import { type Hello, serve } from './worker/serve.js';
import './ui/style.css';

const SCRIPT = 'memreplay-script';

/** Starts a worker that runs this same script, and sends it its data. */
function worker(hello: Hello): Remote {
  const text = document.getElementById(SCRIPT)?.textContent ?? '';
  const script = new Blob([text], { type: 'text/javascript' });
  return remote(() => {
    const url = URL.createObjectURL(script);
    const made = new Worker(url);
    URL.revokeObjectURL(url);
    made.postMessage(hello);
    return made;
  });
}

function show(root: HTMLElement): void {
  const page = pageOf(document);
  const engine = worker({ page, columns: columnsOf(document) });
  // Drop the columns here, because the worker has them now and they take half of the memory.
  for (const one of [...document.getElementsByClassName('memreplay-columns')]) one.remove();
  const start = startOf(page);
  const before = numbering(page);
  keepInAddress(
    (fragment) => {
      state.value = fromFragment(fragment, start, before);
    },
    () => toFragment(state.value, start, before),
  );
  // Set the style before anything is drawn, because pictures read their colours from it.
  effect(applyTheme);
  root.textContent = '';
  render(<App page={page} engine={engine} />, root);
  (globalThis as { memreplay?: Handle }).memreplay = handle(engine);
}

if (typeof document === 'undefined') {
  serve(globalThis as unknown as Parameters<typeof serve>[0]);
} else {
  const root = document.getElementById('memreplay-root')!;
  try {
    show(root);
  } catch (error) {
    root.textContent = `Can't show the page: ${error instanceof Error ? error.message : error}`;
  }
}
