// Questions to the worker and its answers, as messages.

import type { Engine } from '../protocol.js';

/** What the page says to the worker. The first message of all is a `Hello`. */
export interface Call {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string };

type Later<F> = F extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;

/** The engine in its worker: the same questions, answered later. */
export type Remote = { readonly [K in keyof Engine]: Later<Engine[K]> } & {
  /** Inflates a snapshot's columns. Nothing else may be asked of it before. */
  open(snapshot: number): Promise<void>;
};

/** What a worker looks like from here; tests have one that is none. */
export interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: MessageEvent<Answer>) => void) | null;
}

/** The questions, sent through a port. */
export function remote(port: Port): Remote {
  let last = 0;
  const waiting = new Map<number, { done: (value: unknown) => void; failed: (e: Error) => void }>();
  port.onmessage = ({ data }) => {
    const one = waiting.get(data.id);
    waiting.delete(data.id);
    if ('error' in data) one?.failed(new Error(data.error));
    else one?.done(data.value);
  };
  return new Proxy({} as Remote, {
    get:
      (_, method: string) =>
      (...args: unknown[]) =>
        new Promise((done, failed) => {
          last += 1;
          waiting.set(last, { done, failed });
          port.postMessage({ id: last, method, args } satisfies Call);
        }),
  });
}
