"""Find each allocation's origin with slow, simple code: one allocation after another, searching the
whole live set.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

from memreplay.analysis.categories.origins import (
    BEFORE,
    CAST,
    EITHER_CAST,
    EXIT,
    LOWER,
    NO_PYTHON,
    WEIGHT_CAST,
)
from tests import oracle
from tests.oracle import FrameTuple, Lifetime

WEIGHTS = ("parameters", "buffers")
NEITHER = ("optimizer state", "backward", "NCCL")
EITHER = ("unknown", "FSDP/DDP")


class Recorded:
    """Facts about a snapshot, computed once."""

    def __init__(self, snapshot: Any) -> None:
        self.any_events = any(
            oracle.trace_of(snapshot, device) for device in oracle.devices(snapshot)
        )
        self.any_stacks = any(
            event.get("frames") for trace in oracle.traces_of(snapshot) for event in trace
        )
        self.stacks_at_end = any(
            frames
            for segment in oracle.segments_of(snapshot)
            for frames in (
                segment.get("frames"),
                *(block.get("frames") for block in segment["blocks"]),
            )
        )
        self.only_python = only_python(snapshot)


def plain_origin(recorded: Recorded, one: Lifetime) -> str | None:
    """Return the origin of an allocation that isn't a cast."""
    if one.alloc_index < 0:
        return BEFORE if not one.frames and recorded.any_events else None
    return NO_PYTHON if not one.frames and recorded.only_python else None


def only_python(snapshot: Any) -> bool:
    """Return whether there are stacks, and all of them are Python's."""
    blocks = [
        block for segment in oracle.segments_of(snapshot) for block in segment.get("blocks", ())
    ]
    events = [event for trace in oracle.traces_of(snapshot) for event in trace]
    history = [one for block in blocks for one in block.get("history", ())]
    rows = (*blocks, *history, *events)
    names = [frame["name"] for one in rows for frame in one.get("frames", ())]
    return any(event.get("frames") for event in events) and not any("::" in one for one in names)


def origins(snapshot: Any, device: int, category: Any) -> dict[int, str | None]:
    """Return origins by alloc event, for allocations in the recording. `category` returns a
    Lifetime's category by its stack.
    """
    replayed = oracle.replay(snapshot, device)
    events = oracle.trace_of(snapshot, device)
    recorded = Recorded(snapshot)
    found: dict[int, str | None] = {}
    sure: dict[FrameTuple, Counter[str | None]] = {}
    for one in sorted(replayed.lifetimes, key=lambda one: one.alloc_index):
        if one.alloc_index < 0:
            continue
        place = cast_at(one.frames)
        cached = one.free_index is not None and any(
            re.search(EXIT, f"{frame['filename']}:{frame['name']}")
            for frame in events[one.free_index].get("frames", ())
        )
        if place is None:
            found[one.alloc_index] = (
                WEIGHT_CAST if cached and recorded.only_python else plain_origin(recorded, one)
            )
            continue
        told = WEIGHT_CAST if cached else by_sources(replayed, one, category)
        found[one.alloc_index] = told
        sure.setdefault(place, Counter())[told] += 1
    known = any(
        place[2] and of_weights(sure[place][WEIGHT_CAST], sure[place][None]) for place in sure
    )
    for one in replayed.lifetimes:
        place = cast_at(one.frames)
        if one.alloc_index >= 0 and place is not None and place[2]:
            weights, others = sure[place][WEIGHT_CAST], sure[place][None]
            either = found[one.alloc_index] == EITHER_CAST
            if of_weights(weights, others):
                found[one.alloc_index] = WEIGHT_CAST
            elif either and (of_weights(others, weights) or (known and not weights)):
                found[one.alloc_index] = None
    return found


def of_weights(weights: int, others: int) -> bool:
    """Return whether a call site casts weights, given the numbers of its certain casts."""
    return weights > 0 and others * 16 <= weights


def by_sources(replayed: oracle.OracleReplay, cast: Lifetime, category: Any) -> str | None:
    weights = activations = 0
    for one in replayed.live_at(cast.alloc_index):
        if one is not cast and one.size == 2 * cast.size and cast_at(one.frames) is None:
            its = category(one)
            if its in WEIGHTS or (one.alloc_index < 0 and its in EITHER):
                weights += 1
            elif its in EITHER:
                weights, activations = weights + 1, activations + 1
            elif its not in NEITHER:
                activations += 1
    if not weights:
        return None
    return EITHER_CAST if activations else WEIGHT_CAST


@cache  # cached, because real files have few stacks
def cast_at(frames: tuple[FrameTuple, ...]) -> FrameTuple | None:
    """Return the frame that casts an operator's argument, which must have low precision."""
    if any(re.search(LOWER, said(frame)) for frame in frames):
        for frame in frames:
            if re.search(CAST, said(frame)):
                return frame
    return None


def said(frame: FrameTuple) -> str:
    """Return `file:function`, the text in which patterns are searched."""
    function, file, _ = frame
    return f"{file}:{function}"
