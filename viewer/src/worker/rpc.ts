// The worker's protocol: questions and answers as messages.

import type { Engine } from '../protocol.js';

/** Messages from the page to the worker. The first one is a `Hello`. */
export interface Call {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string };

type Later<F> = F extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;

/** The engine in its worker: it takes the same requests, but answers them later. */
export type Remote = { readonly [K in keyof Engine]: Later<Engine[K]> } & {
  /** Inflates a snapshot's columns. This must come before any other request about it. */
  open(snapshot: number): Promise<void>;
};

/** A worker's interface; tests use a fake worker. */
export interface Port {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<Answer>) => void) | null;
}

interface Waiting {
  readonly call: Call;
  readonly done: (value: unknown) => void;
  readonly failed: (error: Error) => void;
}

/** How long a search may keep the worker from answering. A regular expression may take forever, and
 * only terminating the worker stops it. */
export const PATIENCE_MS = 8_000;
const TOO_LONG = 'the search took too long and was stopped; try a simpler expression';

/** Sends requests to a worker created by `start`; restarts it if a search hangs. */
export function remote(start: () => Port, patience = PATIENCE_MS): Remote {
  let last = 0;
  let port = start();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const waiting = new Map<number, Waiting>();
  const opened = new Set<number>();

  const searches = ({ args }: Call) => JSON.stringify(args).includes('"include":');
  const watch = () => {
    clearTimeout(timer);
    const hanging = [...waiting.values()].some(({ call }) => searches(call));
    if (hanging) timer = setTimeout(again, patience);
  };
  const send = (call: Call) => port.postMessage(call);
  const listen = () => {
    port.onmessage = ({ data }) => {
      const one = waiting.get(data.id);
      waiting.delete(data.id);
      watch();
      if ('error' in data) one?.failed(new Error(data.error));
      else one?.done(data.value);
    };
  };
  const ask = (method: string, args: readonly unknown[]) =>
    new Promise<unknown>((done, failed) => {
      last += 1;
      const call = { id: last, method, args };
      if (method === 'open') opened.add(args[0] as number);
      waiting.set(last, { call, done, failed });
      send(call);
      watch();
    });
  /** Terminates the worker. A new one opens the same snapshots and answers the remaining requests. */
  function again(): void {
    port.terminate();
    port = start();
    listen();
    const left = [...waiting.values()];
    waiting.clear();
    for (const { call, failed } of left) if (searches(call)) failed(new Error(TOO_LONG));
    const rest = left.filter(({ call }) => !searches(call));
    void Promise.all([...opened].map((snapshot) => ask('open', [snapshot]))).then(() => {
      for (const one of rest) {
        waiting.set(one.call.id, one);
        send(one.call);
      }
    });
  }

  listen();
  return new Proxy({} as Remote, {
    get:
      (_, method: string) =>
      (...args: unknown[]) =>
        ask(method, args),
  });
}
