"""The results of `memreplay leaks`."""

from __future__ import annotations

from dataclasses import dataclass

from memreplay.analysis.steps.records import StepSource
from memreplay.snapshot.brief import Brief
from memreplay.snapshot.model import By, Exactness, Filters, Group, MeasureName


@dataclass(frozen=True, slots=True)
class GrownGroup(Brief):
    """A group, mostly a stack, whose live bytes at the ends of steps grew.

    `group` says which; its bytes are what grew, its share is of the device's growth, its count
    how many allocations are old (see `LeaksReport.older_than`), `old_bytes` theirs. `rate` is bytes
    a step, 0 of what grew once, `rate_error` by how much that may be wrong; `odds`, to one, are
    those of a leak against what stops (1,000,000 at most). `start_bytes` are live before the first
    step, `warm_bytes` after the warm-up, `end_bytes` after the last step. A leak grows all along
    after step `since`, the last of the warm-up or a later one; `rises` counts the steps after it
    that end higher than the one before. `until` is the last step after which more stayed;
    `stopped` whether, since then, less than what stayed has come and gone.
    """

    group: Group
    rate: int
    rate_error: int
    odds: float
    start_bytes: int
    warm_bytes: int
    end_bytes: int
    since: int
    rises: int
    until: int
    stopped: bool
    old_bytes: int


@dataclass(frozen=True, slots=True)
class RunsOut(Brief):
    """When memory ends, if the leaks go on: in `steps` more than were recorded, and `us`
    microseconds (None where the file has no times).

    `total_bytes` is the device's memory: as given, or what an oom event in the file says.
    """

    total_bytes: int
    given: bool
    peak_bytes: int
    steps: int
    us: int | None


@dataclass(frozen=True, slots=True)
class DeviceLeaks(Brief):
    """The growth of one device from step to step.

    `steps` were recorded, the first `warm_up` of which are held to be no later ones. `start_bytes`
    are live before the first, `warm_bytes` after the warm-up, `end_bytes` after the last. `leaks`
    and `once` are the largest of `leaks_total` groups that leak and of `once_total` others of which
    more stayed; `leak_rate`, `leak_bytes` (what leaks grew by in the later steps) and `once_bytes`
    are of all of them. `whole_rate` is the same rule for all memory at once: bytes a step, 0 where
    it does not grow for good. Too few steps are not `judged`: nothing of them leaks, and `missing`
    says why; it says as well why there are none.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    source: StepSource | None
    judged: bool
    missing: str
    steps: int
    warm_up: int
    first_step_event: int
    last_step_event: int
    step_us: int | None
    start_bytes: int
    warm_bytes: int
    end_bytes: int
    whole_rate: int
    leaks: tuple[GrownGroup, ...]
    leaks_total: int
    leak_rate: int
    leak_bytes: int
    once: tuple[GrownGroup, ...]
    once_total: int
    once_bytes: int
    old_count: int
    old_bytes: int
    runs_out: RunsOut | None
    trusted: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaksReport(Brief):
    """What `memreplay leaks` shows.

    Old allocations were made in a later step, and outlived `older_than` steps. A leak is
    `min_bytes` a step or more.
    """

    file: str
    measure: MeasureName
    all_frames: bool
    older_than: int
    min_bytes: int
    devices: tuple[DeviceLeaks, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    by: By = "stack"
    filters: Filters | None = None

    @property
    def judged(self) -> bool:
        """Whether the steps of any device are enough to tell."""
        return any(device.judged for device in self.devices)

    @property
    def leaking(self) -> bool:
        """Whether any device leaks."""
        return any(device.leaks_total or device.whole_rate for device in self.devices)
