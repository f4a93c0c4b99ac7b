import assert from 'node:assert/strict';
import { test } from 'node:test';
import { briefly } from '../../../src/ui/fleet/words.js';

test('names of code have no folders, unless they are needed', () => {
  const names = [
    'keep_history /workspace/odd/metrics.py:10',
    '+1.3 MiB forward C:\\work\\model.py:31',
    'forward /a/model.py:1',
    'forward /b/model.py:1',
    '(recorded without a stack)',
    'a/b',
  ];
  assert.deepEqual(briefly(names), [
    'keep_history metrics.py:10',
    '+1.3 MiB forward model.py:31',
    'forward /a/model.py:1',
    'forward /b/model.py:1',
    '(recorded without a stack)',
    'a/b',
  ]);
});
