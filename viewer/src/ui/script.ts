// A handle for scripts that drive the page: `globalThis.memreplay`.

import type { Remote } from '../worker/rpc.js';
import { asked } from './answers.js';
import { type Shown, shown } from './picture.js';
import { change, type State, state } from './state.js';

export interface Handle {
  /** When all of the page's first view is there. */
  readonly ready: Promise<void>;
  readonly engine: Remote;
  state(): State;
  /** Shows something else; done when all of the page shows it. */
  set(partial: Partial<State>): Promise<void>;
  /** The stacked picture that is shown. */
  picture(): Shown | null;
}

const FRAMES = 3;

function frame(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => done()));
}

/** When nothing is asked any more, also after some frames. */
export async function settled(): Promise<void> {
  for (let quiet = 0; quiet < FRAMES; ) {
    await frame();
    quiet = asked.value === 0 ? quiet + 1 : 0;
  }
}

/** When there is something to see, and nothing is asked any more. Some browsers draw frames before
 * the page has asked for anything. */
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
    picture: () => shown.now,
  };
}
