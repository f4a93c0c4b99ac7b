// The page's panes: separators that resize them, and buttons that let one fill the window.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

/** By how much an arrow key moves a separator; with Shift, four times as far. */
const STEP = 16;

const KINDS = {
  /** The height of pictures. */
  tall: { label: 'Height of the picture', least: 80, most: 2000, sign: 1, selector: '.picture' },
  /** The width of the panel beside the picture. */
  side: { label: 'Width of the side panel', least: 160, most: 1200, sign: -1, selector: '.side' },
} as const;

/** A line between two panes: drag it, or move it with the arrow keys. */
export function Separator(props: {
  kind: keyof typeof KINDS;
  value: number | null;
  change: (value: number | null) => void;
}) {
  const { kind, value, change } = props;
  const { label, least, most, sign, selector } = KINDS[kind];
  const tall = kind === 'tall';
  const parts = () => [...document.querySelectorAll(selector)];
  const size = () => {
    const box = parts()[0]?.getBoundingClientRect();
    return Math.round((tall ? box?.height : box?.width) ?? 0);
  };
  const to = (next: number) => change(bounded(next, { least, most }));
  const drag = useRef<{ readonly from: number; readonly size: number } | null>(null);
  const at = (event: PointerEvent) => (tall ? event.clientY : event.clientX);
  const now = useSignal(least as number);
  useEffect(() => {
    now.value = size();
  }, [value]);
  return (
    <hr
      class={`separator own-keys of-${kind}`}
      aria-orientation={tall ? 'horizontal' : 'vertical'}
      aria-label={label}
      aria-valuenow={now.value}
      aria-valuemin={least}
      aria-valuemax={most}
      title={`${label}: drag, or use the arrow keys; double-click or Enter resets it`}
      tabIndex={0}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { from: at(event), size: size() };
      }}
      onPointerMove={(event) => {
        if (!drag.current) return;
        const by = (sign * (at(event) - drag.current.from)) / (tall ? parts().length : 1);
        if (by) to(drag.current.size + by);
      }}
      onPointerUp={() => {
        drag.current = null;
      }}
      onPointerCancel={() => {
        drag.current = null;
      }}
      onDblClick={() => change(null)}
      onKeyDown={(event) => {
        const by = (event.shiftKey ? 4 : 1) * STEP;
        const [less, more] = tall ? ['ArrowUp', 'ArrowDown'] : ['ArrowRight', 'ArrowLeft'];
        if (event.key === 'Enter') change(null);
        else if (event.key === 'Home') to(least);
        else if (event.key === 'End') to(most);
        else if (event.key === less) to(size() - by);
        else if (event.key === more) to(size() + by);
        else return;
        event.preventDefault();
      }}
    />
  );
}

function bounded(size: number, { least, most }: { least: number; most: number }): number {
  return Math.round(Math.min(Math.max(size, least), most));
}

/** Sizes for the style sheet: custom properties of the panes. */
export function sizesOf(state: { tall?: number | null; side: number | null }) {
  return {
    ...(state.tall == null ? {} : { '--tall': `${bounded(state.tall, KINDS.tall)}px` }),
    ...(state.side === null ? {} : { '--side': `${bounded(state.side, KINDS.side)}px` }),
  };
}

/** Lets a part of the page fill the window. */
export function useFull(full: string | null): void {
  useEffect(() => {
    document.documentElement.dataset.full = full ?? '';
  }, [full]);
}

export function FullButton(props: { name: string; hint: string; on: boolean; act: () => void }) {
  const { name, hint, on, act } = props;
  const title = on ? 'Show the whole page again (Esc)' : `Enlarge the ${name} (${hint})`;
  return (
    <button
      type="button"
      class="small full"
      aria-pressed={on}
      title={title}
      aria-label={title}
      onClick={act}
    >
      {on ? '⤡' : '⤢'}
    </button>
  );
}
