// The page's colours and font, read from its style sheet, for drawing on canvas.

import { luminance, parsed, type Rgb } from './colour.js';

const COLOURS = ['fg', 'bg', 'muted', 'line', 'accent', 'more', 'less', 'hole'] as const;
type Name = (typeof COLOURS)[number];

export interface Theme extends Readonly<Record<Name, Rgb>> {
  /** A list of font families. */
  readonly font: string;
  readonly dark: boolean;
}

type Palette = Readonly<Record<Name, Rgb>>;

/** Defaults if the style sheet has no value. */
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

/** Returns the theme that custom properties define: `--fg`, `--bg`, `--muted`, `--line`,
 * `--accent`, `--more`, `--less` and `--hole`. `dark` is used if `--bg` isn't defined. */
export function themeOf(property: (name: string) => string, font: string, dark: boolean): Theme {
  const background = parsed(property('--bg'));
  const isDark = background ? luminance(background) < 0.18 : dark;
  const rest = isDark ? DARK : LIGHT;
  const colours = Object.fromEntries(
    COLOURS.map((name) => [name, parsed(property(`--${name}`)) ?? rest[name]]),
  ) as Record<Name, Rgb>;
  return { ...colours, dark: isDark, font };
}

/** Resolves a colour that may be a theme colour, such as `var(--hole)`, because canvas doesn't support CSS variables. */
export function colourIn(theme: Theme, text: string): Rgb {
  const name = /^var\(--([a-z]+)/.exec(text)?.[1];
  const known = COLOURS.find((one) => one === name);
  return known ? theme[known] : (parsed(text) ?? theme.hole);
}

const DARK_SCHEME = '(prefers-color-scheme: dark)';

/** The theme that applies to an element. */
export function themeAt(element: Element): Theme {
  const style = getComputedStyle(element);
  return themeOf(
    (name) => style.getPropertyValue(name),
    style.fontFamily || 'sans-serif',
    matchMedia(DARK_SCHEME).matches,
  );
}

/** Runs a callback when the system's or the page's theme may have changed. Returns a function that
 * stops this. */
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
