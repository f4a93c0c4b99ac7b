// The stacked picture as an SVG file, with its axes, lanes and legend.

import type { Place } from '../protocol.js';
import { svgOf } from './canvas/canvas.js';
import { escaped } from './canvas/svg.js';
import { elided } from './labels.js';
import { pathsOf } from './outlines.js';
import { shown } from './painting.js';
import { file } from './saving.js';

const TITLE = 24;
const LEGEND = 400;
const NAME = 44;
const LINE = 18;
const PAD = 12;
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

function looked(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  const names = [
    ...(to.matches('line, path, polyline, rect, text') ? LOOKS : []),
    ...(to.matches('text') ? FONT : []),
  ];
  for (const name of names) to.setAttribute(name, style.getPropertyValue(name));
  for (const [i, child] of [...from.children].entries()) looked(child, to.children[i]!);
}

const at = (x: number, y: number, inner: string) =>
  `<g transform="translate(${x} ${y})">${inner}</g>`;

/** The legend's rows, and their height. */
function legend(): { readonly svg: string; readonly height: number } {
  const rows = [...document.querySelectorAll('.legend li')].map((row, i) => {
    const text = (selector: string) =>
      escaped(elided([row.querySelector(selector)?.textContent ?? ''], NAME)[0]!);
    const swatch = row.querySelector<HTMLElement>('.swatch')?.style.background ?? '';
    const y = i * LINE + LINE;
    return (
      `<rect x="0" y="${y - 9}" width="10" height="10" rx="2" fill="${escaped(swatch)}"/>` +
      `<text x="16" y="${y}">${text('.name')}</text>` +
      `<text x="${LEGEND - PAD}" y="${y}" text-anchor="end">${text('.number')}</text>`
    );
  });
  return { svg: rows.join(''), height: rows.length * LINE };
}

/** The picture of a snapshot with its axes, lanes and legend; `title` goes above it. */
export function pictureSvg(title: string, { snapshot, device }: Place): string {
  const stage = document.querySelector(`.picture[data-snapshot="${snapshot}"]`);
  const canvas = stage?.querySelector<HTMLCanvasElement>('canvas.stack');
  const over = stage?.querySelector<SVGSVGElement>('svg.over');
  if (!stage || !canvas || !over) throw new Error('there is no picture');
  const copy = over.cloneNode(true) as SVGSVGElement;
  looked(over, copy);
  const [wide, high] = [over.width.baseVal.value, over.height.baseVal.value];
  const { offsetWidth: width, offsetHeight: height, offsetLeft: left } = canvas;
  const now = shown.get(snapshot);
  const same = now?.query.place.device === device && now.width === canvas.width;
  const paths = same ? pathsOf(now) : null;
  const image = paths
    ? `<svg x="${left}" width="${width}" height="${height}" viewBox="0 0 ${now!.width} ${now!.height}" preserveAspectRatio="none">${paths}</svg>`
    : `<image x="${left}" width="${width}" height="${height}" preserveAspectRatio="none" href="${canvas.toDataURL('image/png')}"/>`;
  const lanes = stage.nextElementSibling?.querySelector<HTMLCanvasElement>('.mr-lanes > canvas');
  const below = lanes && svgOf(lanes);
  const key = legend();
  const bottom = TITLE + Math.max(high + (below?.height ?? 0), key.height) + PAD;
  return file(
    wide + PAD + LEGEND,
    bottom,
    `<text x="8" y="16">${escaped(title)}</text>` +
      at(0, TITLE, image + new XMLSerializer().serializeToString(copy)) +
      (below ? at(0, TITLE + high, below.svg) : '') +
      at(wide + PAD, TITLE, key.svg),
  );
}
