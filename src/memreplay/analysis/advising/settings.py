"""Advice on the allocator's settings, given only as far as a simulation bears it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay

EXPANDABLE = "expandable_segments:True"
# A gain below either is left out: 64 MiB is less than libraries of CUDA differ by from one run to
# another, and 2 % is no reason to change how a job runs.
LEAST_BYTES, LEAST_SHARE = 64 << 20, 0.02
# What is unused from which on people try this setting, so that a "no" is worth saying, too.
MUCH_SHARE = 0.10
# Of what is unused: a setting that saves less hardly helps.
LITTLE_SHARE = 0.20


class Tried(NamedTuple):
    """What a setting makes of the recorded program."""

    settings: str
    saved_bytes: int
    """By how much less is reserved at the peak; below 0 for more."""
    reserved_bytes: int
    """What was reserved at the peak in the recording."""
    fails: bool
    """Whether a request fails that did not in the recording."""
    variable: str
    """The environment variable that sets it."""
    exact: bool
    """Whether PyTorch's allocator would do just that."""

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves enough to be advised."""
        least = max(LEAST_BYTES, LEAST_SHARE * self.reserved_bytes)
        return not self.fails and self.saved_bytes >= least

    def is_useless(self, unused: int) -> bool:
        """Whether it leaves nearly all of `unused` bytes unused. Between this and `is_worth_it` the
        gain is too small to speak of."""
        if self.fails:
            return True
        return not self.is_worth_it and self.saved_bytes <= LITTLE_SHARE * unused


def expandable_segments(replay: Replay) -> Tried | None:
    """Simulate the setting that most people try first; None if it is on already, if nothing was
    recorded to simulate, or if too little is unused for a gain: that is the most it could save."""
    recorded = replay.recorded
    reserved = replay.measure("reserved").peak.bytes
    unused = unused_bytes(replay)
    if replay.settings.expandable or not replay.allocations or not reserved:
        return None
    if unused < max(LEAST_BYTES, LEAST_SHARE * reserved):
        return None
    found = replay.simulate(EXPANDABLE)
    own = recorded.own
    # A model that does not even do what was recorded says little: the smaller gain of both counts.
    before = reserved if recorded.reproduced else min(reserved, own.reserved_peak[0])
    return Tried(
        settings=EXPANDABLE,
        saved_bytes=before - found.outcome.reserved_peak_bytes,
        reserved_bytes=reserved,
        fails=found.stopped_event is not None,
        variable=replay.backend.variable,
        exact=found.exact,
    )
