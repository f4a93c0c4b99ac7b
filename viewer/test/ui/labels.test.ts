// Labels begin with what tells them apart, and stay distinct when they're shortened.

import assert from 'node:assert/strict';
import test from 'node:test';
import type { PageData, PageDevice } from '../../src/core/page.js';
import type { Ground } from '../../src/ui/ground.js';
import {
  distinct,
  elided,
  groupWords,
  nameAndCallers,
  placeOf,
  withoutParameters,
} from '../../src/ui/labels.js';

const texts = [
  '/w/chat/model.py',
  'model.py',
  '/w/chat/tools/util.py',
  'tools/util.py',
  '/w/chat/more/util.py',
  'more/util.py',
  '/tmp/ipykernel_3/77.py',
  'cell 77',
  'forward',
  'aten::linear',
  'forward  /w/chat/model.py:12  aten::linear',
  '(no stack)',
  '',
];
const snapshot = {
  texts,
  folder: '/w/chat/',
  files: [
    [0, 1],
    [2, 3],
    [4, 5],
    [6, 7],
  ],
  code: [[10, 12, 0, 8, 9]],
} as unknown as PageData;

test('a file is named by its path in the folder, or just by its name', () => {
  assert.equal(placeOf(snapshot, 0, 12), 'model.py:12');
  assert.equal(placeOf(snapshot, 2, 3), 'tools/util.py:3');
  assert.equal(placeOf(snapshot, 2, 0, true), 'tools/util.py'); // another one has this name
  assert.equal(placeOf(snapshot, 0, 12, true), 'model.py:12');
  assert.equal(placeOf(snapshot, 6, 5, true), 'cell 77:5');
  assert.equal(placeOf(snapshot, 12, 0), '');
});

test('a line that names code begins with the place', () => {
  const device = { groups: [{ way: 'stack', lines: [[10], [11]] }] } as unknown as PageDevice;
  const ground = { snapshot, device } as Ground;
  assert.deepEqual(groupWords(ground, 'stack', 0), ['model.py:12 forward aten::linear']);
  assert.deepEqual(groupWords(ground, 'stack', 1), ['(no stack)']);
});

test('callers have no folders, which would hide the callers after them', () => {
  const there = {
    ...snapshot,
    texts: [...texts, '/w/chat/app/main.py', 'app/main.py', 'main  /w/chat/app/main.py:9', 'main'],
    files: [...snapshot.files, [13, 14]],
    code: [...snapshot.code, [15, 9, 13, 16]],
  } as unknown as PageData;
  const device = { groups: [{ way: 'stack', lines: [[15, 15]] }] } as unknown as PageDevice;
  assert.deepEqual(nameAndCallers({ snapshot: there, device } as Ground, 'stack', 0), [
    'app/main.py:9 main',
    'main.py:9 main',
  ]);
});

test('labels that are the same get the first callers that differ', () => {
  assert.deepEqual(distinct([]), []);
  assert.deepEqual(
    distinct([
      ['a:1 f', 'b:2 g', 'c:3 h'],
      ['a:1 f', 'b:2 g', 'c:4 h'],
      ['a:1 f', 'b:9 g', 'c:4 h'],
      ['a:2 f', 'b:2 g'],
    ]),
    ['a:1 f ← b:2 g ← c:3 h', 'a:1 f ← b:2 g ← c:4 h', 'a:1 f ← b:9 g', 'a:2 f'],
  );
});

test('shortened labels keep their ends', () => {
  assert.deepEqual(elided(['short', 'model.layers.0.attention.query'], 12), [
    'short',
    'model.la…ery',
  ]);
});

test('shortened labels that differ stay distinct', () => {
  const random = (n: number) => Math.floor(Math.random() * n);
  const word = (n: number) => Array.from({ length: n }, () => 'ab'[random(2)]).join('');
  for (let run = 0; run < 300; run++) {
    const [head, end] = [word(random(30)), word(random(30))];
    const some = Array.from({ length: 6 }, () => head + word(random(4)) + end);
    const found = elided(some, 16);
    assert.equal(new Set(found).size, new Set(some).size, JSON.stringify([some, found]));
    for (const [i, one] of found.entries()) if (some[i]!.length <= 16) assert.equal(one, some[i]);
  }
});

test('C++ functions are named without their parameters', () => {
  for (const [name, short] of [
    ['at::_ops::mm::call(at::Tensor const&, at::Tensor const&)', 'at::_ops::mm::call'],
    ['f(std::function<void (int)>, int (*)(char)) const', 'f'],
    ['(anonymous namespace)::g(int)', '(anonymous namespace)::g'],
    ['A::operator()(int)', 'A::operator()'],
    ['forward', 'forward'],
    ['<lambda>', '<lambda>'],
    ['(no function)', '(no function)'],
    ['f(', 'f('],
  ] as const) {
    assert.equal(withoutParameters(name), short);
  }
});
