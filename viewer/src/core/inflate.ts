// Decodes a snapshot's columns from the page's text: base64 of a zlib stream.

const TEXT = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const NONE = 64;
/** By character. */
const VALUES = new Uint8Array(1 << 16).fill(NONE);
for (let i = 0; i < TEXT.length; i++) VALUES[TEXT.charCodeAt(i)] = i;

/** Decodes base64 without white space. Throws an Error if the text isn't base64. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const { length } = text;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const found = new Uint8Array((length / 4) * 3 - padding || 0);
  if (length % 4) throw new Error('the page is damaged: its columns are cut off');
  let wrong = 0;
  let at = 0;
  const value = (i: number): number => VALUES[text.charCodeAt(i)]!;
  const whole = padding ? length - 4 : length;
  for (let i = 0; i < whole; i += 4) {
    const [a, b, c, d] = [value(i), value(i + 1), value(i + 2), value(i + 3)];
    wrong |= a | b | c | d;
    found[at] = (a << 2) | (b >> 4);
    found[at + 1] = (b << 4) | (c >> 2);
    found[at + 2] = (c << 6) | d;
    at += 3;
  }
  if (padding) {
    const [a, b] = [value(whole), value(whole + 1)];
    const c = padding === 1 ? value(whole + 2) : 0;
    wrong |= a | b | c;
    found[at] = (a << 2) | (b >> 4);
    if (padding === 1) found[at + 1] = (b << 4) | (c >> 2);
  }
  if (wrong & NONE) throw new Error("the page is damaged: its columns aren't base64");
  return found;
}

/** Decodes a page's columns, which are stored deflated and in base64. Throws an Error if their
 * length isn't the one that the page says. */
export async function inflated(base64: string, length: number): Promise<Uint8Array> {
  const stream = new Blob([bytesOf(base64)]).stream();
  const all = new Response(stream.pipeThrough(new DecompressionStream('deflate')));
  const buffer = await all.arrayBuffer().catch(() => {
    throw new Error("the page is damaged: its columns can't be unpacked");
  });
  const found = new Uint8Array(buffer);
  if (found.length !== length) {
    throw new Error(`the page is damaged: it has ${found.length} bytes, not ${length}`);
  }
  return found;
}
