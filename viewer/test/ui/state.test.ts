// The state in the URL: valid values are restored, invalid ones are ignored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromFragment, START, type State, startOf, toFragment } from '../../src/ui/state.js';

test('a state is restored from its fragment', () => {
  const one: State = {
    ...START,
    device: 2,
    measure: 'active',
    axis: 'time',
    from: 10.5,
    to: 2000,
    at: 17,
    other: 99,
    tab: 'between',
    by: 'file',
    colour: 'module',
    segments: 'state',
    map: 'all',
    enlarged: 2,
    file: 12,
    search: 'a&b=c #?é',
    root: 'innermost',
    frames: 'all',
    pin: 3,
    group: 0,
  };
  assert.deepEqual(fromFragment(`#${toFragment(one)}`), one);
});

test('the initial state has an empty fragment', () => {
  assert.equal(toFragment(START), '');
  assert.deepEqual(fromFragment(''), START);
});

test('invalid or unknown values are ignored', () => {
  const said = '#measure=bytes&tab=&axis=log&from=x&to=&at=1e999&device=NaN&__proto__=1&nothing=2';
  assert.deepEqual(fromFragment(said), START);
});

test('a comparison starts with the differences, and its fragment only has other tabs', () => {
  const start = startOf({ kind: 'compare', snapshots: [] });
  assert.equal(fromFragment('', start).tab, 'diff');
  assert.equal(toFragment(start, start), '');
  const other: State = { ...start, tab: 'holders' };
  assert.deepEqual(fromFragment(toFragment(other, start), start), other);
});
