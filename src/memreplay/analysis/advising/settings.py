"""Advise on allocator settings, based on a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay

EXPANDABLE = "expandable_segments:True"
# Smaller gains are ignored, because CUDA libraries' memory varies by 64 MiB between runs, and 2%
# isn't worth changing a job for.
LEAST_BYTES, LEAST_SHARE = 64 << 20, 0.02
# When at least this share of reserved memory is unused, people try expandable segments, so the
# report says if these won't help.
MUCH_SHARE = 0.10
# As a share of the unused bytes. If a setting saves less, the report says that it doesn't help.
LITTLE_SHARE = 0.20


class Tried(Struct, frozen=True):
    """A simulated setting compared with the recording."""

    settings: str
    saved_bytes: int
    """Reduction of the reserved peak; negative for an increase."""
    reserved_bytes: int
    """Reserved peak in the recording."""
    fails: bool
    """Whether a request that succeeded in the recording fails in the simulation."""
    variable: str
    """The environment variable that sets it."""
    exact: bool
    """Whether the simulation is exact, that is, PyTorch's allocator would do the same."""

    @property
    def is_worth_it(self) -> bool:
        """Whether the setting saves enough to be recommended."""
        least = max(LEAST_BYTES, LEAST_SHARE * self.reserved_bytes)
        return not self.fails and self.saved_bytes >= least

    def is_useless(self, unused: int) -> bool:
        """Return whether nearly all of the `unused` bytes stay unused.

        A gain that is too large for this but too small for `is_worth_it` isn't mentioned.
        """
        if self.fails:
            return True
        return not self.is_worth_it and self.saved_bytes <= LITTLE_SHARE * unused


def expandable_segments(replay: Replay) -> Tried | None:
    """Simulate `expandable_segments`, the setting that most people try first.

    Return None if it's already on, if there is nothing to simulate, or if too little memory is
    unused to gain anything.
    """
    recorded = replay.recorded
    reserved = replay.measure("reserved").peak.bytes
    unused = unused_bytes(replay)
    if replay.settings.expandable or not replay.allocations or not reserved:
        return None
    if unused < max(LEAST_BYTES, LEAST_SHARE * reserved):
        return None
    found = replay.simulate(EXPANDABLE)
    own = recorded.own
    # If the simulation with the recorded settings doesn't reproduce the recording, use the smaller
    # gain.
    before = reserved if recorded.reproduced else min(reserved, own.reserved_peak[0])
    return Tried(
        settings=EXPANDABLE,
        saved_bytes=before - found.outcome.reserved_peak_bytes,
        reserved_bytes=reserved,
        fails=found.stopped_event is not None,
        variable=replay.backend.variable,
        exact=found.exact,
    )
