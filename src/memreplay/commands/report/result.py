"""The results of `memreplay report`: those of the other commands, side by side, and advice."""

from __future__ import annotations

from typing import Literal

from memreplay.commands.categories.result import CategoriesReport, DeviceCategories
from memreplay.commands.fragmentation.result import (
    DeviceFragmentation,
    FragmentationReport,
    UnusedPoint,
)
from memreplay.commands.leaks.result import DeviceLeaks, LeaksReport
from memreplay.commands.oom.result import DeviceOoms, OomReport
from memreplay.commands.peak.result import DevicePeak, PeakReport
from memreplay.commands.steps.result import DeviceSteps, Step, StepsReport
from memreplay.snapshot.model import Exactness, Frame
from memreplay.snapshot.record import Record

PartName = Literal["peak", "categories", "fragmentation", "steps", "leaks", "oom"]


class Advice(Record, frozen=True):
    """One thing to do, and the number that speaks for it.

    `name` is stable (docs/report.md lists them). `bytes` are those that it is about, `of_bytes`
    what they are a part of; `count` is another number that it needs (steps, events). `place` is the
    code, where it is one place. `word` is a detail: a reason's or a remedy's name. `command` is the
    memreplay command, without the file, that shows more; empty for none.
    """

    name: str
    bytes: int = 0
    of_bytes: int = 0
    count: int = 0
    place: Frame | None = None
    word: str = ""
    command: str = ""


class Missing(Record, frozen=True):
    """A part that the file does not answer, and why."""

    part: PartName
    why: str


class DeviceOverview(Record, frozen=True):
    """One device: what each command says of it, None where it says nothing (`missing` says why).

    `trusted`, `exactness` (of requested bytes) and `reasons` are the verdict of `memreplay
    summary`. `reserved_bytes` is the peak of reserved memory. `total_bytes` is the card's memory,
    or the most that was seen of it (`total_known` says which), None where nothing is known.
    `step` is the one that the peak of requested bytes lies in, `peak_category` the category of the
    allocation that made it. `unused` is the moment that `memreplay fragmentation` tells of.
    """

    device: int
    trusted: bool
    exactness: Exactness
    reasons: tuple[str, ...]
    peak: DevicePeak
    reserved_bytes: int
    reserved_event: int
    reserved_exactness: Exactness
    total_bytes: int | None
    total_known: bool
    step: Step | None
    peak_category: str
    unused: UnusedPoint | None
    categories: DeviceCategories | None
    fragmentation: DeviceFragmentation | None
    steps: DeviceSteps | None
    leaks: DeviceLeaks | None
    oom: DeviceOoms | None
    missing: tuple[Missing, ...]
    advice: tuple[Advice, ...] = ()

    @property
    def ran_out(self) -> bool:
        """Whether a request failed."""
        return self.oom is not None and self.oom.ooms_total > 0

    @property
    def leaks_judged(self) -> bool:
        """Whether there were steps enough to judge leaks by."""
        return self.leaks is not None and self.leaks.judged


class Overview(Record, frozen=True):
    """What `memreplay report` shows: the devices, the worst first, and the reports of the commands
    that they are made of."""

    file: str
    devices: tuple[DeviceOverview, ...]
    peak: PeakReport
    categories: CategoriesReport | None
    fragmentation: FragmentationReport | None
    steps: StepsReport | None
    leaks: LeaksReport | None
    oom: OomReport | None
    truncated: bool = False
