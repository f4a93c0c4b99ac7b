"""The results of `memreplay leaks`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.analysis.steps.records import StepSource
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, Coded, Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record

MemorySource = Literal["given", "oom", "recorded"]


class GrownGroup(Coded, frozen=True):
    """A group, mostly a stack, whose live bytes at the ends of steps grew."""

    bytes_per_step: int
    """How much it leaks a step; 0 for what grew once."""
    bytes_per_step_error: int
    """By how much that may be wrong: a standard error."""
    odds: float
    """The odds, to one, that it leaks rather than stops; 1,000,000 at most."""
    growth_bytes: int
    """Of a leak, what it grew by after `since_step`; else what came since the start and stayed."""
    start_bytes: int
    """Live before the first step."""
    warm_bytes: int
    """Live after the steps that are not judged."""
    end_bytes: int
    """Live after the last step."""
    since_step: int
    """The step after which a leak grows all along: the last that is not judged, or a later one."""
    rises: int
    """How many steps after that end higher than the one before."""
    until_step: int
    """The last step that added to what stayed, 0 for none; says nothing of a leak."""
    stopped: bool
    """Whether, in the last quarter of the judged steps, less than what stayed has come and gone;
    false for a leak."""
    old_count: int
    """How many of its allocations are old."""
    old_bytes: int
    """Their bytes."""
    made_up_bytes_per_step: int
    """How much another group gave back a step, as this one grew; its rate is without that."""
    replaced: bool
    """Whether one allocation takes the place of the one before, each larger than that, as with
    `total = torch.cat([total, new])`."""


class RunsOut(Record, frozen=True, kw_only=True):
    """When memory ends if the leaks go on."""

    total_bytes: int
    """The device's memory; of an oom event only what the program had of it."""
    usable_bytes: int
    """What of that the program can have: the rest is CUDA's own."""
    source: MemorySource
    """Who says so: `--total-memory`, an oom event in the file (free and reserved), or what the
    recorder noted of the card."""
    given: bool
    """Whether `--total-memory` says so."""
    peak_bytes: int
    """The highest peak of a judged step."""
    steps: int
    """How many more steps fit."""
    after_us: int | None
    """How long they take; null if the file has no times."""


class DeviceLeaks(OfBackend, frozen=True, kw_only=True):
    """What grows on one device from step to step."""

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    trusted: bool
    reasons: tuple[str, ...]
    source: StepSource | None
    """How the steps were found; null if there are none."""
    guessed: bool
    """Whether nothing marks the steps, and nobody asked for windows. What grows then leaks, unless
    the recording is of a single pass that keeps what it makes."""
    judged: bool
    """Whether its steps are enough to tell."""
    not_judged: str | None
    """Why they are not."""
    unsure: str | None
    """Why a leak may not show although its steps are judged: they are few; null if any does, or if
    they are many."""
    steps: int
    """How many steps, or windows, there are."""
    warm_up_steps: int
    """How many of the first are not judged."""
    first_step_event: int
    """The first event of the first step; -1 without steps."""
    last_step_event: int
    """The last event of the last step; -1 without steps."""
    step_us: int | None
    """The median duration of a judged step."""
    start_bytes: int
    """Live before the first step."""
    warm_bytes: int
    """Live after the steps that are not judged."""
    end_bytes: int
    """Live after the last step."""
    whole_bytes_per_step: int
    """What all memory grows by a step, by the rule for groups; 0 if it does not grow for good."""
    leak_bytes_per_step: int
    """What all groups that leak grow by a step."""
    leak_bytes: int
    """What they grew by, each one since it does."""
    growing_bytes_per_step: int
    """How much more each step needs than the one before, and gives back at its end; 0 if it does
    not."""
    leaks_total: int
    """How many groups leak."""
    leaks: tuple[GrownGroup, ...]
    """The largest of them, as many as `--top` says."""
    once_bytes: int
    """What came since the start and stayed, of groups that do not leak."""
    once_total: int
    """How many these are."""
    once: tuple[GrownGroup, ...]
    """The largest of them, as many as `--top` says."""
    old_count: int
    """Allocations that were made in judged steps and outlived `older_than_steps`."""
    old_bytes: int
    """Their bytes."""
    runs_out: RunsOut | None
    """When memory ends; null without a leak, or if nothing says how much there is."""

    @property
    def grows(self) -> bool:
        """Whether memory grows from step to step."""
        return bool(self.leaks_total or self.whole_bytes_per_step)


class LeaksReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.leaks/1"):
    """What `memreplay leaks` found."""

    file: str
    measure: MeasureName
    by: By = "stack"
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    older_than_steps: int
    """Allocations that outlive so many steps are old."""
    min_growth_bytes: int
    """The least that a leak grows by a step."""
    leaking: bool
    """Whether anything leaks: what `--fail` goes by. What grows over guessed steps doesn't
    count."""
    judged: bool
    """Whether the steps of any device are enough to tell."""
    devices: tuple[DeviceLeaks, ...]

    def document(self) -> Document:
        from memreplay.commands.leaks.text import leaks_document

        return leaks_document(self)
