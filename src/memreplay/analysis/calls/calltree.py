"""Live sets as call trees, from the outermost or the innermost frame."""

# No `from __future__ import annotations`, because annotations declare options and are read on every
# start.
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
    """Options of the call tree: whether to show one, how much of it, and from which end."""

    tree: Annotated[
        bool,
        Opt(
            "Show what held memory as a call tree, outermost call first, instead of groups.",
            group=OUTPUT,
            brief="Show a call tree instead of groups.",
        ),
    ] = False
    depth: Annotated[
        int,
        Opt(
            "With --tree: show only this many levels; 0 for all.",
            "N",
            least=0,
            needs="tree",
            group=OUTPUT,
            rare=True,
        ),
    ] = 0
    """Number of levels; 0 for all."""
    tree_share: Annotated[
        float,
        Opt(
            "With --tree: show only calls that hold at least this share.",
            "SHARE",
            parse=parse_fraction,
            least=0,
            most=1,
            shown="1%",
            needs="tree",
            group=OUTPUT,
            rare=True,
        ),
    ] = 0.01
    """Minimum share of the live set's bytes, 0.0 to 1.0, for a call to be shown."""
    inverted: Annotated[
        bool,
        Opt(
            "With --tree: start at the innermost frame and go outward to its callers.",
            needs="tree",
            group=OUTPUT,
            rare=True,
        ),
    ] = False
    """Start at the innermost frame and go outward to its callers."""
    whole_stacks: bool = False
    """Whether the tree includes frames outside the user's code."""

    def check(self, selection: "Selection") -> None:
        """Raise UsageError if the options contradict each other or the selection."""
        if self.tree and (selection.measure == "reserved" or selection.by is not None):
            raise UsageError(
                "--tree groups by call stack and has no reserved bytes: leave out --by and"
                " --measure reserved"
            )


def call_tree(usage: "Usage", event: int, grouper: "Grouper", options: TreeOptions) -> CallTree:
    """Return the live set after an event as a tree."""
    dimensions = grouper.dimensions
    live = usage.listed(event)
    whole = usage.bytes_at(event)
    least = math.ceil(whole * options.tree_share)
    rows = _groups.call_tree(
        dimensions.keys(usage, "stack"),
        live,
        usage.native,
        options.whole_stacks,
        options.depth,
        least,
        options.inverted,
    )
    # For each row: the total bytes and the number of the callees that are shown.
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
