"""Live sets as trees of calls, from the outermost inward or from what allocates outward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memreplay.analysis.groups.tree import Call, CallTree
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage

TREE_ALONE = "a tree shows call stacks: leave out --by, and --measure reserved"


@dataclass(frozen=True, slots=True)
class TreeShape:
    """How much of a tree of calls is wanted, and from which end."""

    depth: int = 0
    """How many levels; 0 for all."""
    share: float = 0.01
    """The least share of the whole that a call must hold to be there, 0.0 to 1.0."""
    whole: bool = False
    """Also the frames that are not the user's."""
    inverted: bool = False
    """From the innermost frame outward to its callers."""


def shape_of(asked: tuple[int, float, bool] | None, *, whole: bool) -> TreeShape | None:
    """The shape of (depth, share, inverted), None where no tree is asked for."""
    if asked is None:
        return None
    depth, share, inverted = asked
    return TreeShape(depth, share, whole, inverted)


def call_tree(usage: Usage, event: int, grouper: Grouper, shape: TreeShape) -> CallTree:
    """The live set after an event as a tree."""
    dimensions = grouper.dimensions
    live = usage.listed(event)
    whole = usage.bytes_at(event)
    least = math.ceil(whole * shape.share)
    rows = _groups.call_tree(
        dimensions.keys(usage, "stack"),
        live,
        usage.native,
        shape.whole,
        shape.depth,
        least,
        shape.inverted,
    )
    # Of each row what its calls below that are shown hold, and how many they are.
    below = [[0, 0] for _ in rows]
    above: list[int] = []
    first_level = 0
    for at, (level, _, n_bytes, *_) in enumerate(rows):
        del above[level - 1 :]
        if above:
            below[above[-1]][0] += n_bytes
            below[above[-1]][1] += 1
        else:
            first_level += n_bytes
        above.append(at)
    calls = []
    for (level, ids, n_bytes, count, own, own_count, children), (shown, lines) in zip(
        rows, below, strict=True
    ):
        names = {_groups.CALL_NO_STACK: _groups.NO_STACK, _groups.CALL_CARRIED: _groups.CARRIED}
        special = names.get(ids[0])
        label = (
            dimensions.call_label(ids, level, inverted=shape.inverted)
            if special is None
            else dimensions.label(usage, "stack", special).text
        )
        frames = () if special is not None else tuple(map(grouper.snap.frame, ids))
        share = n_bytes / whole if whole else 0.0
        hidden = n_bytes - own - shown
        calls.append(
            Call(
                level=level,
                label=label,
                frames=frames,
                bytes=n_bytes,
                count=count,
                share=share,
                own_bytes=own,
                own_count=own_count,
                hidden=children - lines,
                hidden_bytes=hidden,
            )
        )
    return CallTree(calls=tuple(calls), hidden_bytes=whole - first_level, inverted=shape.inverted)
