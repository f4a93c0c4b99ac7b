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

/** The bands' corners on an axis from -10 to 9,000. */
const bands = (axis: 'event' | 'time') =>
  bandsOf(
    { whole: { from: -10, to: 9_000 }, axis },
    CARD,
    (x) => x,
    (bytes) => -bytes,
  ).map((path) =>
    path
      .slice(1)
      .split(' ')
      .map((point) => point.split(',').map(Number)),
  );

test('bands hang from the size of the card', () => {
  const [others, own] = bands('event');
  const begins = [-10, 2, 2, 5, 9_000];
  const steps = (bytes: readonly number[]) =>
    bytes.flatMap((one, i) => [
      [begins[i]!, -one],
      [begins[i + 1]!, -one],
    ]);
  const below = steps([100, 70, 60, 100]);
  assert.deepEqual(others, [...steps([100, 100, 100, 100]), ...[...below].reverse()]);
  assert.deepEqual(own, [...below, ...steps([95, 64, 53, 92]).reverse()]);
});

test('on the time axis, a sample reaches half-way to the next one', () => {
  const across = bands('time')[0]!
    .slice(0, 8)
    .map(([x]) => x);
  assert.deepEqual(across, [-10, 2.5, 2.5, 15, 15, 2_010, 2_010, 9_000]);
});
