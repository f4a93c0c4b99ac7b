// How wide text is, and text cut to a width: each character is measured once.

/** What measures: the context of a canvas, whose font is set. */
export interface Measuring {
  measureText(text: string): { readonly width: number };
}

const ELLIPSIS = '…';

/** Characters that would draw nothing, a break, or turn what follows around. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text from a snapshot as one line that hides nothing: characters that would not be seen are drawn
 * as U+FFFD, and what is longer than anybody reads is cut. */
export function plain(text: string, most = 400): string {
  const cut = text.length > most ? `${text.slice(0, most - 1)}${ELLIPSIS}` : text;
  return cut.replace(UNSEEN, '\ufffd');
}

/** The widths of text in one font. A text is as wide as its characters are one by one, which is never
 * less than it is with kerning. */
export class TextWidths {
  private readonly latin = new Float64Array(256).fill(-1);
  private readonly others = new Map<string, number>();

  constructor(private readonly measuring: Measuring) {}

  private character(text: string, at: number): number {
    const code = text.charCodeAt(at);
    if (code < 256) {
      const known = this.latin[code]!;
      if (known >= 0) return known;
      const width = this.measuring.measureText(text[at]!).width;
      this.latin[code] = width;
      return width;
    }
    const one = String.fromCodePoint(text.codePointAt(at)!);
    const known = this.others.get(one);
    if (known !== undefined) return known;
    const width = this.measuring.measureText(one).width;
    this.others.set(one, width);
    return width;
  }

  width(text: string): number {
    let width = 0;
    for (let at = 0; at < text.length; at++) {
      width += this.character(text, at);
      if (text.codePointAt(at)! > 0xffff) at++;
    }
    return width;
  }

  /** The text, or as much of it as there is room for, with an ellipsis; '' where not even two
   * characters fit. No more of a long text is read than fits. */
  fitted(text: string, room: number): string {
    const dots = this.character(ELLIPSIS, 0);
    let width = 0;
    let kept = 0;
    for (let at = 0; at < text.length; ) {
      width += this.character(text, at);
      at += text.codePointAt(at)! > 0xffff ? 2 : 1;
      if (width > room) return kept < 2 ? '' : `${text.slice(0, kept)}${ELLIPSIS}`;
      if (width + dots <= room) kept = at;
    }
    return text;
  }
}

const known = new Map<string, TextWidths>();

/** The widths of the font that a context has, kept for all who ask. */
export function widthsOf(context: Measuring & { readonly font: string }): TextWidths {
  const { font } = context;
  let widths = known.get(font);
  if (!widths) {
    // A measuring context of its own: the font of the one that draws changes.
    const own = document.createElement('canvas').getContext('2d')!;
    own.font = font;
    widths = new TextWidths(own);
    known.set(font, widths);
  }
  return widths;
}
