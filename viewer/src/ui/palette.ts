// Group colours: a few that everyone can distinguish, including colour-blind people, and muted ones for the rest.

/** Based on Paul Tol's "light" scheme for areas (https://personal.sron.nl/~pault/), with three more
 * colours, in an order in which neighbours differ most. */
export const GROUPS = [
  0x77aadd, 0xee8866, 0x44bb99, 0xeedd88, 0xb08ccf, 0xbbcc33, 0x99ddff, 0xffaabb, 0xaaaa00,
  0x5b8fb9, 0xc9805a, 0x7fc97f,
] as const;

export interface Shades {
  readonly others: readonly number[];
  readonly background: number;
  /** The colour of outlines, as a canvas pixel (ABGR). */
  readonly ink: number;
}

export const LIGHT: Shades = {
  others: [0xb4bcc6, 0x8995a4, 0xd3d8de, 0x9ea9b6, 0x747f8e],
  background: 0xffffff,
  ink: 0xff000000,
};
export const DARK: Shades = {
  others: [0x5c6879, 0x8b98aa, 0x3d4654, 0x747f90, 0x4a5566],
  background: 0x12161c,
  ink: 0xffffffff,
};

export function css(colour: number): string {
  return `#${colour.toString(16).padStart(6, '0')}`;
}
