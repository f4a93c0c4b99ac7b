// Colours of the stacked picture: who is seen in each pixel, as RGBA.
//
// The rule, which a slow painter elsewhere is held against. Colours are three channels of 0 to 255.
// 1. A pixel where nobody is has the background's colour.
// 2. An allocation has its group's own colour where `colours` has one, else
//    others[group mod the number of others].
// 3. Where something is highlighted, what does not meet it is faded: of each channel c, with b of the
//    background's, it becomes floor((c + 3 b + 2) / 4).
// 4. A run is all pixels above each other, in one column, in which one allocation is seen. Where the
//    pixel below a run shows another allocation, and its colour (after 2 and 3) is that of the run, and
//    the run is at least 3 pixels high as it is seen, the run's lowest pixel is darkened: of each
//    channel c it becomes floor((4 c + 2) / 5).
// Everything is opaque.

import type { Colouring } from '../protocol.js';
import type { Grouping } from './groups.js';
import type { Selection } from './search.js';
import { NOBODY } from './stack.js';

/** 0xRRGGBB as the bytes R, G, B, 255 in memory, of a machine whose lowest byte comes first, as all
 * are that have a browser. */
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

/** RGBA, row by row from the top, of a picture that is so wide. */
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
  // Of each group its colour, as it is and faded; found when it is first met.
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
  // What is darkened is the lowest pixel of a run of 3 at least, and what it is compared with is the
  // highest one of another run: no pixel that is looked at has been darkened before.
  const dark = new Map<number, number>();
  for (let i = 2 * width; i < ids.length - width; i++) {
    const id = ids[i]!;
    const below = ids[i + width]!;
    if (id === below || id === NOBODY || below === NOBODY) continue;
    const mine = pixels[i]!;
    if (mine !== pixels[i + width]! || ids[i - width] !== id || ids[i - 2 * width] !== id) continue;
    let found = dark.get(mine);
    if (found === undefined) {
      // Channels are darkened alike, so their order does not matter.
      found = (bytes(0) | darkened(mine & 0xffffff)) >>> 0;
      dark.set(mine, found);
    }
    pixels[i] = found;
  }
  return new Uint8ClampedArray(pixels.buffer);
}
