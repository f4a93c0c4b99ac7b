// The stacked picture as shapes: a path around each allocation, over the columns in which it's seen.

/** A picture's pixels and owners, as in `Picture`. */
export interface Pixels {
  readonly ids: Int32Array;
  readonly pixels: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
}

/** With more shapes, a bitmap is smaller. */
const MOST = 4000;

interface Shape {
  readonly colour: string;
  /** The column after the last one. */
  end: number;
  from: number;
  to: number;
  /** Points along the upper and the lower edge. */
  upper: string;
  lower: string;
}

/** The paths, one unit per pixel; null if there are too many. A run of pixels continues the shape of
 * the same allocation in the column before it. */
export function pathsOf({ ids, pixels, width, height }: Pixels, most = MOST): string | null {
  const colours = new Uint32Array(pixels.buffer, pixels.byteOffset, width * height);
  const open = new Map<number, Shape>();
  const done: Shape[] = [];
  for (let x = 0; x < width; x++) {
    for (let y = 0; y < height; ) {
      const id = ids[y * width + x]!;
      const from = y;
      while (y < height && ids[y * width + x] === id) y++;
      if (id < 0) continue;
      const shape = open.get(id);
      if (shape?.end === x && from < shape.to && y > shape.from) {
        if (shape.from !== from) shape.upper += `L${x},${shape.from}L${x},${from}`;
        if (shape.to !== y) shape.lower = `L${x},${y}L${x},${shape.to}${shape.lower}`;
        Object.assign(shape, { end: x + 1, from, to: y });
        continue;
      }
      if (done.length === most) return null;
      const [r, g, b] = new Uint8Array(colours.buffer, colours.byteOffset + 4 * (from * width + x));
      const colour = `rgb(${r},${g},${b})`;
      const made = {
        colour,
        end: x + 1,
        from,
        to: y,
        upper: `M${x},${from}`,
        lower: `L${x},${y}z`,
      };
      open.set(id, made);
      done.push(made);
    }
  }
  const paths = done.map(
    ({ colour, end, from, to, upper, lower }) =>
      `<path fill="${colour}" d="${upper}L${end},${from}L${end},${to}${lower}"/>`,
  );
  return `<g shape-rendering="crispEdges">${paths.join('')}</g>`;
}
