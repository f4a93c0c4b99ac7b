// The state in the URL: valid values are restored, invalid ones are ignored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from '../../src/core/page.js';
import {
  fromFragment,
  numbering,
  START,
  type State,
  startOf,
  toFragment,
} from '../../src/ui/state.js';

test('a state is restored from its fragment', () => {
  const one: State = {
    ...START,
    device: 2,
    measure: 'active',
    axis: 'time',
    from: 10.5,
    to: 2000,
    low: 4096,
    high: 2 ** 40,
    carried: 'hidden',
    at: 17,
    other: 99,
    tab: 'between',
    by: 'file',
    colour: 'module',
    search: 'a&b=c #?é',
    root: 'innermost',
    frames: 'all',
    zoom: 'flame.3.-2',
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

test('moments are in the fragment as the event before them', () => {
  const devices = [{ first_event: 0 }, { first_event: 500 }];
  const before = numbering({ snapshots: [{ devices }] } as unknown as Page);
  const state: State = { ...START, at: 17, other: 0 };
  assert.equal(toFragment(state, START, before), 'at=16&other=-1');
  assert.deepEqual(fromFragment('at=16&other=-1', START, before), state);
  // The device that counts is the one in the fragment, wherever it stands.
  const second: State = { ...state, device: 1 };
  const said = 'at=516&other=499&device=1';
  assert.deepEqual(fromFragment(said, START, before), second);
  assert.deepEqual(fromFragment(toFragment(second, START, before), START, before), second);
});
