// The allocator's segments and blocks at a moment, one row per segment.

import { useSignal } from '@preact/signals';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { MapBlock, MapSegment, SegmentMap } from '../../protocol.js';
import { usePlotSize } from '../sizes.js';
import {
  type BlockLayout,
  blocksLaid,
  blocksOf,
  folded,
  type Piece,
  pieceAt,
  rowAt,
  rowBytesOf,
} from './blocks/layout.js';
import { type BlockMove, movedSpot, pieceOf, shownOrder, spotOf } from './blocks/moves.js';
import {
  bytesAPixel,
  COLUMN_GAP,
  paintBlocks,
  paintFolded,
  type Spot,
  sideOf,
} from './blocks/paint.js';
import { blockTip, holeTip, said } from './blocks/words.js';
import './canvas.css';
import { type Surface, useCanvas } from './canvas.js';
import { type Pointed, Tooltip } from './tooltip.js';

export interface BlockMapProps {
  readonly map: SegmentMap;
  /** The colour of an allocation's block, as CSS or one of the theme's. */
  readonly colour: (id: number, segment: MapSegment) => string;
  /** An allocation's name in tooltips. */
  readonly name?: (id: number) => string | null;
  readonly selected?: number | null;
  /** How often the bytes of a whole row are halved. */
  readonly zoom?: number;
  /** Whether rows are in columns, so that all of them are seen at once. */
  readonly fold?: boolean;
  /** Called for the keys + and -. */
  readonly onZoom?: (by: 1 | -1) => void;
  readonly onSelect?: (id: number | null) => void;
}

const KEYS: Readonly<Record<string, BlockMove>> = {
  ArrowRight: 'next',
  ArrowLeft: 'previous',
  ArrowDown: 'down',
  ArrowUp: 'up',
};

export function BlockMap(props: BlockMapProps) {
  const { map, colour, selected = null } = props;
  const { segments } = map;
  const { fold = false } = props;
  const usual = useMemo(() => rowBytesOf(segments), [segments]);
  const rowBytes = usual / 2 ** (props.zoom ?? 0);
  const id = useId();
  const { frame, canvas, redraw } = useCanvas((surface) => draw(surface));
  const room = usePlotSize(frame);
  const [wide, high] = fold ? [room.width, room.height] : [0, 0];
  const layout: BlockLayout & { readonly starts?: readonly number[] } = useMemo(() => {
    if (fold) return folded(segments, wide, high);
    return blocksLaid(segments, rowBytes);
  }, [segments, rowBytes, fold, wide, high]);
  const { starts = [0, 0] } = layout;
  const columns = starts.length - 1;
  const order = useMemo(() => shownOrder(layout), [layout]);
  const [focus, setFocus] = useState<Spot | null>(null);
  const [active, setActive] = useState(false);
  const hovered = useRef<Spot | null>(null);
  const pointed = useSignal<Pointed | null>(null);
  const focused = focus && pieceOf(layout, focus) ? focus : null;
  const tall = layout.rows.top.at(-1)!;

  const draw = (surface: Surface) => {
    const look = {
      layout,
      scrolled: surface.whole ? 0 : (frame.current?.scrollTop ?? 0),
      colour,
      selected,
      hovered: hovered.current,
      focused: active ? focused : null,
    };
    if (fold) paintFolded(surface, look, starts);
    else paintBlocks(surface, look);
  };

  const blockOf = (spot: Spot, piece: Piece): MapBlock | null =>
    blocksOf(segments[spot.segment]!)[piece.block] ?? null;
  const under = (event: MouseEvent): { spot: Spot; piece: Piece } | null => {
    const box = frame.current;
    if (!box) return null;
    const step = (box.clientWidth + COLUMN_GAP) / columns;
    const column = Math.min(Math.floor(event.offsetX / step), columns - 1);
    const y = starts[column]! + event.offsetY + box.scrollTop;
    if (fold && y >= starts[column + 1]!) return null;
    const row = rowAt(layout, y);
    const segment = layout.rows.segment[row] ?? -1;
    const width = step - COLUMN_GAP;
    const x = event.offsetX - column * step - sideOf(width, fold);
    if (segment < 0 || x < 0) return null;
    const within = x * bytesAPixel(layout, row, width, fold);
    if (within >= layout.rows.bytes[row]!) return null;
    const offset = layout.rows.offset[row]! + Math.floor(within);
    const piece = pieceAt(segments[segment]!, offset);
    return piece && { spot: { segment, offset: piece.offset }, piece };
  };

  const hover = (event: PointerEvent) => {
    const hit = under(event);
    if (!hit) return leave();
    const { spot, piece } = hit;
    const segment = segments[spot.segment]!;
    const block = blockOf(spot, piece);
    if (hovered.current?.segment !== spot.segment || hovered.current.offset !== spot.offset) {
      hovered.current = spot;
      redraw();
    }
    const tip = block
      ? blockTip(
          segment,
          block,
          nameOf(block),
          block.id < 0 ? 'var(--muted)' : colour(block.id, segment),
        )
      : holeTip(segment, piece);
    pointed.value = { tip, x: event.clientX, y: event.clientY };
  };
  const leave = () => {
    pointed.value = null;
    if (!hovered.current) return;
    hovered.current = null;
    redraw();
  };
  const nameOf = (block: MapBlock): string | null =>
    block.id < 0 ? null : (props.name?.(block.id) ?? null);

  const select = (spot: Spot) => {
    const piece = pieceOf(layout, spot);
    if (!piece) return;
    setFocus(spot);
    const found = blockOf(spot, piece)?.id ?? -1;
    props.onSelect?.(found < 0 ? null : found);
  };
  const click = (event: MouseEvent) => {
    const hit = under(event);
    if (hit) select(hit.spot);
  };

  const reveal = (spot: Spot) => {
    const box = frame.current;
    if (!box || fold) return;
    const first = layout.firstRow[spot.segment]!;
    const row = first + (layout.rowBytes ? Math.floor(spot.offset / layout.rowBytes) : 0);
    const top = layout.rows.top[row]!;
    const bottom = layout.rows.top[row + 1]!;
    // The heading stays on top.
    const head = layout.rows.top[first]! - HEADING_ROOM;
    if (top - HEADING_ROOM < box.scrollTop) box.scrollTop = Math.max(Math.min(head, top), 0);
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  };
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = KEYS[event.key];
    const first = order[0];
    if (first === undefined) return;
    if (move || event.key === 'Home') {
      const spot =
        move && focused ? movedSpot(layout, order, focused, move) : { segment: first, offset: 0 };
      setFocus(spot);
      reveal(spot);
    } else if ((event.key === 'Enter' || event.key === ' ') && focused) {
      select(focused);
    } else if (event.key === 'Escape' && selected !== null) {
      props.onSelect?.(null);
    } else if (props.onZoom && /^[-+=_]$/.test(event.key)) {
      props.onZoom(/[+=]/.test(event.key) ? 1 : -1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  // Show a selection that was made elsewhere.
  useEffect(() => {
    const spot = selected === null ? null : spotOf(layout, selected);
    if (!spot) return;
    setFocus(spot);
    reveal(spot);
  }, [selected, layout]);

  const words = (spot: Spot): string => {
    const piece = pieceOf(layout, spot);
    if (!piece) return '';
    const block = blockOf(spot, piece);
    return said(segments[spot.segment]!, piece, block && nameOf(block));
  };
  return (
    <div class="mr-frame mr-blocks" style={{ height: fold ? '100%' : `${tall}px` }}>
      <div
        class="mr-scroll"
        ref={frame}
        onScroll={() => {
          pointed.value = null;
          redraw();
        }}
      >
        <div class="mr-tall" style={{ height: fold ? '100%' : `${tall}px` }}>
          <canvas
            class="mr-canvas"
            ref={canvas}
            tabIndex={0}
            role="listbox"
            aria-label="Segments and blocks"
            aria-activedescendant={focused ? `${id}-block` : undefined}
            onPointerMove={hover}
            onPointerLeave={leave}
            onClick={click}
            onKeyDown={key}
            onFocus={() => setActive(canvas.current?.matches(':focus-visible') ?? false)}
            onBlur={() => setActive(false)}
          >
            {focused && (
              <div id={`${id}-block`} role="option" tabIndex={-1} aria-selected={true}>
                {words(focused)}
              </div>
            )}
          </canvas>
        </div>
      </div>
      <div class="mr-unseen" aria-live="polite">
        {active && focused ? words(focused) : ''}
      </div>
      <Tooltip pointed={pointed} />
    </div>
  );
}

/** CSS pixels that the heading takes at the top. */
const HEADING_ROOM = 30;
