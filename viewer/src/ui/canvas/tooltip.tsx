// The tooltip for the thing under the pointer.

import type { Signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { plain } from './text.js';

export interface Tip {
  readonly title: string;
  readonly detail?: string;
  /** Rows of a name and a value. */
  readonly rows: readonly (readonly [string, string])[];
  readonly note?: string;
  /** The colour of the thing, as a swatch. */
  readonly colour?: string;
}

/** A tooltip at the pointer's position, in CSS pixels of the window. */
export interface Pointed {
  readonly tip: Tip;
  readonly x: number;
  readonly y: number;
}

/** Distance between the pointer and the tooltip, and between the tooltip and the window's edge. */
const AWAY = 14;
const EDGE = 8;

/** Returns the position of a tooltip along one axis: after the pointer, or before it if there's no
 * room, and always within the window. */
export function placed(at: number, size: number, room: number): number {
  const behind = at + AWAY;
  if (behind + size + EDGE <= room) return behind;
  return Math.max(EDGE, Math.min(at - AWAY - size, room - EDGE - size));
}

/** Only the tooltip follows the pointer; the drawing below isn't rendered again. */
export function Tooltip({ pointed }: { readonly pointed: Signal<Pointed | null> }) {
  const box = useRef<HTMLDivElement>(null);
  const now = pointed.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !now) return;
    const { width, height } = element.getBoundingClientRect();
    const root = document.documentElement;
    const left = placed(now.x, width, root.clientWidth);
    const top = placed(now.y, height, root.clientHeight);
    element.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  });
  if (!now) return null;
  const { title, detail, rows, note, colour } = now.tip;
  return (
    <div class="mr-tip" role="tooltip" ref={box}>
      <div class="mr-tip-title">
        {colour && <span class="mr-tip-swatch" style={{ backgroundColor: colour }} />}
        <bdi>{plain(title)}</bdi>
      </div>
      {detail && <bdi class="mr-tip-detail">{plain(detail)}</bdi>}
      {rows.length > 0 && (
        <dl>
          {rows.map(([name, value]) => (
            <div key={`${name} ${value}`}>
              <dt>{plain(name)}</dt>
              <dd>{plain(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      {note && <div class="mr-tip-note">{plain(note)}</div>}
    </div>
  );
}
