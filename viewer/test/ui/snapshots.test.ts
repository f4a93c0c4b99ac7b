// Names of two snapshots in a narrow place: the part that differs stays.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutCommon } from '../../src/ui/snapshots.js';

test('a long common beginning is left out, up to a whole word', () => {
  assert.deepEqual(withoutCommon(['big_model_memory_ctx128.pkl', 'big_model_memory_ctx1024.pkl']), [
    '…ctx128.pkl',
    '…ctx1024.pkl',
  ]);
  const names = ['transformer_step.pkl.gz', 'transformer_deeper.pkl.gz'];
  assert.deepEqual(withoutCommon(names), ['…step.pkl.gz', '…deeper.pkl.gz']);
});

test('short, equal or different names stay whole', () => {
  const long = 'a_name_that_does_not_fit_into_the_bar.pkl';
  for (const names of [['run_1.pkl', 'run_2.pkl'], [long, long], [long, 'after.pkl'], [long], []]) {
    assert.deepEqual(withoutCommon(names), names);
  }
});
