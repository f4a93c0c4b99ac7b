// Saves the stacked picture as an SVG with its axes, or as a PNG of that.

import { state } from './state.js';

const SCALE = 2;
/** The page's style properties for the elements of axes, because a saved file has no style sheet.
 * They become attributes, because the page's policy doesn't allow inline styles. */
const LOOKS = [
  'fill',
  'fill-opacity',
  'stroke',
  'stroke-opacity',
  'stroke-width',
  'stroke-dasharray',
];
const FONT = ['font-family', 'font-size', 'font-weight'];

function styled(to: Element, style: CSSStyleDeclaration, names: readonly string[]): void {
  for (const name of names) to.setAttribute(name, style.getPropertyValue(name));
}

function looked(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  if (to.matches('line, path, polyline, rect, text')) styled(to, style, LOOKS);
  if (to.matches('text')) styled(to, style, FONT);
  for (const [i, child] of [...from.children].entries()) looked(child, to.children[i]!);
}

/** The picture of the snapshot in the header, with its axes; `title` goes above it. */
export function pictureSvg(title: string): string {
  const stage = document.querySelector(`.picture[data-snapshot="${state.value.snapshot}"]`);
  const canvas = stage?.querySelector<HTMLCanvasElement>('canvas.stack');
  const over = stage?.querySelector<SVGSVGElement>('svg.over');
  if (!stage || !canvas || !over) throw new Error('there is no picture');
  const [width, height] = [over.width.baseVal.value, over.height.baseVal.value + 24];
  const copy = over.cloneNode(true) as SVGSVGElement;
  looked(over, copy);
  const NS = 'http://www.w3.org/2000/svg';
  const file = document.createElementNS(NS, 'svg');
  file.setAttribute('xmlns', NS);
  file.setAttribute('width', String(width));
  file.setAttribute('height', String(height));
  file.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const style = getComputedStyle(document.body);
  const back = document.createElementNS(NS, 'rect');
  back.setAttribute('width', '100%');
  back.setAttribute('height', '100%');
  back.setAttribute('fill', style.backgroundColor);
  const name = document.createElementNS(NS, 'text');
  name.setAttribute('x', '8');
  name.setAttribute('y', '16');
  name.setAttribute('fill', style.color);
  styled(name, style, FONT);
  name.textContent = title;
  const image = document.createElementNS(NS, 'image');
  image.setAttribute('x', String(canvas.offsetLeft));
  image.setAttribute('y', '24');
  image.setAttribute('width', String(canvas.offsetWidth));
  image.setAttribute('height', String(canvas.offsetHeight));
  image.setAttribute('preserveAspectRatio', 'none');
  image.setAttribute('href', canvas.toDataURL('image/png'));
  copy.setAttribute('y', '24');
  file.append(back, name, image, copy);
  return new XMLSerializer().serializeToString(file);
}

/** The same as a PNG of twice the size. */
export async function picturePng(title: string): Promise<Blob> {
  const svg = pictureSvg(title);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = image.width * SCALE;
  canvas.height = image.height * SCALE;
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) =>
    canvas.toBlob((blob) =>
      blob ? done(blob) : failed(new Error("the browser couldn't create the picture")),
    ),
  );
}
