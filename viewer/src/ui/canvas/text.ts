// Measures text and truncates it to a width; each character is measured only once.

/** The measuring context: a canvas context whose font is set. */
export interface Measuring {
  measureText(text: string): { readonly width: number };
}

const ELLIPSIS = '…';

/** Characters that are invisible, break the line, or reverse the text that follows. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are searched for.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Returns a snapshot's text as one line that hides nothing: invisible characters become U+FFFD.
 * Text that is too long to read is cut. */
export function plain(text: string, most = 400): string {
  const cut = text.length > most ? `${text.slice(0, most - 1)}${ELLIPSIS}` : text;
  return cut.replace(UNSEEN, '\ufffd');
}

/** The widths of texts in one font. A text's width is the sum of its characters' widths, which is
 * never less than its width with kerning. */
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

  /** Returns the text, or as much of it as fits, with an ellipsis; '' if not even two characters
   * fit. Only the part that fits is read. */
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

/** The character widths of a context's font, cached. */
export function widthsOf(context: Measuring & { readonly font: string }): TextWidths {
  const { font } = context;
  let widths = known.get(font);
  if (!widths) {
    // A separate context for measuring, because the drawing context's font changes.
    const own = document.createElement('canvas').getContext('2d')!;
    own.font = font;
    widths = new TextWidths(own);
    known.set(font, widths);
  }
  return widths;
}
