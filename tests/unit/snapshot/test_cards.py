"""cards: what CUDA takes of a card, as simulations, searches for cards and dry runs have it."""

from __future__ import annotations

import pytest

from memreplay.snapshot.cards import CARDS, context_bytes, find, usable_bytes

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_a_card_by_its_name(card) -> None:  # type: ignore[no-untyped-def]
    assert context_bytes(card.bytes, card.name, card.bytes) == card.context_bytes
    # Whatever a dry run makes of its size.
    assert context_bytes(1000 * MIB, card.name, 1000 * MIB) == card.context_bytes


def test_another_card_than_the_recordings() -> None:
    h200 = find("H200")
    nearest = min(CARDS, key=lambda one: abs(one.bytes - 80 * GIB))
    assert context_bytes(80 * GIB, h200.name, h200.bytes) == nearest.context_bytes
    assert context_bytes(80 * GIB) == nearest.context_bytes
    assert context_bytes(3 * GIB, h200.name, h200.bytes) == h200.context_bytes  # none is near


def test_usable() -> None:
    assert usable_bytes(1000 * MIB, 400 * MIB) == 600 * MIB
    assert usable_bytes(100 * MIB, 400 * MIB) == 0
