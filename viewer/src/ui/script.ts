// A handle for scripts that drive the page: `globalThis.memreplay`.

import type { Remote } from '../worker/rpc.js';
import { asked } from './answers.js';
import { type Shown, shown } from './painting.js';
import { change, type State, state } from './state.js';

export interface Handle {
  /** Resolves when the page's first view is complete. */
  readonly ready: Promise<void>;
  readonly engine: Remote;
  state(): State;
  /** Changes the view; resolves when the whole page shows it. */
  set(partial: Partial<State>): Promise<void>;
  /** The displayed stacked picture, by default that of the snapshot in the header. */
  picture(snapshot?: number): Shown | null;
}

const FRAMES = 3;

function frame(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => done()));
}

/** Resolves when there are no unanswered requests, even after a few frames. */
export async function settled(): Promise<void> {
  for (let quiet = 0; quiet < FRAMES; ) {
    await frame();
    quiet = asked.value === 0 ? quiet + 1 : 0;
  }
}

/** Resolves when there's something to see and no request is unanswered. Some browsers draw frames
 * before the page has requested anything. */
async function begun(): Promise<void> {
  while (!document.querySelector('.middle, .nothing')) await frame();
  await settled();
}

export function handle(engine: Remote): Handle {
  return {
    ready: begun(),
    engine,
    state: () => state.value,
    set: (partial) => {
      change(partial);
      return settled();
    },
    picture: (snapshot = state.value.snapshot) => shown.get(snapshot) ?? null,
  };
}
