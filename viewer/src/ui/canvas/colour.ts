// Parse, mix and compare colours, and choose a readable text colour.

/** Red, green, blue, from 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Parses a CSS colour: `#rgb`, `#rrggbb` or `rgb(…)`. An alpha value is dropped. Returns null for
 * anything else. */
export function parsed(css: string): Rgb | null {
  const text = css.trim();
  const hex = /^#([0-9a-f]{3,8})$/i.exec(text)?.[1];
  if (hex && hex.length !== 5 && hex.length !== 7) {
    const wide = hex.length > 4;
    const part = (at: number) =>
      Number.parseInt(wide ? hex.slice(2 * at, 2 * at + 2) : hex[at]!.repeat(2), 16);
    return [part(0), part(1), part(2)];
  }
  const said = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/i.exec(text);
  return said ? [Number(said[1]), Number(said[2]), Number(said[3])] : null;
}

export function css(colour: Rgb): string {
  return `#${colour.map((one) => Math.round(one).toString(16).padStart(2, '0')).join('')}`;
}

/** Mixes two colours, with a fraction `share` of the second. */
export function mixed(one: Rgb, other: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => one[i]! + (other[i]! - one[i]!) * share) as unknown as Rgb;
}

/** Relative luminance as defined by WCAG. */
export function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

/** Contrast of two colours as defined by WCAG, from 1 to 21. */
export function contrast(one: Rgb, other: Rgb): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

const DARK_INK: Rgb = [17, 20, 24];
const LIGHT_INK: Rgb = [255, 255, 255];

/** Dark or light text, whichever is easier to read on a colour. */
export function inkOn(colour: Rgb): Rgb {
  return contrast(colour, DARK_INK) >= contrast(colour, LIGHT_INK) ? DARK_INK : LIGHT_INK;
}

/** A colour for less important text: as pale as possible while readable on this background. */
export function quietInkOn(colour: Rgb): Rgb {
  const ink = inkOn(colour);
  const pale = [0.22, 0.11].map((share) => mixed(ink, colour, share));
  return pale.find((one) => contrast(one, colour) >= READABLE) ?? ink;
}

/** The contrast that WCAG requires for text. */
export const READABLE = 4.5;

/** Returns the colour of a change: `none` at 0, `more` at 1, `less` at -1. Even small changes can
 * be told from none. */
export function diverging(share: number, none: Rgb, more: Rgb, less: Rgb): Rgb {
  if (share === 0) return none;
  const strength = 0.15 + 0.85 * Math.min(Math.abs(share), 1) ** 0.6;
  return mixed(none, share > 0 ? more : less, strength);
}

/** Converts from OKLCH, whose lightness is perceptually uniform. Out-of-gamut colours are clipped. */
export function oklch(lightness: number, chroma: number, hue: number): Rgb {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((one) => {
    const share = Math.min(Math.max(one, 0), 1);
    return 255 * (share <= 0.0031308 ? 12.92 * share : 1.055 * share ** (1 / 2.4) - 0.055);
  }) as unknown as Rgb;
}

/** Successive hues are far apart and differ in lightness, so that neighbours also look different to
 * colour-blind people. */
const HUES = [
  [255, 0],
  [72, 0.03],
  [165, -0.02],
  [350, 0.02],
  [208, 0.02],
  [112, 0.02],
  [298, -0.01],
  [38, -0.01],
] as const;

/** Soft colours for boxes with text: light colours for a light page, dark ones for a dark page. */
export function softColours(dark: boolean): string[] {
  return HUES.map(([hue, step]) => css(oklch((dark ? 0.43 : 0.85) + step, 0.065, hue)));
}

/** A name's hash (FNV-1a), to choose a colour. */
export function hashed(name: string): number {
  let hash = 0x811c9dc5;
  const length = Math.min(name.length, 256);
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}
