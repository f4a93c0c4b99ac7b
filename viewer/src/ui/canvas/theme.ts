// The page's colours and font, as its style sheet has them, for what is drawn on canvas.

import { luminance, parsed, type Rgb } from './colour.js';

const COLOURS = ['fg', 'bg', 'muted', 'line', 'accent', 'more', 'less', 'hole'] as const;
type Name = (typeof COLOURS)[number];

export interface Theme extends Readonly<Record<Name, Rgb>> {
  /** A list of families. */
  readonly font: string;
  readonly dark: boolean;
}

type Palette = Readonly<Record<Name, Rgb>>;

/** Where the style sheet says nothing. */
const LIGHT: Palette = {
  fg: [29, 34, 41],
  bg: [255, 255, 255],
  muted: [92, 102, 114],
  line: [223, 227, 232],
  accent: [29, 91, 204],
  more: [214, 96, 77],
  less: [84, 146, 201],
  hole: [233, 236, 240],
};
const DARK: Palette = {
  fg: [227, 231, 236],
  bg: [18, 22, 28],
  muted: [146, 156, 168],
  line: [43, 50, 59],
  accent: [110, 168, 254],
  more: [196, 86, 66],
  less: [60, 120, 178],
  hole: [36, 42, 51],
};

/** The theme that custom properties make: `--fg`, `--bg`, `--muted`, `--line`, `--accent`, `--more`,
 * `--less` and `--hole`. `dark` says what holds where `--bg` is not said. */
export function themeOf(property: (name: string) => string, font: string, dark: boolean): Theme {
  const background = parsed(property('--bg'));
  const isDark = background ? luminance(background) < 0.18 : dark;
  const rest = isDark ? DARK : LIGHT;
  const colours = Object.fromEntries(
    COLOURS.map((name) => [name, parsed(property(`--${name}`)) ?? rest[name]]),
  ) as Record<Name, Rgb>;
  return { ...colours, dark: isDark, font };
}

/** A colour that may be said as one of the theme's: `var(--hole)`. Canvas knows no properties. */
export function colourIn(theme: Theme, text: string): Rgb {
  const name = /^var\(--([a-z]+)/.exec(text)?.[1];
  const known = COLOURS.find((one) => one === name);
  return known ? theme[known] : (parsed(text) ?? theme.hole);
}

const DARK_SCHEME = '(prefers-color-scheme: dark)';

/** The theme where an element stands. */
export function themeAt(element: Element): Theme {
  const style = getComputedStyle(element);
  return themeOf(
    (name) => style.getPropertyValue(name),
    style.fontFamily || 'sans-serif',
    matchMedia(DARK_SCHEME).matches,
  );
}

/** Calls when the theme may have changed: the system's, or what the page's root says. Returns what
 * ends it. */
export function whenThemeChanges(call: () => void): () => void {
  const scheme = matchMedia(DARK_SCHEME);
  scheme.addEventListener('change', call);
  const observer = new MutationObserver(call);
  const attributes = { attributes: true, attributeFilter: ['class', 'style', 'data-theme'] };
  observer.observe(document.documentElement, attributes);
  observer.observe(document.body, attributes);
  return () => {
    scheme.removeEventListener('change', call);
    observer.disconnect();
  };
}
