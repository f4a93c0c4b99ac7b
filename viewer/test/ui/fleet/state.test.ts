import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromFragment, START, toFragment } from '../../../src/ui/fleet/state.js';

test('the fragment has values that differ from the defaults, and restores them', () => {
  assert.equal(toFragment(START), '');
  const other = {
    ...START,
    order: 'alike',
    colour: 'median',
    rank: 5,
    moment: 0,
    tab: 'report',
    sort: 'host',
    descending: false,
  } as const;
  assert.deepEqual(fromFragment(`#${toFragment(other)}`), other);
});

test('invalid values get their defaults', () => {
  for (const text of ['order=x&tab=y&colour=', 'rank=-1&moment=1.5', 'rank=99999999999', 'a=b']) {
    assert.deepEqual(fromFragment(text), START);
  }
});
