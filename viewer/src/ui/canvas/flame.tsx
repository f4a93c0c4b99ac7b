// A tree of calls as boxes, with the root on top.

import { useSignal } from '@preact/signals';
import { useCallback, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { Tree } from '../../protocol.js';
import './canvas.css';
import { type Surface, useCanvas } from './canvas.js';
import { type Boxes, boxAt, boxesOf, extentsOf } from './flame/layout.js';
import { type Move, moved, nodeAt, type Path, pathOf, placeOf } from './flame/moves.js';
import { changeColour, paintFlame, ROW } from './flame/paint.js';
import { described, type FrameName, restTip, type Shown, tipOf } from './flame/words.js';
import { themeAt } from './theme.js';
import { type Pointed, Tooltip } from './tooltip.js';

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
  /** Matching nodes are drawn normally, all others faded. */
  readonly highlight?: ((node: number) => boolean) | null;
  /** The zoomed node, as a path, which is also valid in another tree. */
  readonly zoom: Path;
  readonly onZoom: (path: Path) => void;
}

const NO_PATH: Path = [];
const LEAST = 0.5;

const KEYS: Readonly<Record<string, Move>> = {
  ArrowUp: 'parent',
  ArrowDown: 'child',
  ArrowLeft: 'previous',
  ArrowRight: 'next',
  Home: 'first',
};

export function Flame(props: FlameProps) {
  const { tree, before = null, names, colour, highlight = null } = props;
  const { frameOf } = tree;
  const id = useId();
  const extents = useMemo(() => extentsOf(tree, before), [tree, before]);
  const [selectedPath, setSelected] = useState<Path | null>(null);
  const [focusPath, setFocusPath] = useState<Path>(NO_PATH);
  const [active, setActive] = useState(false);
  const hovered = useRef(-1);
  const boxes = useRef<Boxes | null>(null);
  const pointed = useSignal<Pointed | null>(null);

  const find = (path: Path) => nodeAt(extents, path, frameOf);
  const zoom = find(props.zoom).node;
  const selected = selectedPath ? find(selectedPath) : null;
  const selectedNode = selected?.whole && selectedPath?.length ? selected.node : -1;
  const focused = find(focusPath).node;
  const shown: Shown = { extents, before, names, total: tree.bytes[0] ?? 0 };

  const draw = (surface: Surface) => {
    const { width, height, ratio, theme } = surface;
    const high = ROW * ratio;
    const scrolled = surface.whole ? 0 : (frame.current?.scrollTop ?? 0) * ratio;
    const first = Math.floor(scrolled / high);
    const last = Math.ceil((scrolled + height) / high);
    boxes.current = boxesOf(extents, { zoom, width, least: LEAST * ratio, first, last });
    paintFlame(surface, {
      shown,
      boxes: boxes.current,
      scrolled,
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
    const row = Math.floor((event.offsetY + box.scrollTop) / ROW);
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
      redraw();
    }
    const tip = merged ? restTip(shown, node, merged) : tipOf(shown, node, colourOf(node));
    pointed.value = { tip, x: event.clientX, y: event.clientY };
  };
  const leave = () => {
    pointed.value = null;
    if (hovered.current < 0) return;
    hovered.current = -1;
    redraw();
  };
  const colourOf = (node: number): string => {
    if (!before) return colour?.(node) ?? 'var(--hole)';
    return changeColour(themeAt(canvas.current!), tree.bytes[node]!, before[node]!);
  };

  const zoomTo = (node: number) => {
    props.onZoom(pathOf(tree, node, frameOf));
  };
  const select = (node: number) => {
    const path = pathOf(tree, node, frameOf);
    setSelected(path);
    setFocusPath(path);
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
    const top = tree.depth[node]! * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight)
      box.scrollTop = top + ROW - box.clientHeight;
  };

  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = KEYS[event.key];
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
            aria-label="Calls by memory held"
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
      <Tooltip pointed={pointed} />
    </div>
  );
}
