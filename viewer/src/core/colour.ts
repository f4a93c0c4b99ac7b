// Colours of the stacked picture: the allocation seen at each pixel, as RGBA.
//
// The rules, which a slow painter in the tests also follows. Colours are three channels, 0 to 255.
// 1. A pixel without an allocation has the background's colour.
// 2. An allocation has its group's colour if `colours` has one, else
//    others[group mod the number of others].
// 3. If something is highlighted, everything else is faded: each channel c, with b in the
//    background, becomes floor((c + 3 b + 2) / 4).
// 4. A run is a vertical series of pixels, within one column, that show the same allocation. If a
//    run is at least 3 visible pixels high, and the pixel below it shows another allocation in the
//    same colour (after rules 2 and 3), the run's lowest pixel is darkened: each channel c becomes
//    floor((4 c + 2) / 5).
// Everything is opaque.

import type { Colouring } from '../protocol.js';
import type { Grouping } from './groups.js';
import type { Selection } from './search.js';
import { NOBODY } from './stack.js';

/** Converts 0xRRGGBB to a number whose bytes in memory are R, G, B, 255 on a little-endian machine,
 * which every machine with a browser is. */
function bytes(colour: number): number {
  const r = (colour >> 16) & 255;
  const g = (colour >> 8) & 255;
  const b = colour & 255;
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function channels(colour: number, of: (value: number, shift: number) => number): number {
  return [16, 8, 0].reduce((all, shift) => all | (of((colour >> shift) & 255, shift) << shift), 0);
}

export function faded(colour: number, background: number): number {
  return channels(colour, (c, shift) => (c + 3 * ((background >> shift) & 255) + 2) >> 2);
}

export function darkened(colour: number): number {
  return channels(colour, (c) => Math.floor((4 * c + 2) / 5));
}

/** RGBA, row by row from the top, of a picture of this width. */
export function coloured(
  ids: Int32Array,
  width: number,
  colouring: Colouring,
  groups: Grouping,
  highlight: Selection | null,
): Uint8ClampedArray {
  const { background } = colouring;
  const own = new Map(colouring.colours);
  const others = colouring.others.length ? colouring.others : [background];
  // Each group's colour, plain and faded, computed at first use.
  const plain = new Map<number, number>();
  const pale = new Map<number, number>();
  const colourOf = (id: number): number => {
    const group = groups.at(id);
    const fade = highlight !== null && !highlight.has(id);
    const known = (fade ? pale : plain).get(group);
    if (known !== undefined) return known;
    const colour = own.get(group) ?? others[group % others.length]!;
    const found = bytes(fade ? faded(colour, background) : colour);
    (fade ? pale : plain).set(group, found);
    return found;
  };
  const pixels = new Uint32Array(ids.length);
  const ground = bytes(background);
  let last = NOBODY;
  let colour = ground;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id !== last) {
      last = id;
      if (id === NOBODY) colour = ground;
      else if (id === ids[i - width]) colour = pixels[i - width]!;
      else colour = colourOf(id);
    }
    pixels[i] = colour;
  }
  // Darkens only the lowest pixel of a run of at least 3, and compares it with the highest pixel of
  // another run, so no pixel that is read here has been darkened before.
  const dark = new Map<number, number>();
  for (let i = 2 * width; i < ids.length - width; i++) {
    const id = ids[i]!;
    const below = ids[i + width]!;
    if (id === below || id === NOBODY || below === NOBODY) continue;
    const mine = pixels[i]!;
    if (mine !== pixels[i + width]! || ids[i - width] !== id || ids[i - 2 * width] !== id) continue;
    let found = dark.get(mine);
    if (found === undefined) {
      // All channels are darkened the same way, so their order doesn't matter.
      found = (bytes(0) | darkened(mine & 0xffffff)) >>> 0;
      dark.set(mine, found);
    }
    pixels[i] = found;
  }
  return new Uint8ClampedArray(pixels.buffer);
}
