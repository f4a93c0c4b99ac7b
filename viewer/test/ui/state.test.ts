// The state in the URL: valid values are restored, invalid ones are ignored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from '../../src/core/page.js';
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

test('a page starts with the highest rank, or the first snapshot with a device', () => {
  const snapshots = [[], [5], [9], []].map((peaks) => ({
    devices: peaks.map((bytes) => ({ peaks: { requested: { bytes } } })),
  })) as unknown as Page['snapshots'];
  assert.equal(startOf({ kind: 'ranks', snapshots }).snapshot, 2);
  assert.equal(startOf({ kind: 'compare', snapshots: snapshots.slice(0, 2) }).snapshot, 1);
  assert.equal(startOf({ kind: 'compare', snapshots: snapshots.slice(1, 3) }).snapshot, 0);
  assert.equal(startOf({ kind: 'one', snapshots: [] }).snapshot, 0);
});
