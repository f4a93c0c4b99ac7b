// The state in the URL: valid values are restored, invalid ones are ignored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page, PageFailure } from '../../src/core/page.js';
import {
  fromFragment,
  numbering,
  START,
  type State,
  startOf,
  toFragment,
} from '../../src/ui/state.js';
import { built } from '../build.js';
import { NOTHING, type World } from '../world.js';

const FAILURE: PageFailure = {
  moment: 1,
  asked_by: '',
  cause: 'capacity',
  text: '',
  cached_bytes: 0,
  remedies: [],
};

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
    segments: 'state',
    map: 'all',
    enlarged: 2,
    file: 12,
    search: 'a&b=c #?é',
    root: 'innermost',
    frames: 'all',
    zoom: 'flame.3.-2',
    pin: 3,
    group: 0,
    address: '0x7f00',
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
    devices: peaks.map((bytes) => ({ ooms: [], peaks: { requested: { bytes } } })),
  })) as unknown as Page['snapshots'];
  assert.equal(startOf({ kind: 'ranks', snapshots }).snapshot, 2);
  assert.equal(startOf({ kind: 'compare', snapshots: snapshots.slice(0, 2) }).snapshot, 1);
  assert.equal(startOf({ kind: 'compare', snapshots: snapshots.slice(1, 3) }).snapshot, 0);
  assert.equal(startOf({ kind: 'one', snapshots: [] }).snapshot, 0);
});

test('a page starts with the rank and the device that ran out of memory', () => {
  const oom: World = { ...NOTHING, events: 1 };
  const { page } = built(oom, oom);
  const failed = { ...page.snapshots[0]!.devices[0]!, ooms: [FAILURE] };
  const fine = page.snapshots[0]!.devices[0]!;
  const high = { ...fine, peaks: { ...fine.peaks, requested: { bytes: 9, moment: 0 } } };
  const ranks = [[fine], [high], [fine, failed]].map((devices) => ({
    ...page.snapshots[0]!,
    devices,
  }));
  const of = (snapshots: typeof ranks) => {
    const { snapshot, device } = startOf({ kind: 'ranks', snapshots });
    return [snapshot, device];
  };
  assert.deepEqual(of(ranks), [2, 1]);
  assert.deepEqual(of(ranks.slice(0, 2)), [1, 0]);
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
