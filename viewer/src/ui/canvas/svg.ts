// A pen that writes SVG instead of drawing on a canvas. It knows only what the page's drawings use.

export function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
}

const numbers = (...all: number[]): string[] =>
  all.map((one) => String(Math.round(one * 100) / 100));

/** A font of `fontOf`, as attributes. */
function fontAttributes(font: string): string {
  const [weight, size, ...family] = font.split(' ');
  return `font-weight="${weight}" font-size="${size}" font-family="${escaped(family.join(' '))}"`;
}

export class SvgPen {
  text = '';
  fillStyle = '';
  strokeStyle = '';
  lineWidth = 1;
  globalAlpha = 1;
  font = '';
  textBaseline = '';
  private path = '';
  private dash = '';
  private x = 0;
  private y = 0;
  /** The positions at each `save`, and the clipping groups that were opened after it. */
  private readonly saved: [number, number, number][] = [];
  private static ids = 0;

  private paint(fill: string, stroke: string): string {
    const line = stroke ? ` stroke="${stroke}" stroke-width="${this.lineWidth}"` : '';
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : '';
    return `fill="${fill || 'none'}"${line}${stroke && this.dash}${alpha}/>`;
  }

  private rectangle(x: number, y: number, width: number, height: number): string {
    const [a, b, c, d] = numbers(x + this.x, y + this.y, width, height);
    return `<rect x="${a}" y="${b}" width="${c}" height="${d}" `;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.text += this.rectangle(x, y, width, height) + this.paint(this.fillStyle, '');
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.text += this.rectangle(x, y, width, height) + this.paint('', this.strokeStyle);
  }

  fillText(text: string, x: number, y: number): void {
    const [a, b] = numbers(x + this.x, y + this.y);
    const middle = this.textBaseline === 'middle' ? ' dominant-baseline="central"' : '';
    this.text += `<text x="${a}" y="${b}"${middle} ${fontAttributes(this.font)} fill="${this.fillStyle}">${escaped(text)}</text>`;
  }

  beginPath(): void {
    this.path = '';
  }

  private to(command: string, x: number, y: number): void {
    this.path += `${command}${numbers(x + this.x, y + this.y)}`;
  }

  moveTo(x: number, y: number): void {
    this.to('M', x, y);
  }

  lineTo(x: number, y: number): void {
    this.to('L', x, y);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.to('M', x, y);
    this.path += `h${width}v${height}h${-width}z`;
  }

  closePath(): void {
    this.path += 'z';
  }

  fill(): void {
    this.text += `<path d="${this.path}" ${this.paint(this.fillStyle, '')}`;
  }

  stroke(): void {
    this.text += `<path d="${this.path}" ${this.paint('', this.strokeStyle)}`;
  }

  setLineDash(dash: readonly number[]): void {
    this.dash = dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : '';
  }

  clip(): void {
    const id = `clip${SvgPen.ids++}`;
    this.text += `<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`;
    const last = this.saved[this.saved.length - 1];
    if (last) last[2]++;
  }

  save(): void {
    this.saved.push([this.x, this.y, 0]);
  }

  restore(): void {
    const [x, y, groups] = this.saved.pop() ?? [0, 0, 0];
    this.x = x;
    this.y = y;
    this.text += '</g>'.repeat(groups);
  }

  translate(x: number, y: number): void {
    this.x += x;
    this.y += y;
  }

  /** Slanted lines as a fill. */
  hatched(colour: string, step: number, width: number): string {
    const id = `lines${SvgPen.ids++}`;
    const lines = [-step, 0, step].map((x) => `M${x - 1},${step + 1}L${x + step + 1},-1`).join('');
    this.text += `<pattern id="${id}" width="${step}" height="${step}" patternUnits="userSpaceOnUse"><path d="${lines}" stroke="${colour}" stroke-width="${width}"/></pattern>`;
    return `url(#${id})`;
  }
}
