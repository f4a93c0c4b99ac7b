"""Determine by simulation whether a failed request would have succeeded with other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.simulating.searching import on_threads, prepare
from memreplay.snapshot.alloc_conf import spelled

if TYPE_CHECKING:
    from memreplay.commands.oom.result import Remedy
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated

SPLITS = (256, 128, 64)  # MiB, for max_split_size_mb


class Deciding:
    """Simulates one device's program with the remedies' settings. Each setting is simulated only
    once.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._found: dict[AllocatorSettings, Simulated] = {}

    def decided(self, remedy: Remedy, event: int) -> Remedy:
        """Simulate a remedy for the request at an event, and return the remedy with the outcome.
        Return it unchanged if the file doesn't allow a simulation.
        """
        tried = self._settings(remedy)
        if not tried or not self.reproduces(event):
            return remedy
        known = [one for one in self._simulated(tried) if not _resynced_before(one, event)]
        for found in known:
            if _serves(found, event):
                later = [one for one in found.failed_events if one > event]
                return replace(
                    remedy,
                    enough=True,
                    is_simulated=True,
                    settings=spelled(found.settings),
                    fails_next=min(later, default=None),
                )
        # With other settings, the allocator would have placed carried-over blocks differently.
        begun_late = self.replay.reserved.start_bytes > 0
        if begun_late or len(known) < len(tried) or self._earlier_served(tried, event):
            return remedy
        return replace(remedy, enough=False, is_simulated=True)

    def _settings(self, remedy: Remedy) -> list[AllocatorSettings]:
        own = self.replay.settings
        if remedy.name == "expandable_segments":
            return [replace(own, expandable=True)]
        if remedy.name == "max_split_size":
            if own.max_split_bytes >= 0:
                return [replace(own, max_split_bytes=-1)]
            sizes = [mb << 20 for mb in SPLITS if mb << 20 >= own.large_segment_bytes]
            return [replace(own, max_split_bytes=size) for size in sizes]
        return []

    def reproduces(self, event: int) -> bool:
        """Return whether the recorded settings reproduce the recording, including this failure."""
        recorded = self.replay.recorded
        return recorded.reproduced and event - self.replay.first_event in recorded.own.failed()

    def _simulated(self, tried: list[AllocatorSettings]) -> list[Simulated]:
        left = [one for one in tried if one not in self._found]
        prepare(self.replay)
        for one, found in zip(left, on_threads(self.replay.simulate, left), strict=True):
            self._found[one] = found
        return [self._found[one] for one in tried]

    def _earlier_served(self, tried: list[AllocatorSettings], event: int) -> bool:
        """Return whether an earlier request that failed in the recording succeeds. In that case,
        the program would have continued differently.
        """
        earlier = [one for one in self.replay.events_of("oom") if one < event]
        return any(not _fails(found, one) for found in self._simulated(tried) for one in earlier)


def _fails(found: Simulated, event: int) -> bool:
    return event in found.failed_events


def _serves(found: Simulated, event: int) -> bool:
    stopped = found.stopped_event
    return not _fails(found, event) and (stopped is None or stopped > event)


def _resynced_before(found: Simulated, event: int) -> bool:
    """Return whether the simulation waits for streams at a different time than the recording. In
    that case, it's unknown when frees would complete.
    """
    return found.resynced_event is not None and found.resynced_event < event
