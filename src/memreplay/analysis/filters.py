"""A measure of some allocations alone: those that pass the filters."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from memreplay import _groups
from memreplay.analysis.patterns import bits_of_frames, compiled
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay._timeline import Measure
    from memreplay.model import Filters
    from memreplay.replay import Usage
    from memreplay.snapshot import Snapshot

_INCLUDED, _EXCLUDED = 1, 2


class Filtering:
    """The filters made ready for one snapshot; classifies its frames once."""

    def __init__(self, snap: Snapshot, filters: Filters) -> None:
        if filters.baseline and filters.no_baseline:
            raise UsageError("--only-baseline and --no-baseline leave nothing: give one of them")
        self.filters = filters
        self._ranks = bytes(snap.native.n_strings)
        self._frames: array[int] | None = None
        if filters.include or filters.exclude:
            self._frames = _bits_of_frames(snap, filters)

    def filtered(self, usage: Usage) -> Usage:
        """The measure of the allocations that pass. Raises UsageError for reserved memory."""
        if usage.measure == "reserved":
            raise UsageError("reserved memory is of segments: filters are of allocations")
        return usage.only(self._kept)

    def _kept(self, usage: Usage, measure: Measure) -> Measure:
        filters = self.filters
        if filters.min_bytes or filters.live_at_end or filters.baseline or filters.no_baseline:
            measure.narrow(
                filters.min_bytes, filters.live_at_end, filters.baseline, filters.no_baseline
            )
        if self._frames is not None:
            nothing = bytes(8 * len(self._frames))
            keys = _groups.rule_keys(
                usage.replay.native, self._frames, nothing, 0, self._ranks, self._ranks
            )
            keys.meet()
            wanted = bytes(map(self._passes, memoryview(keys.names()).tolist()))
            keys.keep(measure, wanted)
        return measure

    def _passes(self, bits: int) -> bool:
        return not bits & _EXCLUDED and (not self.filters.include or bool(bits & _INCLUDED))


def _bits_of_frames(snap: Snapshot, filters: Filters) -> array[int]:
    """Of each frame, whether any pattern is found in its `file:function`."""
    patterns = [
        (bit, compiled(pattern, repr(pattern)))
        for bit, every in ((_INCLUDED, filters.include), (_EXCLUDED, filters.exclude))
        for pattern in every
    ]
    return bits_of_frames(snap, patterns)
