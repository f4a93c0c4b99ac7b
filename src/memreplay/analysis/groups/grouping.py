"""Group live sets by any key of `dimensions`, or by several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.groups.records import Holders
from memreplay.analysis.groups.ways import is_of_parts, ways_of
from memreplay.analysis.groups.ways.base import Known
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.engine.query import _groups
from memreplay.snapshot.model import By, Group, Part

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.groups.holding import LiveHolders
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


class Evidence(Struct, frozen=True):
    """The parts of a recording to use. `guess`: ignore recorded notes. `kept`: the kinds of frames
    to use.
    """

    guess: bool = False
    kept: FramesKept = "all"


ALL = Evidence()


class Grouper:
    """Groups live sets of one snapshot. Strings and frames are classified only once.

    `fold`: when grouping by stack, merge stacks that only differ in plumbing, and keep the frames
    of one of them.
    """

    def __init__(
        self,
        snap: Snapshot,
        by: By,
        rules: tuple[Rule, ...] | None = None,
        *,
        fold: bool = False,
        evidence: Evidence = ALL,
    ) -> None:
        self.snap = snap
        self.by = by
        self.ways = ways_of(by)
        self.known = Known(
            snap,
            DEFAULT_RULES if rules is None else rules,
            fold=fold,
            guess=evidence.guess,
            kept=evidence.kept,
        )
        self.dimensions = Dimensions(self.known)
        self.file_rank, self.function_rank = self.known.ranks

    def groups(self, usage: Usage, event: int, top: int) -> tuple[tuple[Group, ...], int, int]:
        """Return (`top` largest groups, number of groups, number of allocations) of the live set
        after `event`.
        """
        return self.keyed_groups(usage, event, top)[1:]

    def holders(
        self, usage: Usage, event: int, top: int
    ) -> tuple[tuple[Group, ...], int, int, tuple[Part, ...]]:
        """Like `groups`, but also for reserved memory, pools and streams. The last item is the
        device's parts from which groups of pools or streams are built.

        With other keys, reserved memory is grouped by the code that requested the segments.
        """
        if is_of_parts(self.by):
            parts = usage.parts(self.by, event)
            return *self.parts(parts, top), parts
        if usage.measure == "reserved":
            from memreplay.analysis.groups.reserving import reserved_groups

            return *reserved_groups(self.dimensions, self.by, usage, event, top), ()
        return *self.groups(usage, event, top), ()

    def held(self, usage: Usage, event: int, top: int, whole: int) -> Holders:
        """Return the groups as the fields that all reports share. `whole`: bytes of all groups."""
        groups, total, count, parts = self.holders(usage, event, top)
        return Holders(
            live_count=count,
            groups_total=total,
            rest_bytes=whole - sum(group.bytes for group in groups),
            rest_count=count - sum(group.count for group in groups),
            groups=groups,
            pools=parts if self.by == "pool" else UNSET,
            streams=parts if self.by == "stream" else UNSET,
        )

    def held_by(self, usage: Usage, event: int, top: int) -> LiveHolders | None:
        """Return which Python objects kept the live set alive; None if the file doesn't say."""
        from memreplay.analysis.groups.holding import live_holders  # imported late: rarely used

        return live_holders(self, usage, event, top)

    def parts(self, parts: tuple[Part, ...], top: int) -> tuple[tuple[Group, ...], int, int]:
        """Return a group for each pool or stream that holds anything."""
        whole = sum(part.bytes for part in parts)
        there = [part for part in parts if part.bytes or part.count]
        groups = tuple(
            Group(
                label=part_label(part, self.by),
                bytes=part.bytes,
                count=part.count,
                share=part.bytes / whole,
            )
            for part in (there[:top] if top else there)
            if whole
        )
        return groups, len(there), sum(part.count for part in there)

    def group(self, usage: Usage, name: int, size: int, count: int, whole: int) -> Group:
        """Return the group with this number in `keys`."""
        labels = self.dimensions.labels(usage, self.ways, name)
        shown = next((label for label in reversed(labels) if label.frames), labels[0])
        text = ", ".join(label.text for label in labels)
        share = size / whole if whole else 0.0
        of = labels if len(labels) > 1 else ()
        return Group(
            label=text,
            bytes=size,
            count=count,
            share=share,
            frames=shown.frames,
            user=shown.user,
            of=of,
            libraries=shown.libraries,
            note=shown.note,
        )

    def keyed_groups(
        self, usage: Usage, event: int, top: int
    ) -> tuple[list[int], tuple[Group, ...], int, int]:
        """Return the groups' numbers in `Usage.layers`, followed by the result of `groups`."""
        keys = self.keys(usage)
        found, total, whole, count = keys.sums(usage.listed(event), usage.native, top)
        groups = (self.group(usage, name, n, c, whole) for name, _, n, c, _ in found)
        return [number for _, number, _, _, _ in found], tuple(groups), total, count

    def highest_groups(
        self, usage: Usage, event: int, top: int
    ) -> tuple[list[tuple[int, Group, int, int]], int]:
        """Return the `top` groups with the highest peaks, and the number of groups.

        Each group is (number in `Usage.layers`, group after `event`, its peak, first event at its
        peak).
        """
        keys = self.keys(usage)
        bests, total = usage.bests(keys, top)
        wanted = {number for _, number, _, _ in bests}
        found, _, whole, _ = keys.sums(usage.listed(event), usage.native, 0)
        there = {number: (n, c) for _, number, n, c, _ in found if number in wanted}
        return [
            (number, self.group(usage, name, *there.get(number, (0, 0)), whole), most, at)
            for name, number, most, at in bests
        ], total

    def keys(self, usage: Usage) -> Keys:
        """Return each allocation's group."""
        return self.dimensions.keys_of_all(usage, self.ways)

    def stack_name(self, stack: int, *, carried: bool) -> int:
        """Return the number of an allocation's or carried-over block's group by stack."""
        if stack:  # 0 is the empty stack
            return stack
        return _groups.CARRIED if carried else _groups.NO_STACK

    def stack_group(self, usage: Usage, name: int, size: int, count: int, share: float) -> Group:
        """Return the group of a stack, even if the key isn't "stack"."""
        label = self.dimensions.label(usage, "stack", name)
        return Group(
            label=label.text,
            bytes=size,
            count=count,
            share=share,
            frames=label.frames,
            user=label.user,
            of=(),
            libraries=label.libraries,
            note=label.note,
        )

    def stack_label(self, usage: Usage, name: int) -> str:
        """Return the label of a stack, even if the key isn't "stack"."""
        return self.dimensions.label(usage, "stack", name).text

    def label_frame(self, usage: Usage, stack: int) -> int:
        """Return the frame that a stack is attributed to; ABSENT_ID for the empty stack."""
        return self.known.label_frame(usage, stack)
