import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bandsOf, partsOf, sampleAt, sampledText } from '../../src/ui/outside.js';

const CARD = {
  total_bytes: 100,
  moments: [0, 2, 2, 5],
  times_us: [-5, 10, 20, 4_000],
  free_bytes: [80, 40, 30, 20],
  outside_bytes: [5, 6, 7, 8],
  other_bytes: [null, 30, 40, 0],
};

test('each moment has the last sample that begins at or before it', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 99].map((moment) => sampleAt(CARD, moment)),
    [0, 0, 2, 2, 2, 3, 3],
  );
});

test('other processes that are not known are part of what is outside', () => {
  assert.deepEqual(partsOf(CARD, 0), [
    ['other processes', null],
    ['outside PyTorch, with other processes', 5],
    ['free', 80],
  ]);
  assert.deepEqual(partsOf(CARD, 1), [
    ['other processes', 30],
    ['outside PyTorch', 6],
    ['free', 40],
  ]);
});

test('a sample is earlier or later', () => {
  assert.equal(sampledText(CARD, 0, 0), '5 us earlier');
  assert.equal(sampledText(CARD, 3, 0), '0.004 s later');
  assert.equal(sampledText(CARD, 1, 10), 'then');
});

test('bands hang from the size of the card', () => {
  const [others, own] = bandsOf(
    CARD,
    (sample) => sample,
    (bytes) => -bytes,
  ).map((path) =>
    path
      .slice(1)
      .split(' ')
      .map((point) => point.split(',').map(Number)),
  );
  const steps = (bytes: readonly number[]) =>
    bytes.flatMap((one, i) => [
      [i, -one],
      [i + 1, -one],
    ]);
  const below = steps([100, 70, 60, 100]);
  assert.deepEqual(others, [...steps([100, 100, 100, 100]), ...[...below].reverse()]);
  assert.deepEqual(own, [...below, ...steps([95, 64, 53, 92]).reverse()]);
});
