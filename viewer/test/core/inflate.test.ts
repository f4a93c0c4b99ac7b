import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { bytesOf, inflated } from '../../src/core/inflate.js';
import { random } from '../random.js';

test('base64 of any length', () => {
  const next = random(2);
  for (let length = 0; length < 200; length++) {
    const bytes = Uint8Array.from({ length }, () => next(256));
    assert.deepEqual(bytesOf(Buffer.from(bytes).toString('base64')), bytes);
  }
  for (const wrong of ['A', 'AAA', 'AA\nA', 'AA=A', '====', 'AAé=', 'AA Ā', 'AAA\u0141']) {
    assert.throws(() => bytesOf(wrong), /damaged/, wrong);
  }
});

test('columns are as long as the page says', async () => {
  const next = random(3);
  const bytes = Uint8Array.from({ length: 300_000 }, () => next(7));
  const text = deflateSync(bytes).toString('base64');
  assert.deepEqual(await inflated(text, bytes.length), bytes);
  await assert.rejects(inflated(text, bytes.length - 1), /damaged/);
  await assert.rejects(inflated(text, bytes.length + 1), /damaged/);
  await assert.rejects(inflated(text.slice(0, 40_000), bytes.length));
});
