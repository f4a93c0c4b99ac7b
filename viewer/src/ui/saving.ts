// Drawings as SVG files and PNG images.

import { svgOf } from './canvas/canvas.js';
import { escaped } from './canvas/svg.js';

const SCALE = 2;
/** The most pixels of an image's side. */
const MOST_SIDE = 16_000;

/** A file of this size, with the page's background and font. */
export function file(width: number, height: number, inner: string): string {
  const { backgroundColor, color, fontFamily, fontSize } = getComputedStyle(document.body);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${backgroundColor}"/>` +
    `<g fill="${color}" font-family="${escaped(fontFamily)}" font-size="${fontSize}">${inner}</g></svg>`
  );
}

/** The whole drawing of a canvas. */
export function canvasSvg(selector: string): string {
  const canvas = document.querySelector<HTMLCanvasElement>(selector);
  const drawn = canvas && svgOf(canvas);
  if (!drawn) throw new Error('there is no picture');
  return file(drawn.width, drawn.height, drawn.svg);
}

/** An SVG as a PNG of twice the size. */
export async function pngOf(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = Math.min(SCALE, MOST_SIDE / Math.max(image.width, image.height));
  const canvas = document.createElement('canvas');
  canvas.width = image.width * scale;
  canvas.height = image.height * scale;
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) =>
    canvas.toBlob((blob) =>
      blob ? done(blob) : failed(new Error("the browser couldn't create the picture")),
    ),
  );
}
