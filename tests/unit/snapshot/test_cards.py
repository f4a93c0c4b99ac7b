"""cards: CUDA's own memory on a card, for simulations, searches for cards and dry runs."""

from __future__ import annotations

import pytest

from memreplay.snapshot.cards import CARDS, context_bytes, find, usable_bytes

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_known_card_has_its_own_context_size(card) -> None:  # type: ignore[no-untyped-def]
    assert context_bytes(card.bytes, card.name, card.bytes) == card.context_bytes
    # A known card has its own context size for any memory size that a dry run reports.
    assert context_bytes(1000 * MIB, card.name, 1000 * MIB) == card.context_bytes


def test_card_of_another_size_has_the_context_size_of_the_nearest_card() -> None:
    h200 = find("H200")
    nearest = min(CARDS, key=lambda one: abs(one.bytes - 80 * GIB))
    assert context_bytes(80 * GIB, h200.name, h200.bytes) == nearest.context_bytes
    assert context_bytes(80 * GIB) == nearest.context_bytes
    assert context_bytes(3 * GIB, h200.name, h200.bytes) == h200.context_bytes  # no similar name


def test_usable_memory_excludes_the_context() -> None:
    assert usable_bytes(1000 * MIB, 400 * MIB) == 600 * MIB
    assert usable_bytes(100 * MIB, 400 * MIB) == 0
