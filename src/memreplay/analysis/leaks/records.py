"""Records of growth, and of leaks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from memreplay.analysis.groups.holding import LiveHolder
from memreplay.analysis.steps.records import StepSource
from memreplay.snapshot.model import Coded, Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record

MemorySource = Literal["given", "oom", "recorded"]
Unless = Literal["single_pass", "late_state"]


class Doubt(NamedTuple):
    """Why growth may not be a leak."""

    words: str
    remedy: str


DOUBTS: dict[Unless, Doubt] = {
    "single_pass": Doubt(
        "a leak, unless this is a single pass", "name the steps with --step annotation=NAME"
    ),
    "late_state": Doubt(
        "a leak, unless it's lazily created optimizer state", "record with stacks to tell"
    ),
}


class GrownGroup(Coded, frozen=True):
    """A group, usually a stack, whose live bytes at the ends of steps grew."""

    bytes_per_step: int
    """Leaked bytes per step; 0 for memory that grew once."""
    bytes_per_step_error: int
    """Standard error of `bytes_per_step`."""
    odds: float
    """Odds (to one) that the group leaks rather than stops growing; at most 1,000,000."""
    growth_bytes: int
    """For a leak, growth after `since_step`; otherwise bytes allocated since the start that were
    never freed.
    """
    start_bytes: int
    """Bytes live before the first step."""
    warm_bytes: int
    """Bytes live after the first steps, which aren't judged."""
    end_bytes: int
    """Bytes live after the last judged step."""
    since_step: int
    """The step after which a leak grows steadily: the last step that isn't judged, or a later one.
    """
    rises: int
    """Number of steps after `since_step` that end with more memory than the step before."""
    until_step: int
    """The last step that left additional memory behind, 0 for none; meaningless for a leak."""
    stopped: bool
    """Whether the group stopped growing: at least as much memory stayed as came and went within the
    last quarter of the judged steps. False for a leak.
    """
    old_count: int
    """Number of the group's old allocations."""
    old_bytes: int
    """Bytes of the allocations in `old_count`."""
    made_up_bytes_per_step: int
    """Bytes per step that another group released while this group grew. They aren't included in the
    growth rate.
    """
    replaced: bool
    """Whether each allocation replaces a smaller previous one, as with `total = torch.cat([total,
    new])`."""
    holders: tuple[LiveHolder, ...] = ()
    """The Python objects that kept most of the group's allocations alive at the end of the
    recording; only with notes from `memreplay record --holders`.
    """


class RunsOut(Record, frozen=True, kw_only=True):
    """When memory runs out if the leaks continue."""

    total_memory_bytes: int
    """Size of the device's memory; if it's from an oom event, only the program's part."""
    usable_bytes: int
    """The part of the device's memory that the program can use; the rest is used by CUDA itself."""
    total_memory_source: MemorySource
    """Where the size is from: `--total-memory`, an oom event in the file (free and reserved), or
    memreplay's recorder."""
    given: bool
    """Whether the size is from `--total-memory`."""
    peak_bytes: int
    """The highest peak of the judged steps."""
    step_count: int
    """Number of further steps that fit."""
    after_us: int | None
    """Duration of the steps that fit; null if the file has no times."""


class DeviceLeaks(OfBackend, frozen=True, kw_only=True):
    """Memory that grows from step to step on one device."""

    text_only = ("not_judged_brief",)

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    trusted: bool
    reasons: tuple[str, ...]
    step_source: StepSource | None
    """How the steps were found; null without steps."""
    guessed: bool
    """Whether nothing marks the steps and windows weren't requested. Then growth is a leak, unless
    the recording is a single pass that keeps its results.
    """
    unless: Unless | None
    """What the growth may be instead of a leak: a `single_pass` whose repetitions look like steps,
    or, without stacks, `late_state` that an optimizer creates in later steps. Null if nothing
    grows, or if the growth is a leak.
    """
    judged: bool
    """Whether there are enough steps for a verdict."""
    not_judged_reason: str | None
    """Why the steps aren't enough for a verdict; null if they're enough."""
    not_judged_brief: str = ""
    """`not_judged_reason` without what to do."""
    unsure: str | None
    """Why a leak might have been missed, which is that only few steps were judged. Null if a leak
    was found, or if there are enough steps.
    """
    step_count: int
    """Number of steps, or windows, without `exit_steps`."""
    exit_steps: int
    """Number of steps at the end that aren't judged, because memory falls there, as when a program
    exits.
    """
    warm_up_steps: int
    """Number of steps at the beginning that aren't judged."""
    first_step_event: int
    """First event of the first step; -1 without steps."""
    last_step_event: int
    """Last event of the last judged step; -1 without steps."""
    step_us: int | None
    """Median duration of the judged steps."""
    start_bytes: int
    """Bytes live before the first step."""
    warm_bytes: int
    """Bytes live after the first steps, which aren't judged."""
    end_bytes: int
    """Bytes live after the last judged step."""
    whole_bytes_per_step: int
    """Growth per step of the total memory, by the same rule as for groups; 0 if it doesn't keep
    growing.
    """
    leak_bytes_per_step: int
    """Growth per step of all groups that leak."""
    leak_bytes: int
    """Total growth of all groups that leak, each since it began to leak."""
    growing_bytes_per_step: int
    """Growth per step of the memory that each step needs and releases at its end; 0 if it doesn't
    grow.
    """
    leaks_total: int
    """Number of groups that leak."""
    leaks: tuple[GrownGroup, ...]
    """The largest leaks, up to `--top`."""
    once_bytes: int
    """Bytes allocated since the start that were never freed, in groups that don't leak."""
    once_total: int
    """Number of the groups in `once_bytes`."""
    once: tuple[GrownGroup, ...]
    """The largest groups in `once_bytes`, up to `--top`."""
    old_count: int
    """Number of allocations made in judged steps that are still live after more than
    `older_than_steps` steps and after the last judged step.
    """
    old_bytes: int
    """Bytes of the allocations in `old_count`."""
    runs_out: RunsOut | None
    """When memory runs out; null without a leak, or if the memory's size is unknown."""

    @property
    def grows(self) -> bool:
        """Whether memory grows from step to step."""
        return bool(self.leaks_total or self.whole_bytes_per_step)

    @property
    def by_windows(self) -> bool:
        """Whether equal parts of the recording replace steps. Memory that grows at only a few
        moments stays unnoticed then, so there may be leaks even if none is found.
        """
        return self.step_source is not None and self.step_source.found_by == "windows"
