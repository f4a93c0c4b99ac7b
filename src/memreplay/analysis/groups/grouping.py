"""Live sets as groups for people, by any of the ways of `dimensions`, or by several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

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
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


class Grouper:
    """Groups live sets of one snapshot; classifies its strings and frames once.

    With `fold` stacks that look alike to people are one group by stack: those of the same frames of
    code, that differ in plumbing alone. Its frames are those of one of them. With `guess` what
    memreplay's recorder noted does not count, and `kept` are the frames that do.
    """

    def __init__(
        self,
        snap: Snapshot,
        by: By,
        rules: tuple[Rule, ...] | None = None,
        *,
        fold: bool = False,
        guess: bool = False,
        kept: FramesKept = "all",
    ) -> None:
        self.snap = snap
        self.by = by
        self.ways = ways_of(by)
        self.known = Known(
            snap, DEFAULT_RULES if rules is None else rules, fold=fold, guess=guess, kept=kept
        )
        self.dimensions = Dimensions(self.known)
        self.file_rank, self.function_rank = self.known.ranks

    def groups(self, usage: Usage, event: int, top: int) -> tuple[tuple[Group, ...], int, int]:
        """(the `top` largest groups, how many there are, allocations in all) live after `event`."""
        return self.keyed_groups(usage, event, top)[1:]

    def holders(
        self, usage: Usage, event: int, top: int
    ) -> tuple[tuple[Group, ...], int, int, tuple[Part, ...]]:
        """As `groups`, and after it the parts: by pool or stream alone groups are made of them.
        Other groups of reserved memory are of its segments, by who asked for them."""
        if is_of_parts(self.by):
            parts = usage.parts(self.by, event)
            return *self.parts(parts, top), parts
        if usage.measure == "reserved":
            from memreplay.analysis.groups.reserving import reserved_groups

            return *reserved_groups(self.dimensions, self.by, usage, event, top), ()
        return *self.groups(usage, event, top), ()

    def held(self, usage: Usage, event: int, top: int, whole: int) -> Holders:
        """The same as a part of a result: `whole` is how many bytes all groups have together."""
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

    def parts(self, parts: tuple[Part, ...], top: int) -> tuple[tuple[Group, ...], int, int]:
        """The same of pools or streams: those that hold anything."""
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
        """One group of `keys`, by its name."""
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
        """As `groups`, after the numbers by which `Usage.layers` knows them."""
        keys = self.keys(usage)
        found, total, whole, count = keys.sums(usage.listed(event), usage.native, top)
        groups = (self.group(usage, name, n, c, whole) for name, _, n, c, _ in found)
        return [number for _, number, _, _, _ in found], tuple(groups), total, count

    def highest_groups(
        self, usage: Usage, event: int, top: int
    ) -> tuple[list[tuple[int, Group, int, int]], int]:
        """([(number, group, bytes, event)], how many) of the `top` groups that hold most at any
        time: the number by which `Usage.layers` knows them, what they hold after `event`, and the
        most that they ever hold with the first event after which they do."""
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
        """Which group each allocation is in."""
        return self.dimensions.keys_of_all(usage, self.ways)

    def stack_name(self, stack: int, *, carried: bool) -> int:
        """The name by stack of the group that an allocation, or a carried block, is in."""
        if stack:  # 0 is the stack of no frames
            return stack
        return _groups.CARRIED if carried else _groups.NO_STACK

    def stack_group(self, usage: Usage, name: int, size: int, count: int, share: float) -> Group:
        """What has one stack, however groups are made."""
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
        """What one stack is called, however groups are made."""
        return self.dimensions.label(usage, "stack", name).text

    def label_frame(self, usage: Usage, stack: int) -> int:
        """The frame that a stack is put down to; ABSENT_ID for the stack of no frames."""
        return self.known.label_frame(usage, stack)
