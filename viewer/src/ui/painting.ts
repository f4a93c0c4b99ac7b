// Paints the stacked picture on a canvas. The worker paints it; until that is done, the previous picture is moved.

import { type Signal, useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Picture as Painted, PictureQuery } from '../protocol.js';
import { counted } from './answers.js';
import type { Ground } from './ground.js';
import type { PlotSize } from './sizes.js';
import type { Heights } from './vertical.js';

/** How long the view must stay unchanged before all pixels are painted. */
const REST_MS = 90;
/** If painting takes longer than a frame, fewer columns are painted during motion. */
const FRAME_MS = 30;
const COARSE = 4;

/** Information for scripts about a displayed picture. */
export interface Shown {
  readonly ids: Int32Array;
  readonly pixels: Uint8ClampedArray;
  readonly moments: Int32Array;
  readonly width: number;
  readonly height: number;
  readonly query: PictureQuery;
}
/** By snapshot: two are compared. */
export const shown = new Map<number, Shown>();

let lastMotion = Number.NEGATIVE_INFINITY;

/** Says that the pointer is changing the view, which will soon change again. */
export function moving(): void {
  lastMotion = performance.now();
}

/** Requests one picture at a time: always the latest one needed, and a coarse one during motion. */
class Painter {
  private wanted: PictureQuery | null = null;
  private busy = false;
  private last = 0;
  private rest: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ask: (query: PictureQuery) => Promise<Painted>,
    private readonly show: (query: PictureQuery, painted: Painted) => void,
    private readonly fail: (text: string) => void,
  ) {}

  want(query: PictureQuery): void {
    clearTimeout(this.rest);
    if (performance.now() - lastMotion < REST_MS && this.last > FRAME_MS) {
      this.wanted = { ...query, width: Math.max(1, Math.ceil(query.width / COARSE)) };
      const settled = new Promise<void>((done) => {
        this.rest = setTimeout(() => {
          this.wanted = query;
          void this.run().then(done);
        }, REST_MS);
      });
      void counted(
        Promise.race([settled, new Promise<void>((done) => setTimeout(done, 4 * REST_MS))]),
      );
    } else this.wanted = query;
    void counted(this.run());
  }

  private async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.wanted) {
        const query = this.wanted;
        this.wanted = null;
        const began = performance.now();
        const painted = await this.ask(query);
        if (query.width > 0) this.last = performance.now() - began;
        this.show(query, painted);
      }
    } catch (error) {
      this.fail(error instanceof Error ? error.message : String(error));
    } finally {
      this.busy = false;
    }
  }
}

/** A painted picture, and what it shows. */
interface Bitmap {
  readonly image: HTMLCanvasElement;
  readonly query: PictureQuery;
  readonly painted: Painted;
}

export interface Sight {
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  readonly failed: Signal<string | null>;
  /** The allocation and the moment at a position, in CSS pixels of the plot. */
  at(x: number, y: number): { id: number; moment: number } | null;
  /** The allocations seen at a position on the axis, from the bottom to the top. */
  column(x: number): number[];
}

/** Keeps a canvas painted. `plot` is its size, `query` what to paint, once it's known; `outlined`
 * are allocations to outline in a colour. */
export function useSight(
  { engine, span }: Ground,
  plot: PlotSize,
  query: PictureQuery | null,
  { low, high }: Heights,
  outlined: readonly (readonly [number, number])[],
): Sight {
  const canvas = useRef<HTMLCanvasElement>(null);
  const bitmap = useRef<Bitmap | null>(null);
  const failed = useSignal<string | null>(null);
  const outline = useMemo(() => document.createElement('canvas'), []);
  const draw = useRef(() => {});
  draw.current = () => {
    const context = canvas.current?.getContext('2d');
    if (!context || !canvas.current) return;
    const w = Math.max(1, Math.round(plot.width * plot.dpr));
    const h = Math.max(1, Math.round(plot.height * plot.dpr));
    if (canvas.current.width !== w) canvas.current.width = w;
    if (canvas.current.height !== h) canvas.current.height = h;
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, w, h);
    const one = bitmap.current;
    if (!one) return;
    // If the view has changed since this picture was painted, move and stretch the picture until
    // the next one arrives.
    const { query } = one;
    const wide = (query.span.to - query.span.from) / (span.to - span.from);
    const left = ((query.span.from - span.from) / (span.to - span.from)) * w;
    const tall = ((query.high - query.low) / (high - low)) * h;
    const top = ((high - query.high) / (high - low)) * h;
    context.drawImage(one.image, left, top, wide * w, tall);
    // Segments have other ids.
    for (const [id, ink] of query.measure === 'reserved' ? [] : outlined) {
      outlineOf(one, id, ink, outline);
      context.drawImage(outline, left, top, wide * w, tall);
    }
  };
  const painter = useMemo(
    () =>
      new Painter(
        (query) => engine.picture(query),
        (query, painted) => {
          const { width, height } = query;
          const image = document.createElement('canvas');
          image.width = width;
          image.height = height;
          const pixels = new ImageData(width, height);
          pixels.data.set(painted.pixels);
          image.getContext('2d')?.putImageData(pixels, 0, 0);
          bitmap.current = { image, query, painted };
          shown.set(query.place.snapshot, { ...painted, width, height, query });
          failed.value = null;
          draw.current();
        },
        (text) => {
          failed.value = text;
        },
      ),
    [engine],
  );
  useEffect(() => {
    if (query) painter.want(query);
  }, [query && JSON.stringify(query)]);
  useEffect(() => draw.current());
  const columnOf = ({ query }: Bitmap, along: number): number => {
    const { from, to } = query.span;
    const column = Math.floor(((along - from) / (to - from)) * query.width);
    return column >= 0 && column < query.width ? column : -1;
  };
  return {
    canvas,
    failed,
    at: (x, y) => {
      const one = bitmap.current;
      if (!one) return null;
      const { query, painted } = one;
      const column = columnOf(one, span.from + (x / plot.width) * (span.to - span.from));
      const byte = high - (y / plot.height) * (high - low);
      const row = Math.floor(((query.high - byte) / (query.high - query.low)) * query.height);
      if (column < 0 || row < 0 || row >= query.height) return null;
      return { id: painted.ids[row * query.width + column]!, moment: painted.moments[column]! };
    },
    column: (x) => {
      const one = bitmap.current;
      const column = one ? columnOf(one, x) : -1;
      if (!one || column < 0) return [];
      const { ids } = one.painted;
      const columns = one.query.width;
      const found: number[] = [];
      for (let i = ids.length - columns + column; i >= 0; i -= columns) {
        if (ids[i]! >= 0 && ids[i] !== found[found.length - 1]) found.push(ids[i]!);
      }
      return found;
    },
  };
}

/** Draws an allocation's outline: its pixels that touch another allocation's pixels. */
function outlineOf(
  { query: { width, height }, painted: { ids } }: Bitmap,
  pin: number,
  ink: number,
  into: HTMLCanvasElement,
): void {
  into.width = width;
  into.height = height;
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (ids[i] !== pin) continue;
      const inner =
        x > 0 &&
        x < width - 1 &&
        y > 0 &&
        y < height - 1 &&
        ids[i - 1] === pin &&
        ids[i + 1] === pin &&
        ids[i - width] === pin &&
        ids[i + width] === pin;
      if (!inner) pixels[i] = ink;
    }
  }
  into.getContext('2d')?.putImageData(image, 0, 0);
}
