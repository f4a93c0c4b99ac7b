// A tree of calls as an icicle (the root on top) or a flame graph (the root at the bottom).

import { useSignal } from '@preact/signals';
import { useCallback, useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { Tree } from '../../protocol.js';
import './canvas.css';
import { type Surface, useCanvas } from './canvas.js';
import { type Boxes, boxAt, boxesOf, extentsOf } from './flame/layout.js';
import { type Move, moved, nodeAt, type Path, pathOf, placeOf } from './flame/moves.js';
import { changeColour, paintFlame, ROW, rowTop } from './flame/paint.js';
import { described, type FrameName, nameOf, restTip, type Shown, tipOf } from './flame/words.js';
import { themeAt } from './theme.js';
import { type Pointed, Tooltip } from './tooltip.js';

export { matchedBytes } from './flame/layout.js';
export { type Path, pathOf } from './flame/moves.js';
export type { FrameName } from './flame/words.js';

export interface FlameProps {
  /** The tree to draw. For differences, its `bytes` are the values after the change. */
  readonly tree: Tree & { readonly frameOf?: Uint8Array };
  /** For differences, each node's bytes before the change. Boxes are as wide as the larger of
   * the two numbers, and red for growth or blue for shrinkage. */
  readonly before?: Float64Array;
  readonly names: (frame: number, node: number) => FrameName;
  /** A CSS colour, or a theme colour such as `var(--hole)`. Not used for differences. */
  readonly colour?: (node: number) => string;
  /** The total for percentages; by default the root's bytes. */
  readonly total?: number;
  /** `down`: an icicle, `up`: a flame graph. */
  readonly direction?: 'down' | 'up';
  /** Matching nodes are drawn normally, all others faded. */
  readonly highlight?: ((node: number) => boolean) | null;
  /** The selected and the zoomed node, as paths, which are also valid in another tree. By
   * default, the graph keeps its own. */
  readonly selected?: Path | null;
  readonly zoom?: Path;
  readonly onSelect?: (node: number, path: Path) => void;
  readonly onZoom?: (path: Path) => void;
  readonly onHover?: (node: number | null) => void;
  readonly label?: string;
}

const NO_PATH: Path = [];
const LEAST = 0.5;

/** Keys for an icicle; in a flame graph, up and down are swapped. */
const KEYS: Readonly<Record<string, Move>> = {
  ArrowUp: 'parent',
  ArrowDown: 'child',
  ArrowLeft: 'previous',
  ArrowRight: 'next',
  Home: 'first',
};
const TURNED: Readonly<Record<string, string>> = { ArrowUp: 'ArrowDown', ArrowDown: 'ArrowUp' };

export function Flame(props: FlameProps) {
  const { tree, before = null, names, colour, highlight = null, direction = 'down' } = props;
  const { frameOf } = tree;
  const up = direction === 'up';
  const id = useId();
  const extents = useMemo(() => extentsOf(tree, before), [tree, before]);
  const [ownZoom, setOwnZoom] = useState<Path>(NO_PATH);
  const [ownSelected, setOwnSelected] = useState<Path | null>(null);
  const [focusPath, setFocusPath] = useState<Path>(NO_PATH);
  const [active, setActive] = useState(false);
  const hovered = useRef(-1);
  const boxes = useRef<Boxes | null>(null);
  const pointed = useSignal<Pointed | null>(null);

  const find = (path: Path) => nodeAt(extents, path, frameOf);
  const zoom = find(props.zoom ?? ownZoom).node;
  const selectedPath = props.selected === undefined ? ownSelected : props.selected;
  const selected = selectedPath ? find(selectedPath) : null;
  const selectedNode = selected?.whole && selectedPath?.length ? selected.node : -1;
  const focused = find(focusPath).node;
  const shown: Shown = { extents, before, names, total: props.total ?? tree.bytes[0] ?? 0 };

  const draw = (surface: Surface) => {
    const { width, height, ratio, theme } = surface;
    const high = ROW * ratio;
    const all = Math.max(extents.rows * high, up ? height : 0);
    const scrolled = surface.whole ? 0 : (frame.current?.scrollTop ?? 0) * ratio;
    const [top, bottom] = up
      ? [all - scrolled - height, all - scrolled]
      : [scrolled, scrolled + height];
    const first = Math.floor(top / high);
    const last = Math.ceil(bottom / high);
    boxes.current = boxesOf(extents, { zoom, width, least: LEAST * ratio, first, last });
    paintFlame(surface, {
      shown,
      boxes: boxes.current,
      up,
      scrolled,
      height: all,
      zoom,
      selected: selectedNode,
      focused: active ? focused : -1,
      hovered: hovered.current,
      highlight,
      colour: before
        ? (node) => changeColour(theme, tree.bytes[node]!, before[node]!)
        : (colour ?? (() => 'var(--hole)')),
    });
  };
  const { frame, canvas, redraw } = useCanvas(draw);

  /** The box under a pointer. */
  const under = (event: MouseEvent): number => {
    const now = boxes.current;
    const box = frame.current;
    if (!now || !box) return -1;
    const ratio = devicePixelRatio || 1;
    const high = extents.rows * ROW;
    const y = event.offsetY + box.scrollTop;
    const all = Math.max(high, up ? box.clientHeight : 0);
    const row = Math.floor((up ? all - y : y) / ROW);
    return boxAt(now, row, event.offsetX * ratio);
  };

  const hover = (event: PointerEvent) => {
    const box = under(event);
    const now = boxes.current;
    if (box < 0 || !now) return leave();
    const node = now.node[box]!;
    const merged = now.merged[box]!;
    if (hovered.current !== node) {
      hovered.current = node;
      props.onHover?.(merged ? null : node);
      redraw();
    }
    const tip = merged ? restTip(shown, node, merged) : tipOf(shown, node, colourOf(node));
    pointed.value = { tip, x: event.clientX, y: event.clientY };
  };
  const leave = () => {
    pointed.value = null;
    if (hovered.current < 0) return;
    hovered.current = -1;
    props.onHover?.(null);
    redraw();
  };
  const colourOf = (node: number): string => {
    if (!before) return colour?.(node) ?? 'var(--hole)';
    return changeColour(themeAt(canvas.current!), tree.bytes[node]!, before[node]!);
  };

  const zoomTo = (node: number) => {
    const path = pathOf(tree, node, frameOf);
    setOwnZoom(path);
    props.onZoom?.(path);
  };
  const select = (node: number) => {
    const path = pathOf(tree, node, frameOf);
    setOwnSelected(path);
    setFocusPath(path);
    props.onSelect?.(node, path);
  };
  const click = (event: MouseEvent) => {
    const box = under(event);
    const now = boxes.current;
    if (box < 0 || !now || now.merged[box]) return;
    pointed.value = null;
    select(now.node[box]!);
    zoomTo(now.node[box]!);
  };

  /** Scrolls a node's row into view. */
  const reveal = (node: number) => {
    const box = frame.current;
    if (!box) return;
    const all = Math.max(extents.rows * ROW, up ? box.clientHeight : 0);
    const top = rowTop(tree.depth[node]!, up, all, ROW);
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight)
      box.scrollTop = top + ROW - box.clientHeight;
  };

  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = KEYS[up ? (TURNED[event.key] ?? event.key) : event.key];
    if (move) {
      const node = moved(extents, focused, move);
      setFocusPath(pathOf(tree, node, frameOf));
      // The zoomed node must contain the focused one.
      if (node < zoom || node >= extents.end[zoom]!)
        zoomTo(node < zoom ? node : tree.parent[node]!);
      reveal(node);
    } else if (event.key === 'Enter' || event.key === ' ') {
      select(focused);
      zoomTo(focused);
    } else if (event.key === 'Backspace') {
      zoomTo(Math.max(tree.parent[zoom]!, 0));
    } else if (event.key === 'Escape' && zoom > 0) {
      zoomTo(0);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  // A flame graph begins at its root.
  const rows = extents.rows;
  useEffect(() => {
    if (up && frame.current && rows > 0) frame.current.scrollTop = frame.current.scrollHeight;
  }, [up, rows]);

  const scroll = useCallback(() => {
    pointed.value = null;
    redraw();
  }, [redraw, pointed]);
  const place = placeOf(extents, focused);
  if (tree.parent.length === 0) return null;
  return (
    <div class="mr-frame mr-flame" style={{ height: `${extents.rows * ROW}px` }}>
      <div class="mr-scroll" ref={frame} onScroll={scroll}>
        <div class="mr-tall" style={{ height: `${extents.rows * ROW}px` }}>
          <canvas
            class="mr-canvas"
            ref={canvas}
            tabIndex={0}
            role="tree"
            aria-label={props.label ?? 'Calls by memory held'}
            aria-activedescendant={`${id}-node`}
            onPointerMove={hover}
            onPointerLeave={leave}
            onClick={click}
            onKeyDown={key}
            onFocus={() => setActive(canvas.current?.matches(':focus-visible') ?? false)}
            onBlur={() => setActive(false)}
          >
            <div
              id={`${id}-node`}
              role="treeitem"
              tabIndex={-1}
              aria-level={tree.depth[focused]! + 1}
              aria-posinset={place.place}
              aria-setsize={place.of}
              aria-selected={focused === selectedNode}
              aria-expanded={extents.end[focused]! > focused + 1}
            >
              {described(shown, focused)}
            </div>
          </canvas>
        </div>
      </div>
      <div class="mr-unseen" aria-live="polite">
        {active ? described(shown, focused) : ''}
      </div>
      {zoom > 0 && (
        <button
          type="button"
          class={up ? 'mr-button mr-top' : 'mr-button'}
          title={`Zoomed to ${nameOf(shown, zoom).title}`}
          onClick={() => zoomTo(0)}
        >
          Show all
        </button>
      )}
      <Tooltip pointed={pointed} />
    </div>
  );
}
