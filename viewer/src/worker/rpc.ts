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
  terminate(): void;
  onmessage: ((event: MessageEvent<Answer>) => void) | null;
}

interface Waiting {
  readonly call: Call;
  readonly done: (value: unknown) => void;
  readonly failed: (error: Error) => void;
}

/** How long a search may keep the worker from answering: a regular expression may take for ever, and
 * nothing but the end of its worker ends it. */
export const PATIENCE_MS = 8_000;
const TOO_LONG = 'the search takes too long and was stopped: a simpler expression will do';

/** The questions, sent to a worker that `start` starts; it is started anew where a search hangs. */
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
  /** Ends the worker. Another one opens what was open and answers the rest. */
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
