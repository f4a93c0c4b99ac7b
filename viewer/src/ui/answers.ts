// Requests to the engine in components: the last answer is shown until the next one arrives.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';

/** The number of unanswered requests; scripts wait until it's 0. */
export const asked = signal(0);

/** Counts a promise as an unanswered request. */
export async function counted<T>(work: Promise<T>): Promise<T> {
  asked.value++;
  try {
    return await work;
  } finally {
    asked.value--;
  }
}

export interface Answered<T> {
  readonly value: T | null;
  readonly error: string | null;
  /** Whether the value is the answer to an earlier question. */
  readonly stale: boolean;
}

/** Returns the answer to the question with this key. Questions that arrive while one is being
 * answered wait, and only the last of them is asked. */
export function useAnswer<T>(key: string, ask: () => Promise<T>): Answered<T> {
  const [answer, setAnswer] = useState<{ key: string; value: T | null; error: string | null }>({
    key: '',
    value: null,
    error: null,
  });
  const wanted = useRef({ key, ask });
  const busy = useRef(false);
  const gone = useRef(false);
  wanted.current = { key, ask };
  useEffect(() => {
    gone.current = false;
    return () => {
      gone.current = true;
    };
  }, []);
  useEffect(() => {
    if (busy.current) return;
    busy.current = true;
    const run = async () => {
      for (let done = ''; done !== wanted.current.key && !gone.current; ) {
        const now = wanted.current;
        done = now.key;
        try {
          const value = await now.ask();
          if (!gone.current) setAnswer({ key: done, value, error: null });
        } catch (error) {
          const text = error instanceof Error ? error.message : String(error);
          if (!gone.current) setAnswer({ key: done, value: null, error: text });
        }
      }
      busy.current = false;
    };
    void counted(run());
  }, [key]);
  return { value: answer.value, error: answer.error, stale: answer.key !== key };
}
