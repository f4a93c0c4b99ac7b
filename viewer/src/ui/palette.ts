// Colours of groups: some that people tell apart, also the colour-blind, and quiet ones for the rest.

/** After Paul Tol's qualitative schemes (https://personal.sron.nl/~pault/), in an order in which
 * neighbours differ most. */
export const GROUPS = [
  0x4477aa, 0xee6677, 0x228833, 0xccbb44, 0x66ccee, 0xaa3377, 0xee8866, 0x44bb99, 0x9988dd,
  0x99892d, 0x77aadd, 0xcc6699,
] as const;

export interface Shades {
  readonly others: readonly number[];
  readonly background: number;
}

export const LIGHT: Shades = {
  others: [0xb4bcc6, 0xa3adb9, 0xc4cad2, 0x97a2b0, 0xbac2cb],
  background: 0xffffff,
};
export const DARK: Shades = {
  others: [0x4c5766, 0x596678, 0x424c5a, 0x667386, 0x535f70],
  background: 0x12161c,
};

export function css(colour: number): string {
  return `#${colour.toString(16).padStart(6, '0')}`;
}
