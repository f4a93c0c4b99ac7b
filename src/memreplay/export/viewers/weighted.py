"""Weight stacks by the bytes that they hold at a moment, or by the bytes that they allocated."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.code.naming import name_of_frame
from memreplay.analysis.code.plumbing import LIBRARY
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.engine.query import _churn, _groups
from memreplay.errors import UsageError
from memreplay.export.viewers.records import DeviceStacks, StacksReport, WeightedStack, What
from memreplay.snapshot.model import Frame, When

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


@takes(selection=Selection)
def stacks_report(
    snap: Snapshot,
    selection: Selection,
    *,
    what: What = "live",
    when: When | None = None,
    all_frames: bool = False,
) -> StacksReport:
    """Return each device's stacks: live at `when` (None: its peak), or allocated over the selected
    events.

    Unless `all_frames`, paths only have the user's frames or, if there are none, the frame that the
    stack is attributed to. A device without such a moment is left out. Raises UsageError if no
    device has it, for reserved memory, and for an unknown pool or stream.
    """
    if selection.measure == "reserved":
        raise UsageError("reserved memory has no stacks; choose another --measure")
    usages = chosen_usages(snap, selection)
    paths = Paths(snap, all_frames)
    found: list[DeviceStacks] = []
    missing: list[str] = []
    for usage in usages:
        if what == "allocated":
            found.append(paths.allocated(usage))
            continue
        try:
            event = resolve(snap, usage, when or When("peak", 1))
        except UsageError as error:
            missing.append(str(error))
        else:
            found.append(paths.live(usage, event))
    if missing and not found:
        raise UsageError(missing[0])
    return StacksReport(
        file=snap.file,
        measure=selection.measure,
        what=what,
        all_frames=all_frames,
        frames=tuple(paths.frames),
        devices=tuple(found),
        missing=tuple(dict.fromkeys(map(str, missing))),
        truncated=snap.truncation is not None,
    )


class Paths:
    """One snapshot's call paths. Frames are numbered on first use."""

    def __init__(self, snap: Snapshot, all_frames: bool) -> None:
        self.snap = snap
        self.all_frames = all_frames
        self.grouper = Grouper(snap, "stack")
        self.frames: list[Frame] = []
        self._number: dict[Hashable, int] = {}
        ranks = self.grouper.file_rank
        code = snap.code
        self._own = bytes(ranks[code.frame(i)[1]] <= LIBRARY for i in range(code.frames))

    def live(self, usage: Usage, event: int) -> DeviceStacks:
        """Return the live set after an event."""
        keys = self.grouper.keys(usage)
        rows = keys.sums(usage.listed(event), usage.native, 0)[0]
        return self._made(usage, event, [(name, size, count) for name, _, size, count, _ in rows])

    def allocated(self, usage: Usage) -> DeviceStacks:
        """Return the allocations made during the selected events."""
        rows = _churn.allocations(usage.native, self.grouper.keys(usage), "bytes", 0, 0)["rows"]
        replay = usage.replay
        named = [(row[0], row[2], row[1]) for row in rows]
        return self._made(usage, replay.start + replay.events, named)

    def _made(self, usage: Usage, event: int, rows: Sequence[tuple[int, int, int]]) -> DeviceStacks:
        """Build the stacks from (stack name, bytes, count) rows."""
        sums: dict[tuple[int, ...], list[int]] = {}
        for name, size, count in rows:
            one = sums.setdefault(self._path(usage, name), [0, 0])
            one[0] += size
            one[1] += count
        # The sort is stable, so ties stay in the order of first use.
        ordered = sorted(sums.items(), key=lambda item: -item[1][0])
        replay = usage.replay
        return DeviceStacks(
            device=replay.device,
            exactness=verdict(self.snap, usage).exactness,
            event_index=event,
            time_us=replay.time_us(event),
            bytes=sum(size for size, _ in sums.values()),
            count=sum(count for _, count in sums.values()),
            stacks=tuple(WeightedStack(path, *one) for path, one in ordered),
        )

    def _path(self, usage: Usage, stack: int) -> tuple[int, ...]:
        if stack in (_groups.CARRIED, _groups.NO_STACK):
            label = self.grouper.dimensions.label(usage, "stack", stack).text
            return (self._numbered(label, Frame(label, "", 0)),)
        ids: Sequence[int] = self.snap.code.stack(stack)
        if not self.all_frames:
            own = self._own
            if not (code := [i for i in ids if own[i]]):
                # Use the autograd node, because autograd's threads run no user code.
                at = self.grouper.label_frame(usage, stack)
                name = name_of_frame(self.snap.frame(at))
                return (self._numbered(name, Frame(name.function, name.file, name.line)),)
            ids = code
        number = self._number
        return tuple(
            [number[i] if i in number else self._numbered(i, self.snap.frame(i)) for i in ids[::-1]]
        )

    def _numbered(self, key: Hashable, frame: Frame) -> int:
        if key not in self._number:
            self._number[key] = len(self.frames)
            self.frames.append(frame)
        return self._number[key]
