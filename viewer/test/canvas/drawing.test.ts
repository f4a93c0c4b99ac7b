// Colours, truncated text, the theme, and the positions of tooltips.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  contrast,
  css,
  diverging,
  inkOn,
  luminance,
  mixed,
  oklch,
  parsed,
  quietInkOn,
  type Rgb,
  softColours,
} from '../../src/ui/canvas/colour.js';
import { changeColour, placeFitted } from '../../src/ui/canvas/flame/paint.js';
import { plain, TextWidths } from '../../src/ui/canvas/text.js';
import { colourIn, themeOf } from '../../src/ui/canvas/theme.js';
import { placed } from '../../src/ui/canvas/tooltip.js';

test('colours are parsed as in style sheets', () => {
  assert.deepEqual(parsed('#fff'), [255, 255, 255]);
  assert.deepEqual(parsed(' #12aBff '), [18, 171, 255]);
  assert.deepEqual(parsed('#12abff80'), [18, 171, 255]);
  assert.deepEqual(parsed('rgb(1, 2, 3)'), [1, 2, 3]);
  assert.deepEqual(parsed('rgba(1 2 3 / 50%)'), [1, 2, 3]);
  for (const none of ['', 'red', '#12345', 'url(x)', 'var(--fg)']) assert.equal(parsed(none), null);
  assert.equal(css([18, 171, 255]), '#12abff');
  assert.deepEqual(mixed([0, 0, 0], [100, 200, 40], 0.5), [50, 100, 20]);
});

test('contrast is computed as defined by WCAG', () => {
  assert.equal(contrast([0, 0, 0], [255, 255, 255]), 21);
  assert.equal(contrast([9, 9, 9], [9, 9, 9]), 1);
  assert.ok(Math.abs(luminance([0x40, 0x80, 0xc0]) - 0.20334) < 1e-4);
  // #767676 is the lightest grey that is readable on white.
  assert.ok(contrast([0x76, 0x76, 0x76], [255, 255, 255]) >= 4.5);
  assert.ok(contrast([0x77, 0x77, 0x77], [255, 255, 255]) < 4.5);
});

test('OKLCH colours are converted to RGB', () => {
  assert.equal(css(oklch(1, 0, 0)), '#ffffff');
  assert.equal(css(oklch(0.627955, 0.257683, 29.2339)), '#ff0000');
  assert.equal(css(oklch(0.452014, 0.313214, 264.052)), '#0000ff');
});

test('text is readable on every box colour', () => {
  for (const dark of [false, true]) {
    const theme = themeOf(() => '', 'sans-serif', dark);
    const colours: Rgb[] = softColours(dark).map((one) => parsed(one)!);
    for (let share = -10; share <= 10; share++) {
      const [before, after] = share > 0 ? [10 - share, 10] : [10, 10 + share];
      colours.push(parsed(changeColour(theme, after, before))!);
    }
    for (const one of colours) {
      const ink = inkOn(one);
      assert.ok(contrast(one, ink) >= 4.5, `${css(one)} ${contrast(one, ink)}`);
      assert.ok(contrast(one, quietInkOn(one)) >= 4.5);
    }
  }
});

test('less important text is paler if it stays readable', () => {
  assert.notDeepEqual(quietInkOn([255, 255, 255]), inkOn([255, 255, 255]));
  const grey: Rgb = [0x76, 0x76, 0x76];
  assert.deepEqual(quietInkOn(grey), inkOn(grey));
});

test('growth is red and shrinkage blue, and larger changes have stronger colours', () => {
  const [none, more, less]: Rgb[] = [
    [200, 200, 200],
    [200, 0, 0],
    [0, 0, 200],
  ];
  assert.deepEqual(diverging(0, none!, more!, less!), none);
  assert.deepEqual(diverging(1, none!, more!, less!), more);
  assert.deepEqual(diverging(-1, none!, more!, less!), less);
  assert.deepEqual(diverging(-9, none!, more!, less!), less);
  const greens = [0.01, 0.1, 0.5, 1].map((share) => diverging(share, none!, more!, less!)[1]);
  for (let i = 1; i < greens.length; i++) assert.ok(greens[i]! < greens[i - 1]!);
  assert.ok(greens[0]! < 180);
});

/** Measures each character as 10 pixels, or 20 if it's wide. */
const TEN = { measureText: (text: string) => ({ width: text > '\u2fff' ? 20 : 10 }) };

test('text is truncated to fit', () => {
  const widths = new TextWidths(TEN);
  assert.equal(widths.width('forward'), 70);
  assert.equal(widths.fitted('forward', 70), 'forward');
  assert.equal(widths.fitted('forward', 69), 'forwa…');
  assert.equal(widths.fitted('forward', 30), 'fo…');
  assert.equal(widths.fitted('forward', 29), '');
  assert.equal(widths.fitted('', 5), '');
  // A character of two code units isn't cut in half.
  assert.equal(widths.width('a😀b'), 40);
  assert.equal(widths.fitted('a😀bcd', 50), 'a😀b…');
  assert.equal(widths.fitted('ab😀😀', 45), 'ab…');
});

test('only the part of a text that fits is measured, and each character once', () => {
  let asked = 0;
  const counting = {
    measureText: (text: string) => {
      asked++;
      return TEN.measureText(text);
    },
  };
  const widths = new TextWidths(counting);
  widths.fitted('abc'.repeat(1e6), 200);
  widths.fitted('cba', 200);
  assert.equal(asked, 4);
});

test('invisible characters in names are replaced', () => {
  assert.equal(plain('forward\nmodel.py'), 'forward\ufffdmodel.py');
  assert.equal(plain('safe\u202egnp.exe'), 'safe\ufffdgnp.exe');
  assert.equal(plain('a\u200bb\u0000'), 'a\ufffdb\ufffd');
  assert.equal(plain('<b>ü😀</b>'), '<b>ü😀</b>');
  assert.equal(plain('x'.repeat(1000), 10), `${'x'.repeat(9)}…`);
});

test('the theme comes from the style sheet, or else from the system', () => {
  const said: Record<string, string> = { '--bg': '#101010', '--fg': ' #eee', '--more': 'red' };
  const theme = themeOf((name) => said[name] ?? '', 'Inter', false);
  assert.equal(theme.dark, true);
  assert.deepEqual(theme.fg, [238, 238, 238]);
  assert.deepEqual(theme.more, themeOf(() => '', '', true).more);
  assert.equal(theme.font, 'Inter');
  assert.equal(themeOf(() => '', '', false).dark, false);
  assert.deepEqual(colourIn(theme, 'var(--fg)'), theme.fg);
  assert.deepEqual(colourIn(theme, '#010203'), [1, 2, 3]);
  assert.deepEqual(colourIn(theme, 'nonsense'), theme.hole);
});

test('a tooltip stays within the window', () => {
  assert.equal(placed(100, 200, 1000), 114);
  assert.equal(placed(900, 200, 1000), 686);
  assert.equal(placed(150, 300, 390), 8);
  assert.equal(placed(10, 500, 390), 8);
});

test('a location in a box keeps its line', () => {
  assert.equal(
    placeFitted('model.py:58', (text) => text.length <= 11),
    'model.py:58',
  );
  assert.equal(
    placeFitted('model.py:58', (text) => text.length <= 10),
    ':58',
  );
  assert.equal(
    placeFitted('', () => false),
    '',
  );
});
