import assert from 'node:assert/strict';
import test from 'node:test';
import { cardName, cardWithin } from '../../src/ui/card.js';

test('the axis ends at the card if the highest bytes are at least half of it', () => {
  const card = { bytes: 100, known: true, text: '' };
  assert.deepEqual(
    [49, 50, 99, 200].map((highest) => cardWithin(card, highest)),
    [0, 100, 100, 100],
  );
  assert.equal(cardWithin(null, 99), 0);
});

test('a card of unknown size has at least as much', () => {
  assert.equal(cardName({ bytes: 1 << 30, known: true, text: '' }), 'card: 1.0 GiB');
  assert.equal(cardName({ bytes: 1 << 30, known: false, text: '' }), 'card: at least 1.0 GiB');
});
