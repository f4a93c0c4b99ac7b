"""Live sets as trees of calls, from the outermost inward or from what allocates outward."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
import math
from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.groups.tree import Call, CallTree
from memreplay.analysis.selecting.parsing import parse_fraction
from memreplay.analysis.selecting.selection import OUTPUT
from memreplay.declared import Opt, Options
from memreplay.engine.query import _groups
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.snapshot.replay import Usage


class TreeOptions(Options, frozen=True):
    """Whether who held memory is shown as a tree of calls, how much of it, and from which end."""

    tree: Annotated[
        bool,
        Opt(
            "Show who held it as a tree of calls, the outermost first, instead of groups.",
            group=OUTPUT,
            brief="Show a tree of calls instead of groups.",
        ),
    ] = False
    tree_depth: Annotated[
        int,
        Opt(
            "With --tree: show only this many levels; 0 for all.",
            "N",
            flag="--depth",
            least=0,
            group=OUTPUT,
            rare=True,
        ),
    ] = 0
    """How many levels; 0 for all."""
    tree_share: Annotated[
        float,
        Opt(
            "With --tree: only calls that hold at least this share.",
            "SHARE",
            parse=parse_fraction,
            least=0,
            most=1,
            shown="1%",
            group=OUTPUT,
            rare=True,
        ),
    ] = 0.01
    """The least share of the whole that a call must hold to be there, 0.0 to 1.0."""
    inverted: Annotated[
        bool,
        Opt(
            "With --tree: from what allocates outward to its callers.",
            group=OUTPUT,
            rare=True,
        ),
    ] = False
    """From the innermost frame outward to its callers."""
    whole_stacks: bool = False
    """Whether the tree also has the frames that are not the user's."""

    def check(self, selection: "Selection") -> None:
        """Raise UsageError where these contradict each other, or what is selected."""
        if self.inverted and not self.tree:
            raise UsageError("--inverted turns a tree of calls around: give --tree, too")
        if self.tree and (selection.measure == "reserved" or selection.by is not None):
            raise UsageError("a tree shows call stacks: leave out --by, and --measure reserved")


def call_tree(usage: "Usage", event: int, grouper: "Grouper", options: TreeOptions) -> CallTree:
    """The live set after an event as a tree."""
    dimensions = grouper.dimensions
    live = usage.listed(event)
    whole = usage.bytes_at(event)
    least = math.ceil(whole * options.tree_share)
    rows = _groups.call_tree(
        dimensions.keys(usage, "stack"),
        live,
        usage.native,
        options.whole_stacks,
        options.tree_depth,
        least,
        options.inverted,
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
            grouper.known.call_label(ids, level, inverted=options.inverted)
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
    return CallTree(calls=tuple(calls), hidden_bytes=whole - first_level, inverted=options.inverted)
