// No key has two meanings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysOf } from '../../src/ui/keys.js';

test('no key has two meanings', () => {
  const all = keysOf(() => undefined).flatMap(({ keys }) => keys);
  assert.deepEqual(
    all.filter((one, i) => all.indexOf(one) !== i),
    [],
  );
});
