// Tables as CSV: special characters are quoted, and no cell is a formula.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvOf } from '../../src/ui/copying.js';

test('cells with commas, quotes or newlines are quoted', () => {
  assert.equal(csvOf([['a,b', 'c"d', 'e\nf', 5]]), '"a,b","c""d","e\nf",5\r\n');
});

test('formulas become text', () => {
  assert.equal(csvOf([['=1+1', '+x', '-y', '@z', -5]]), "'=1+1,'+x,'-y,'@z,-5\r\n");
});
