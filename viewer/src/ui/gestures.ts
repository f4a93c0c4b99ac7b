// Pointer gestures on a plot: drag moves, Shift+drag selects a range, a click selects.

import type { Span } from '../protocol.js';

const CLICK_PX = 4;
/** How much a wheel step in pixels zooms. */
const ZOOM = 0.0018;

/** Zooms a span around a position (0 to 1) that stays fixed. */
export function zoomed(span: Span, part: number, delta: number): Span {
  const factor = Math.exp(Math.max(Math.min(delta, 400), -400) * ZOOM);
  const fixed = span.from + part * (span.to - span.from);
  return { from: fixed - (fixed - span.from) * factor, to: fixed + (span.to - fixed) * factor };
}

interface Handlers<S> {
  start(): S;
  move(start: S, dx: number): void;
  /** Pinch: the factor by which the fingers' distance has grown, and the position between them. */
  pinch(start: S, factor: number, x: number): void;
  /** Whether a drag selects a range even without Shift, which phones don't have. */
  readonly ranging: boolean;
  /** Pixels from the element's left edge; `done` when the pointer is released. */
  range(from: number, to: number, done: boolean): void;
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

// Kept in a ref, because handlers are recreated at each rendering; only one pointer drags at a time.
let drag: Drag | null = null;
/** The fingers that are down, and the previous distance between two of them. */
const fingers = new Map<number, number>();
let apart = 0;

function distance(): number {
  const [one = 0, two = 0] = [...fingers.values()];
  return Math.max(Math.abs(one - two), 1);
}

export function dragged<S>(handlers: Handlers<S>) {
  const place = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  return {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0) return;
      const { x, y } = place(event);
      fingers.set(event.pointerId, x);
      apart = distance();
      const shift = event.shiftKey || handlers.ranging;
      drag = { x, y, start: handlers.start(), shift, moved: fingers.size > 1 };
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const { x, y } = place(event);
      if (!drag) {
        handlers.hover(x, y);
        return;
      }
      fingers.set(event.pointerId, x);
      if (fingers.size > 1) {
        const [one = 0, two = 0] = [...fingers.values()];
        handlers.pinch(drag.start as S, distance() / apart, (one + two) / 2);
        return;
      }
      if (Math.abs(x - drag.x) > CLICK_PX) drag.moved = true;
      if (!drag.moved) return;
      handlers.hover(null, null);
      if (drag.shift) handlers.range(Math.min(drag.x, x), Math.max(drag.x, x), false);
      else handlers.move(drag.start as S, x - drag.x);
    },
    onPointerUp(event: PointerEvent) {
      fingers.delete(event.pointerId);
      if (!drag) return;
      const { x, y } = place(event);
      if (!drag.moved) handlers.click(x, y);
      else if (drag.shift) handlers.range(Math.min(drag.x, x), Math.max(drag.x, x), true);
      drag = null;
    },
    onPointerCancel(event: PointerEvent) {
      fingers.delete(event.pointerId);
      drag = null;
    },
    onPointerLeave() {
      if (!drag) handlers.hover(null, null);
    },
  };
}
