// Command lines: words that a shell would split are quoted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quoted } from '../../src/ui/quoting.js';

test('words that a shell would split are quoted', () => {
  assert.equal(quoted('snap.pkl.gz'), 'snap.pkl.gz');
  assert.equal(quoted('my snap.pkl'), "'my snap.pkl'");
  assert.equal(quoted("it's; rm -rf $HOME"), "'it'\\''s; rm -rf $HOME'");
  assert.equal(quoted(''), "''");
});
