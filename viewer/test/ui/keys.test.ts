// The list of keys: no key has two meanings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysOf } from '../../src/ui/keys.js';

test('each key does one thing, and the list says which', () => {
  const all = keysOf(
    () => {},
    () => {},
  );
  const keys = all.flatMap((one) => one.keys);
  assert.deepEqual(
    keys.filter((one, i) => keys.indexOf(one) !== i),
    [],
  );
  for (const { shown, does } of all) assert.ok(shown && does);
});
