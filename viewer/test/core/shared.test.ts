// Colours of groups in several pictures: the same name has the same colour.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kept, type Side, shared } from '../../src/core/shared.js';
import { random } from '../random.js';

function side(sums: number[], names: (string | null)[], moments = 1): Side {
  return { sums: Float64Array.from(sums), moments, name: (group) => names[group] ?? null };
}

test('colours go to the names that fill most of both pictures', () => {
  const a = side([10, 50, 0, 30], ['x', 'y', 'never live', null]);
  // Twice as many moments: each counts half.
  const b = side([100, 60, 10], ['z', 'x', 'w'], 2);
  // y and z fill 50 each, x 10 + 30, w 5.
  assert.deepEqual(shared([a, b], 3), [
    [
      [1, 0],
      [0, 2],
    ],
    [
      [0, 1],
      [1, 2],
    ],
  ]);
});

test('groups of one picture stay apart, even with the same name', () => {
  assert.deepEqual(shared([side([1, 2], ['x', 'x'])], 9), [
    [
      [1, 0],
      [0, 1],
    ],
  ]);
});

test('a name has one colour, and a colour one name', () => {
  const next = random(7);
  for (let round = 0; round < 50; round++) {
    const sides = [0, 1].map(() => {
      const names = [...'abcdefghij'].filter(() => next(10) < 7);
      return { names, sums: names.map(() => next(100)), moments: 1 + next(3) };
    });
    const found = shared(
      sides.map(({ names, sums, moments }) => side(sums, names, moments)),
      4,
    );
    const colours = new Map<string, Set<number>>();
    for (const [i, own] of found.entries()) {
      for (const [group, colour] of own) {
        const name = sides[i]!.names[group]!;
        colours.set(name, (colours.get(name) ?? new Set()).add(colour));
      }
    }
    const used = [...colours.values()].map((one) => [...one]);
    assert.ok(used.every((one) => one.length === 1));
    assert.equal(new Set(used.flat()).size, used.length);
    // The slow rule: the names with the largest sums of shares.
    const share = (name: string) =>
      sides.reduce((sum, { names, sums, moments }) => {
        const at = names.indexOf(name);
        return at < 0 ? sum : sum + sums[at]! / moments;
      }, 0);
    const best = [...'abcdefghij'].map(share).filter((one) => one > 0);
    best.sort((x, y) => y - x);
    const got = [...colours.keys()].map(share).sort((x, y) => y - x);
    assert.deepEqual(got, best.slice(0, 4));
  }
});

test('a name keeps its colour from one picture to the next', () => {
  const before = new Map<string, number>();
  assert.deepEqual(kept(before, ['a', 'b'], 3), [0, 1]);
  assert.deepEqual(kept(before, ['c', 'b'], 3), [2, 1]);
  assert.deepEqual(kept(before, ['b', 'a', 'c'], 3), [1, 0, 2]);
  // All colours are taken; `d` gets one that this picture doesn't use.
  assert.deepEqual(kept(before, ['b', 'd'], 3), [1, 0]);
  assert.deepEqual(kept(before, ['a', 'b', 'c'], 3), [0, 1, 2]);
  // The first of two names with one colour keeps it.
  assert.deepEqual(kept(before, ['d', 'a', 'b', 'c'], 3), [0, -1, 1, 2]);
});
