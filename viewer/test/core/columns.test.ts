import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counts, decoded, integers, narrowed } from '../../src/core/columns.js';
import { Columns } from '../build.js';
import { random } from '../random.js';

const EDGES = [0, 1, -1, 127, -128, 2 ** 31 - 1, -(2 ** 31), 2 ** 32, 2 ** 40, -(2 ** 52)];

test('columns are decoded exactly', () => {
  const next = random(1);
  for (let round = 0; round < 300; round++) {
    const most = 2 ** next(52);
    const numbers = Array.from({ length: next(12) }, () =>
      next(4)
        ? Math.floor((next(2 ** 30) / 2 ** 30) * most) * (next(2) ? 1 : -1)
        : EDGES[next(10)]!,
    ).map((one) => one + 0);
    const columns = new Columns();
    const plain = columns.add(numbers);
    const differences = columns.add(numbers, true);
    const recurring = columns.recurring(numbers);
    const { data } = columns;
    for (const one of [plain, differences, recurring]) {
      assert.deepEqual(
        Array.from(decoded(data, one), (number) => number + 0),
        numbers,
      );
      const fits = numbers.every((number) => number === (number | 0));
      if (fits) assert.deepEqual([...integers(data, one)], numbers);
      else assert.throws(() => integers(data, one), /a number is too large/);
      if (numbers.every((number) => number >= 0)) {
        assert.deepEqual([...counts(data, one)], numbers);
      }
    }
  }
});

test('numbers use the smallest array type', () => {
  const columns = new Columns();
  const small = columns.add([0, 2 ** 31, 2 ** 32 - 1]);
  const large = columns.add([0, 2 ** 32]);
  assert.ok(counts(columns.data, small) instanceof Uint32Array);
  assert.ok(counts(columns.data, large) instanceof Float64Array);
  assert.ok(narrowed(Float64Array.of(1)) instanceof Uint32Array);
});
