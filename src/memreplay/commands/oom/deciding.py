"""Whether other settings would have served a request that failed, decided by simulation."""

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

SPLITS = (256, 128, 64)  # MiB, of max_split_size_mb


class Deciding:
    """Simulates one device's program with the settings that a remedy is about, each once."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._found: dict[AllocatorSettings, Simulated] = {}

    def decided(self, remedy: Remedy, event: int) -> Remedy:
        """The remedy of the request that failed at an event, as the simulation has it; the same
        where the file does not allow one."""
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
                    simulated=True,
                    settings=spelled(found.settings),
                    fails_next=min(later, default=None),
                )
        # Blocks from before the recording lie as other settings would not have had them.
        begun_late = self.replay.reserved.start_bytes > 0
        if begun_late or len(known) < len(tried) or self._earlier_served(tried, event):
            return remedy
        return replace(remedy, enough=False, simulated=True)

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
        """Whether the recording's own settings give what was recorded, this failure too."""
        recorded = self.replay.recorded
        return recorded.reproduced and event - self.replay.first_event in recorded.own.failed()

    def _simulated(self, tried: list[AllocatorSettings]) -> list[Simulated]:
        left = [one for one in tried if one not in self._found]
        prepare(self.replay)
        for one, found in zip(left, on_threads(self.replay.simulate, left), strict=True):
            self._found[one] = found
        return [self._found[one] for one in tried]

    def _earlier_served(self, tried: list[AllocatorSettings], event: int) -> bool:
        """Whether a request before this one succeeds: then the program went on in another way."""
        earlier = [one for one in self.replay.events_of("oom") if one < event]
        return any(not _fails(found, one) for found in self._simulated(tried) for one in earlier)


def _fails(found: Simulated, event: int) -> bool:
    return event in found.failed_events


def _serves(found: Simulated, event: int) -> bool:
    stopped = found.stopped_event
    return not _fails(found, event) and (stopped is None or stopped > event)


def _resynced_before(found: Simulated, event: int) -> bool:
    """Whether streams were waited for at another time: when frees completed then, no file tells."""
    return found.resynced_event is not None and found.resynced_event < event
