"""Live sets as groups for people: by stack, frame, file, function, pool or stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay import _timeline
from memreplay.analysis.plumbing import ranks
from memreplay.model import By, Frame, Group, Part

if TYPE_CHECKING:
    from memreplay.replay import Usage
    from memreplay.snapshot import Snapshot

# What stands for the groups that have no stack.
BEFORE_RECORDING = "(allocated before the recording)"
NO_EVENTS = "(no events were recorded)"
NO_STACK = "(recorded without a stack)"


class Grouper:
    """Groups live sets of one snapshot; classifies its strings once."""

    def __init__(self, snap: Snapshot, by: By) -> None:
        self.snap = snap
        self.by = by
        self.file_rank, self.function_rank = ranks(snap.native)
        self._spelled: dict[int, tuple[str, tuple[Frame, ...], tuple[int, ...]]] = {}

    def groups(self, usage: Usage, event: int, top: int) -> tuple[tuple[Group, ...], int, int]:
        """(the `top` largest groups, how many there are, allocations in all) live after `event`."""
        _, groups, total, count = self.keyed_groups(usage, event, top)
        return groups, total, count

    def keyed_groups(
        self, usage: Usage, event: int, top: int
    ) -> tuple[list[int], tuple[Group, ...], int, int]:
        """The same, and before it the key of each group, by which the engine knows it."""
        found, total, whole, count = usage.groups(
            event, self.by, self.file_rank, self.function_rank, top
        )
        groups = tuple(self.group(usage, *row, whole) for row in found)
        return [key for key, _, _ in found], groups, total, count

    def parts(self, parts: tuple[Part, ...], top: int) -> tuple[tuple[Group, ...], int, int]:
        """The same of pools or streams: those that hold anything."""
        whole = sum(part.bytes for part in parts)
        there = [part for part in parts if part.bytes or part.count]
        groups = tuple(
            Group(part_label(part, self.by), part.bytes, part.count, part.bytes / whole)
            for part in (there[:top] if top else there)
            if whole
        )
        return groups, len(there), sum(part.count for part in there)

    def stack_key(self, stack: int, *, baseline: bool) -> int:
        """The key by stack of an allocation, or of a baseline block."""
        if stack:  # 0 is the stack of no frames
            return stack
        return _timeline.BEFORE_RECORDING if baseline else _timeline.NO_STACK

    def label_of(self, usage: Usage, key: int) -> str:
        """The label of a key by stack, however groups are made."""
        if key in (_timeline.BEFORE_RECORDING, _timeline.NO_STACK):
            return self.group(usage, key, 0, 0, 0).label
        return self._label(self.label_frame(usage, key))

    def group(self, usage: Usage, key: int, size: int, count: int, whole: int) -> Group:
        """One group by its key: a stack, frame or string id, or one of those without a stack."""
        share = size / whole if whole else 0.0
        snap = self.snap
        if self.by == "stack" or key in (_timeline.BEFORE_RECORDING, _timeline.NO_STACK):
            return self.stack_group(usage, key, size, count, share)
        if self.by == "frame":
            user = () if self._is_plumbing(key) else (0,)
            return Group(self._label(key), size, count, share, (snap.frame(key),), user)
        name = snap.native.string(key)
        if self.by == "file":
            user = () if self.file_rank[key] else (0,)
            return Group(name or "(no file)", size, count, share, (Frame("", name, 0),), user)
        return Group(name or "(no function)", size, count, share, (Frame(name, "", 0),))

    def stack_group(self, usage: Usage, key: int, size: int, count: int, share: float) -> Group:
        """What has one stack: its id, NO_STACK or BEFORE_RECORDING of `_timeline`."""
        if key == _timeline.BEFORE_RECORDING:
            why = BEFORE_RECORDING if self.snap.has_events else NO_EVENTS
            return Group(why, size, count, share)
        if key == _timeline.NO_STACK:
            return Group(NO_STACK, size, count, share)
        if key not in self._spelled:
            # The same few stacks are in one live set after the other.
            ids = self.snap.native.stack(key)
            user = tuple(i for i, f in enumerate(ids) if not self._is_plumbing(f))
            label = self._label(self.label_frame(usage, key))
            self._spelled[key] = (label, tuple(map(self.snap.frame, ids)), user)
        label, frames, user = self._spelled[key]
        return Group(label, size, count, share, frames, user)

    def label_frame(self, usage: Usage, stack: int) -> int:
        """The frame that a stack is put down to; ABSENT_ID for the stack of no frames."""
        return usage.native.label_frame(stack, self.file_rank, self.function_rank)

    def _is_plumbing(self, frame: int) -> bool:
        return self.file_rank[self.snap.native.frame(frame)[1]] != 0

    def _label(self, frame: int) -> str:
        at = self.snap.frame(frame)
        if not at.line and at.file in ("", "??"):
            return at.function
        return f"{at.function} {at.file}:{at.line}" if at.line else f"{at.function} {at.file}"


def part_label(part: Part, by: By) -> str:
    """What a pool or stream is called."""
    return stream_label(part.stream) if by == "stream" else pool_label(part.pool)


def stream_label(stream: int | None) -> str:
    """What a stream is called; None where it is not known."""
    if stream is None:
        return "(stream not known)"
    return "default stream" if stream == 0 else f"stream {stream}"


def pool_label(pool: tuple[int, int] | None) -> str:
    """What a pool is called; None where it is not known."""
    if pool is None:
        return "(pool not known)"
    if pool == (0, 0):
        return "default pool"
    first, second = pool
    kind = "graph pool" if first else "MemPool"
    return f"{kind} {first}:{second}"
