"""A folder, a clock and a writer, all simulated, so that an hour's watch takes no time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.source import Reading
from memreplay.commands.watch.options import WatchOptions
from memreplay.commands.watch.running import Clocks, Watch
from tests.build import SnapshotBuilder, dump

START_S = 1_760_000_000.0
MIB = 1 << 20
BASE = 0x7F00_0000_0000


def snapshot(*peaks: int, reserved: int = 0) -> bytes:
    """Return a snapshot with a device for each peak, in MiB. Each device reserves `reserved` MiB
    or, by default, as much as the highest peak.
    """
    builder = SnapshotBuilder(devices=len(peaks))
    for device, peak in enumerate(peaks):
        builder.segment_alloc(BASE, max(reserved, *peaks, 2) * MIB, device)
        frames = [("forward", "/workspace/gpt/model.py", 72)]
        builder.alloc(BASE, peak * MIB, device, frames=frames)
        builder.free_requested(BASE, peak * MIB, device, frames=frames)
        builder.free_completed(BASE, peak * MIB, device, frames=frames)
        builder.segment_free(BASE, max(reserved, *peaks, 2) * MIB, device)
    return dump(builder.build())


class World:
    """A clock that advances while a watch sleeps, and triggers scheduled events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.slept = 0
        self._plans: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        """Return seconds since the beginning."""
        return self.now

    def wall(self) -> float:
        """Return seconds since 1970."""
        return START_S + self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clock, and trigger the events that are due."""
        self.slept += 1
        self.now += seconds
        due = [plan for plan in self._plans if plan[0] <= self.now]
        self._plans = [plan for plan in self._plans if plan[0] > self.now]
        for _, action in sorted(due, key=lambda plan: plan[0]):
            action()

    def at(self, second: float, action: Callable[[], object]) -> None:
        """Schedule an event."""
        self._plans.append((second, action))

    def write(self, name: str, data: bytes, age: float = 0.0) -> Path:
        """Write a file whose age is this many seconds."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (self.wall() - age,) * 2)
        return path

    def write_at(self, second: float, name: str, data: bytes) -> None:
        """Schedule a write."""
        self.at(second, lambda: self.write(name, data))

    def replace_at(self, second: float, name: str, data: bytes) -> None:
        """Schedule a rename."""

        def put() -> None:
            part = self.write(f"{name}.part", data)
            os.replace(part, self.folder / name)

        self.at(second, put)

    def watch(self, *folders: str, **asked: object) -> Watch:
        """Return a watch in this world."""
        names = folders or (str(self.folder),)
        measure = asked.pop("measure", "requested")
        return Watch(
            WatchOptions(folders=names, **asked),  # type: ignore[arg-type]
            Reading(),
            Selection(measure=measure),  # type: ignore[arg-type]
            Clocks(self.clock, self.wall, self.sleep),
        )
