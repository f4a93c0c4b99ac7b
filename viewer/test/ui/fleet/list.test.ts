import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sorted } from '../../../src/ui/fleet/list.js';
import { rankOf } from '../../ranks.js';

const RANKS = [
  rankOf(0, { peak_bytes: 5, headroom_bytes: 9 }),
  rankOf(1, { device: null }),
  rankOf(2, { peak_bytes: 7 }),
  rankOf(3, { peak_bytes: 5, headroom_bytes: 3 }),
];
const places = (sort: 'rank' | 'peak' | 'headroom', descending: boolean) =>
  sorted(RANKS, sort, descending).map(({ place }) => place);

test('rows are sorted, with missing numbers last in both directions', () => {
  assert.deepEqual(places('peak', true), [2, 0, 3, 1]);
  assert.deepEqual(places('peak', false), [0, 3, 2, 1]);
  assert.deepEqual(places('headroom', false), [3, 0, 1, 2]);
  assert.deepEqual(places('rank', true), [3, 2, 1, 0]);
});
