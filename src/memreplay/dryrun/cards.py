"""The card that a dry run stands for, as its fake driver reads it."""

from __future__ import annotations

from typing import Any

from memreplay.snapshot.cards import CARDS, EXACT, OF_ANOTHER, TO_GIB, TO_MIB, Card, find

__all__ = ["CARDS", "EXACT", "OF_ANOTHER", "TO_GIB", "TO_MIB", "Card", "environment", "find"]


def environment(
    card: Card,
    *,
    cuda: int,
    count: int = 1,
    bytes: int | None = None,  # noqa: A002 - what it is called in gpu/card.c
    lag: int = 0,
) -> dict[str, str]:
    """The variables that gpu/card.c reads.

    `cuda` is the CUDA that torch was built with, `count` how many such cards there are, `bytes` the
    memory of each where it is not the card's own, `lag` after how many questions an event is ready.
    """
    limits = card.limits
    said: dict[str, Any] = {
        "bytes": card.bytes if bytes is None else bytes,
        "context": card.context_bytes,
        "cuda": cuda,
        "count": count,
        "major": card.major,
        "minor": card.minor,
        "sms": card.sms,
        **limits._asdict(),
        "l2": card.l2,
        "bus_width": card.bus_width,
        "lag": lag,
    }
    return {
        "MEMREPLAY_GPU": ";".join(f"{key}={value}" for key, value in said.items()),
        "MEMREPLAY_GPU_NAME": card.name,
    }
