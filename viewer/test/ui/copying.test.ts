// Tables as CSV: cells that hold anything come back, and no cell is a formula.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvOf } from '../../src/ui/copying.js';

test('commas, quotes and lines are quoted', () => {
  assert.equal(csvOf([['a,b', 'c"d', 'e\nf', 5]]), '"a,b","c""d","e\nf",5\r\n');
});

test('what a spreadsheet would run is text', () => {
  assert.equal(csvOf([['=1+1', '+x', '-y', '@z', -5]]), "'=1+1,'+x,'-y,'@z,-5\r\n");
});
