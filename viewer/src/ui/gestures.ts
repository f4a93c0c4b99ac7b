// What pointers do on a plot: drag moves, drag with Shift selects a range, a click picks.

import type { Span } from '../protocol.js';

const CLICK_PX = 4;
/** Of a wheel's step in pixels: how much it zooms. */
const ZOOM = 0.0018;

/** A span around a part of it, 0 to 1, that stays where it is. */
export function zoomed(span: Span, part: number, delta: number): Span {
  const factor = Math.exp(Math.max(Math.min(delta, 400), -400) * ZOOM);
  const fixed = span.from + part * (span.to - span.from);
  return { from: fixed - (fixed - span.from) * factor, to: fixed + (span.to - fixed) * factor };
}

interface Handlers<S> {
  start(): S;
  move(start: S, dx: number): void;
  /** Pixels from the element's left. */
  range(from: number, to: number): void;
  click(x: number, y: number): void;
  hover(x: number | null, y: number | null): void;
}

interface Drag {
  readonly x: number;
  readonly y: number;
  readonly start: unknown;
  readonly shift: boolean;
  moved: boolean;
}

// One pointer drags at a time, and handlers are new at each rendering.
let drag: Drag | null = null;

export function dragged<S>(handlers: Handlers<S>) {
  const place = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  return {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0) return;
      const { x, y } = place(event);
      drag = { x, y, start: handlers.start(), shift: event.shiftKey, moved: false };
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const { x, y } = place(event);
      if (!drag) {
        handlers.hover(x, y);
        return;
      }
      if (Math.abs(x - drag.x) > CLICK_PX) drag.moved = true;
      if (!drag.moved) return;
      handlers.hover(null, null);
      if (!drag.shift) handlers.move(drag.start as S, x - drag.x);
    },
    onPointerUp(event: PointerEvent) {
      if (!drag) return;
      const { x, y } = place(event);
      if (!drag.moved) handlers.click(x, y);
      else if (drag.shift) handlers.range(Math.min(drag.x, x), Math.max(drag.x, x));
      drag = null;
    },
    onPointerLeave() {
      if (!drag) handlers.hover(null, null);
    },
  };
}
