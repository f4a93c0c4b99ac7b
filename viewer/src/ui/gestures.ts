// Pointer gestures on a plot: drag moves, Shift+drag selects a range, Alt+drag a box, a click selects.

import { signal } from '@preact/signals';
import type { Span } from '../protocol.js';

const CLICK_PX = 4;
/** How much a wheel step in pixels zooms. */
const ZOOM = 0.0018;

/** What a drag does: move the picture, select a range of it, or zoom to a box. */
export type Mode = 'move' | 'range' | 'box';
/** What the next drag does even without Shift or Alt, which phones don't have. */
export const mode = signal<Mode>('move');

export function toggleMode(one: Mode): void {
  mode.value = mode.value === one ? 'move' : one;
}

/** How much a movement of the wheel zooms. */
export function factorOf(delta: number): number {
  return Math.exp(Math.max(Math.min(delta, 400), -400) * ZOOM);
}

/** Zooms a span around a position (0 to 1) that stays fixed. */
export function zoomed(span: Span, part: number, factor: number): Span {
  const fixed = span.from + part * (span.to - span.from);
  return { from: fixed - (fixed - span.from) * factor, to: fixed + (span.to - fixed) * factor };
}

/** Pixels from the element's top left corner. */
export interface Box {
  readonly x0: number;
  readonly x1: number;
  readonly y0: number;
  readonly y1: number;
}

interface Handlers<S> {
  start(x: number): S;
  move(start: S, dx: number, dy: number): void;
  /** Pinch: the factor by which the fingers' distance has grown, and the position between them. */
  pinch(start: S, factor: number, x: number): void;
  /** A range or a box; `done` when the pointer is released. */
  select(mode: Exclude<Mode, 'move'>, box: Box, done: boolean): void;
  click(x: number, y: number): void;
  hover(x: number | null, y: number | null): void;
}

interface Drag {
  readonly x: number;
  readonly y: number;
  readonly start: unknown;
  readonly mode: Mode;
  moved: boolean;
}

// Kept in a ref, because handlers are recreated at each rendering; only one pointer drags at a time.
let drag: Drag | null = null;
/** The fingers that are down, and the previous distance between two of them. */
const fingers = new Map<number, number>();
let apart = 0;

function boxOf(one: Drag, x: number, y: number): Box {
  return {
    ...{ x0: Math.min(one.x, x), x1: Math.max(one.x, x) },
    ...{ y0: Math.min(one.y, y), y1: Math.max(one.y, y) },
  };
}

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
      const does = event.altKey ? 'box' : event.shiftKey ? 'range' : mode.value;
      drag = { x, y, start: handlers.start(x), mode: does, moved: fingers.size > 1 };
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
      if (Math.max(Math.abs(x - drag.x), Math.abs(y - drag.y)) > CLICK_PX) drag.moved = true;
      if (!drag.moved) return;
      handlers.hover(null, null);
      if (drag.mode !== 'move') handlers.select(drag.mode, boxOf(drag, x, y), false);
      else handlers.move(drag.start as S, x - drag.x, y - drag.y);
    },
    onPointerUp(event: PointerEvent) {
      fingers.delete(event.pointerId);
      if (!drag) return;
      const { x, y } = place(event);
      if (!drag.moved) handlers.click(x, y);
      else if (drag.mode !== 'move') handlers.select(drag.mode, boxOf(drag, x, y), true);
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
