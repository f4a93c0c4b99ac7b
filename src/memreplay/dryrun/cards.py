"""Describe the fake GPU to its driver."""

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
    """Return the environment variables that gpu/card.c reads.

    `cuda`: torch's CUDA version. `count`: number of cards. `bytes`: each card's memory, if it isn't
    the default. `lag`: number of queries until an event is ready.
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
        **card.outside._asdict(),
        **limits._asdict(),
        "l2": card.l2,
        "bus_width": card.bus_width,
        "lag": lag,
    }
    return {
        "MEMREPLAY_GPU": ";".join(f"{key}={value}" for key, value in said.items()),
        "MEMREPLAY_GPU_NAME": card.name,
    }
