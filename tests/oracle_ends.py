"""Find what an optimizer's step frees and which line moves buffers, with slow, simple code."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import pairwise
from typing import Any

from memreplay.analysis.categories.ends import IN_STEP
from memreplay.analysis.categories.rules import DEFAULT_RULES
from tests import oracle
from tests.oracle import FrameTuple
from tests.oracle_before import Told

(OPTIMIZER,) = (rule.frames or "" for rule in DEFAULT_RULES if rule.name == "optimizer state")


@cache
def steps_in(frames: tuple[FrameTuple, ...]) -> bool:
    """Return whether this stack is in an optimizer's step itself, not in one of its callbacks."""
    steps = [re.search(OPTIMIZER, f"{file}:{function}") for function, file, _ in frames]
    return any(steps) and not called_back(frames)


@cache
def called_back(frames: tuple[FrameTuple, ...]) -> bool:
    """Return whether this stack runs the program inside an optimizer's step."""
    program = False
    for function, file, _ in frames:
        if re.search(OPTIMIZER, f"{file}:{function}"):
            return program
        program |= function.split(".")[-1] in ("forward", "backward", "closure")
    return False


def in_step(snapshot: Any, device: int) -> dict[int, str]:
    """Return IN_STEP, by alloc event, for each block freed in the step that allocated it."""
    told = Told(snapshot, device, only_python=False)
    found: dict[int, str] = {}
    stayed = set()
    went = set()
    open_ended = []
    mine = [one for one in told.replayed.lifetimes if one.alloc_index >= 0 and steps_in(one.frames)]
    outside = sorted(
        other.alloc_index for other in told.replayed.lifetimes if not steps_in(other.frames)
    )
    inside = [i for i, _ in told.shown if steps_in(told.frames(i))]
    for one in mine:
        others = outside[bisect_right(outside, one.alloc_index) :]
        if one.free_index is None:
            if others:
                stayed.add(one.frames)
            else:
                open_ended.append(one)
            continue
        until = min(others, default=len(told.events))
        last = inside[bisect_left(inside, until) - 1]
        if not told.frees_tell and others:
            last = until - 1
        if told.events[one.free_index]["action"] != "alloc" and one.free_index <= last:
            found[one.alloc_index] = IN_STEP
            went.add(one.frames)
        else:
            stayed.add(one.frames)
    for one in open_ended:
        if one.frames in went - stayed:
            found[one.alloc_index] = IN_STEP
    return found


def buffer_lines(snapshot: Any) -> set[FrameTuple]:
    """Return the frames in `Module._apply` on the line that moves buffers."""
    blocks = [
        block for segment in oracle.segments_of(snapshot) for block in segment.get("blocks", ())
    ]
    history = [one for block in blocks for one in block.get("history", ())]
    events = [event for trace in oracle.traces_of(snapshot) for event in trace]
    stacks = [
        [(frame["name"], frame["filename"], frame["line"]) for frame in one.get("frames", ())]
        for one in (*events, *blocks, *history)
    ]

    def applies(frame: FrameTuple) -> bool:
        return frame[1].endswith("/torch/nn/modules/module.py") and frame[0].endswith("_apply")

    calls = {
        outer[2]
        for stack in stacks
        for inner, outer in pairwise(stack)
        if applies(inner) and applies(outer)
    }
    if not calls:
        return set()
    call = min(calls)
    return {
        frame
        for stack in stacks
        for frame in stack
        if applies(frame) and (42 <= frame[2] - call < 60 or 82 <= frame[2] - call <= 120)
    }
