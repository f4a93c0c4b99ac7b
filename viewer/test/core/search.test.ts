import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asJavaScript } from '../../src/core/search.js';
import type { Filter, LiveQuery } from '../../src/protocol.js';
import { opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };

function found(of: World, moment: number, filter: Filter | null): number[] {
  const query: LiveQuery = {
    place,
    measure: 'active',
    moment,
    filter,
    sort: 'made',
    descending: false,
    offset: 0,
    limit: 1e9,
  };
  const { rows, total, bytes } = opened(of).live(query);
  const ids = rows.map(({ id }) => id);
  assert.equal(total, ids.length);
  assert.equal(
    bytes,
    ids.reduce((sum, id) => sum + of.lives[id]!.block, 0),
  );
  return ids;
}

/** Patterns, and what each one matches in JavaScript's syntax if that differs. */
const PATTERNS: readonly (readonly [string, RegExp?])[] = [
  ['step'],
  ['^a.py:'],
  ['forward a\\.py:10'],
  ['a.py:1', /a.py:1(?!\d)/],
  ['a.py:10$'],
  ['lib/b.py:(main|step)'],
  ['aten::add$'],
  ['at::_ops::add::call'],
  ['op()(x)', /op\(\)\(x\)/],
  ['(?i)MAIN', /main/i],
  ['… step', /step/],
  ['lib…step', /lib.*step/],
  [' main  a.py ', /main a.py/],
  ['via torch: forward', /forward/],
  ['b.py:20  aten::add', /b.py:20(?!\d)/],
  ['py:0$'],
  ['nothing like it'],
];

test('patterns are found in frames', () => {
  const next = random(11);
  for (let seed = 0; seed < 12; seed++) {
    const of = world(seed, 60);
    for (const [pattern, means] of PATTERNS) {
      const moment = next(61);
      const wanted = slow
        .live(of, 'active', moment)
        .filter((id) => slow.met(of, means ?? new RegExp(pattern), id));
      assert.deepEqual(found(of, moment, { include: pattern }), wanted, pattern);
      const regex = means ?? new RegExp(pattern);
      const frames = of.frames.map((_, i) => slow.written(of, i).some((text) => regex.test(text)));
      const met = opened(of).framesMet(0, { include: pattern });
      assert.deepEqual([...met], frames.map(Number), pattern);
    }
  }
});

test('filters by group, and by group and pattern', () => {
  const next = random(12);
  for (let seed = 0; seed < 40; seed++) {
    const of = world(seed, 60);
    const moment = next(61);
    const group = next(4);
    const live = slow.live(of, 'active', moment);
    for (const { way } of of.groups) {
      const own = live.filter((id) => slow.group(of, way, 'active', id) === group);
      assert.deepEqual(found(of, moment, { way, group }), own);
      assert.deepEqual(
        found(of, moment, { way, group, include: 'a.py' }),
        own.filter((id) => slow.met(of, /a.py/, id)),
      );
    }
    assert.deepEqual(found(of, moment, null), live);
    assert.deepEqual(found(of, moment, {}), live);
    assert.deepEqual(found(of, moment, { include: '' }), live);
  }
});

test('allocations without a stack match no pattern', () => {
  const of = world(1, 60);
  const none = of.stacks.length;
  const lives = of.lives.map((one) => ({ ...one, stack: one.begin < 0 ? none + 1 : none }));
  assert.deepEqual(found({ ...of, lives }, 30, { include: '' + '.*' }), []);
});

test('invalid regular expressions', () => {
  const of = world(1, 20);
  assert.throws(() => found(of, 9, { include: 'step(' }), /not a regular expression: /);
  assert.doesNotThrow(() => found(of, 9, { include: '… step(' }));
});

test('more searches than are cached', () => {
  const of = world(4, 60);
  const engine = opened(of);
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 20; i++) {
      const include = `${of.texts[i % 4]}.{0,${i}}`;
      const query = { place, measure: 'held', moment: 40, way: 'stack' } as const;
      const { count } = engine.holders({ ...query, filter: { include } });
      const wanted = slow
        .live(of, 'held', 40)
        .filter((id) => slow.met(of, new RegExp(include), id)).length;
      assert.equal(count, wanted);
    }
  }
});

test('regular expressions mean the same as in Python', () => {
  const met = (pattern: string, text: string) => new RegExp(asJavaScript(pattern), 'u').test(text);
  for (const [pattern, yes, no] of [
    ['\\Aforward', 'forward x', 'a forward'],
    ['forward\\Z', 'a forward', 'forward x'],
    ['fo{,2}r', 'foor', 'fooor'],
    ['a{2}', 'aa', 'a'],
    ['a{2,}', 'aaa', 'a'],
    ['^na\\wve$', 'naïve', 'na-ve'],
    ['训\\w', '训练', '训 '],
    ['\\bve\\b', 'a ve', 'naïve'],
    ['\\d', '٣', 'x'],
    ['[\\w.]+x', 'é.x', '-x'.slice(0, 1)],
    ['[]a]', ']', 'b'],
    ['[^]a]', 'b', ']a'],
    ['[[]', '[', 'a'],
    ['a\\-b', 'a-b', 'ab'],
    ['[a\\-b]', '-', 'c'],
    ['f\\(x\\)', 'f(x)', 'fx'],
    ['{x}', '{x}', 'x'],
    ['<lambda>|a\\:1', 'a:1', 'a1'],
  ] as const) {
    assert.ok(met(pattern, yes), `${pattern} is in ${yes}`);
    assert.ok(!met(pattern, no), `${pattern} is not in ${no}`);
  }
  for (const wrong of ['(?P<n>a)', '[\\W]', 'a\\yb', '(', '(?x)a']) {
    assert.throws(() => met(wrong, ''), SyntaxError, wrong);
  }
});
