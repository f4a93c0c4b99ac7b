import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetPage } from '../../../src/core/fleet.js';
import {
  momentName,
  mostWords,
  overWords,
  rankName,
  rowsTitle,
  troubleWords,
} from '../../../src/ui/fleet/words.js';
import { rankOf } from '../../ranks.js';

const PAGE = {
  texts: ['weights', 'activations'],
  curve_by: 'steps',
  noun: 'rank',
} as unknown as FleetPage;

test('names of ranks and moments', () => {
  assert.equal(rankName(PAGE, rankOf(5)), 'rank 5');
  assert.equal(rankName(PAGE, rankOf(null, { file: 'run/x.pkl' })), 'x.pkl');
  assert.equal(rankName({ ...PAGE, noun: 'device' }, rankOf(5)), 'device 5');
  assert.equal(rowsTitle(PAGE), 'Ranks');
  assert.equal(rowsTitle({ ...PAGE, noun: 'device' }), 'Devices');
  assert.equal(momentName(PAGE, 2, 9), 'step 3');
  assert.equal(momentName({ ...PAGE, curve_by: 'events' }, 2, 64), 'part 3 of 64 of the events');
});

test('shares', () => {
  assert.equal(overWords(150, 100), '+50.0%');
  assert.equal(overWords(50, 100), '-50.0%');
  assert.equal(overWords(50, 0), '');
  assert.equal(overWords(50, Number.NaN), '');
  const one = rankOf(0, { peak_bytes: 100, categories: [{ text: 1, bytes: 25 }] });
  assert.equal(mostWords(PAGE, one), 'activations 25.0%');
  assert.equal(mostWords(PAGE, rankOf(0)), '');
});

test("a rank's problems", () => {
  assert.equal(troubleWords(rankOf(0)), '');
  const unread = rankOf(0, { device: null, status: 'unreadable', error: 'the file is empty' });
  assert.equal(troubleWords(unread), 'the file is empty');
  assert.equal(troubleWords({ ...unread, error: null, status: 'empty' }), 'empty');
  const all = rankOf(0, {
    ooms: 1,
    leak_bytes_per_step: 1024,
    typical: 3,
    trust: 'not trustworthy',
  });
  assert.equal(
    troubleWords(all),
    '1 request failed, leaks 1.0 KiB a step, unlike any other, not trustworthy',
  );
  assert.equal(troubleWords(rankOf(0, { ooms: 2 })), '2 requests failed');
});
