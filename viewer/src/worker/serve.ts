// The worker: the engine behind messages.

import { PageEngine } from '../core/engine.js';
import { inflated, type Page } from '../core/page.js';
import type { Answer, Call } from './rpc.js';

/** The first message: the page's data, and its columns in base64. */
export interface Hello {
  readonly page: Page;
  readonly columns: readonly string[];
}

/** The parts of a worker's global scope that are used here. */
interface Scope {
  onmessage: ((event: MessageEvent<Hello | Call>) => void) | null;
  postMessage(message: Answer, transfer: Transferable[]): void;
}

/** Answers until the page closes. */
export function serve(scope: Scope): void {
  scope.onmessage = ({ data }) => {
    const hello = data as Hello;
    const engine = new PageEngine(hello.page);
    const columns: (string | null)[] = [...hello.columns];
    const opening = new Map<number, Promise<void>>();

    async function open(snapshot: number): Promise<void> {
      const packed = columns[snapshot];
      const said = hello.page.snapshots[snapshot];
      if (packed == null || !said) throw new Error('the page is incomplete: columns are missing');
      columns[snapshot] = null; // drop the text, which is as large as everything decoded from it
      engine.load(snapshot, await inflated(packed, said.bytes));
    }

    async function answer({ method, args }: Call): Promise<unknown> {
      if (method === 'open') {
        const snapshot = args[0] as number;
        const known = opening.get(snapshot) ?? open(snapshot);
        opening.set(snapshot, known);
        return known;
      }
      const asked = engine as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
      return asked[method]!(...args);
    }

    scope.onmessage = async ({ data: call }) => {
      const { id } = call as Call;
      try {
        const value = await answer(call as Call);
        scope.postMessage({ id, value }, buffers(value));
      } catch (error) {
        scope.postMessage(
          { id, error: error instanceof Error ? error.message : String(error) },
          [],
        );
      }
    };
  };
}

/** The buffers of an answer's typed arrays, which are transferred to the page instead of copied. */
function buffers(value: unknown): Transferable[] {
  if (typeof value !== 'object' || value === null) return [];
  const found = new Set<ArrayBuffer>();
  for (const one of Object.values(value)) {
    if (ArrayBuffer.isView(one) && one.buffer instanceof ArrayBuffer) found.add(one.buffer);
  }
  return [...found];
}
