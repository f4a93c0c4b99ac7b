// The keys, in a dialog.

import { useEffect, useRef } from 'preact/hooks';
import type { Key } from './keys.js';

export function Help({ keys, close }: { keys: readonly Key[]; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" onClose={close} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="pairs">
        {keys.map(({ shown, does }) => (
          <>
            <dt>
              <kbd>{shown}</kbd>
            </dt>
            <dd>{does}</dd>
          </>
        ))}
        <dt>wheel, drag</dt>
        <dd>zoom and move the picture; with Shift, drag bounds a range</dd>
        <dt>click</dt>
        <dd>puts the cursor there and selects the allocation</dd>
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
