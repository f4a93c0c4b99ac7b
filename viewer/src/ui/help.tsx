// The dialog of keys.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { MEASURES } from '../core/page.js';
import type { Key } from './keys.js';
import { MEANINGS } from './meanings.js';

/** `children`: pairs about the mouse; by default those of a snapshot's page. */
export function Help(props: {
  keys: readonly Pick<Key, 'shown' | 'does'>[];
  close: () => void;
  children?: ComponentChildren;
}) {
  const { keys, close, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" onClose={close} aria-label="Keys and mouse">
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
      <h2>Keys and mouse</h2>
      <dl class="pairs">
        {keys.map(({ shown, does }) => (
          <>
            <dt>
              <kbd>{shown}</kbd>
            </dt>
            <dd>{does}</dd>
          </>
        ))}
        {children ?? (
          <>
            <dt>click</dt>
            <dd>moves the cursor there and selects the allocation</dd>
            <dt>wheel, pinch</dt>
            <dd>
              zooms around the pointer, where a cursor that would leave the view goes; with Shift,
              or over the axis, it zooms the bytes; double-click shows all again, on the axis it
              does what v does
            </dd>
            <dt>drag</dt>
            <dd>
              moves the picture; with Shift, or after “range”, it bounds a range; with Alt, or after
              “box”, it zooms to a box; on the axis, it scrolls the bytes
            </dd>
            <dt>in Events</dt>
            <dd>a click moves the cursor; an address limits the list to its memory</dd>
            <dt>drag above</dt>
            <dd>on the curves: select the part to show, or move its edges</dd>
          </>
        )}
      </dl>
      {!children && <Meanings />}
    </dialog>
  );
}

function Meanings() {
  return (
    <>
      <h2>What the bytes are</h2>
      <dl class="pairs">
        {MEASURES.map((measure) => (
          <>
            <dt>{measure}</dt>
            <dd>{MEANINGS[measure]}</dd>
          </>
        ))}
      </dl>
    </>
  );
}
