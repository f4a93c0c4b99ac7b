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

/** When nothing is asked any more, also after some frames. */
export async function settled(): Promise<void> {
  for (let quiet = 0; quiet < FRAMES; ) {
    await new Promise<void>((done) => requestAnimationFrame(() => done()));
    quiet = asked.value === 0 ? quiet + 1 : 0;
  }
}

export function handle(engine: Remote): Handle {
  return {
    ready: settled(),
    engine,
    state: () => state.value,
    set: (partial) => {
      change(partial);
      return settled();
    },
    picture: () => shown.now,
  };
}
