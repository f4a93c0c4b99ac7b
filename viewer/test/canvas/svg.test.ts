// The pen that writes SVG.

import assert from 'node:assert/strict';
import test from 'node:test';
import { hatched } from '../../src/ui/canvas/patterns.js';
import { SvgPen } from '../../src/ui/canvas/svg.js';

test('shapes and texts are elements where the pen is', () => {
  const pen = new SvgPen();
  pen.fillStyle = 'red';
  pen.save();
  pen.translate(10, 20);
  pen.fillRect(1, 2.004, 3, 4);
  pen.restore();
  pen.font = '400 11px "A B", sans-serif';
  pen.textBaseline = 'middle';
  pen.fillText('<a & b>', 5, 6);
  assert.equal(
    pen.text,
    '<rect x="11" y="22" width="3" height="4" fill="red"/>' +
      '<text x="5" y="6" dominant-baseline="central" font-weight="400" font-size="11px"' +
      ' font-family="&#34;A B&#34;, sans-serif" fill="red">&#60;a &#38; b&#62;</text>',
  );
});

test('clipped drawings end with the saved state', () => {
  const pen = new SvgPen();
  pen.save();
  pen.beginPath();
  pen.rect(1, 1, 2, 2);
  pen.clip();
  pen.strokeRect(0, 0, 5, 5);
  pen.restore();
  assert.match(
    pen.text,
    /^<clipPath id="(\w+)"><path d="M1,1h2v2h-2z"\/><\/clipPath><g clip-path="url\(#\1\)"><rect [^>]*><\/g>$/,
  );
});

test('hatched fills are patterns', () => {
  const pen = new SvgPen();
  const fill = hatched(pen as unknown as CanvasRenderingContext2D, [1, 2, 3], 5, 1);
  assert.match(pen.text, /^<pattern id="(\w+)"/);
  assert.equal(fill, `url(#${/id="(\w+)"/.exec(pen.text)![1]})`);
});
