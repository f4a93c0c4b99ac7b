import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromFragment, START, toFragment } from '../../../src/ui/fleet/state.js';

test('the address says what differs, and gives it back', () => {
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

test('what it says wrongly is as at the start', () => {
  for (const text of ['order=x&tab=y&colour=', 'rank=-1&moment=1.5', 'rank=99999999999', 'a=b']) {
    assert.deepEqual(fromFragment(text), START);
  }
});
