"""The results of `memreplay gate`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.code.native import FramesKept
from memreplay.analysis.comparing.records import LimitKind, Phase
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import EventRange, MeasureName
from memreplay.snapshot.record import Record

Kind = LimitKind | Literal["trust"]
# "not_judged" is a limit that nothing could be held against: it fails, where "skipped" does not.
Outcome = Literal["passed", "failed", "not_judged", "skipped"]


class Cause(Record, frozen=True):
    """A group that a finding is put down to."""

    label: str
    """What it is called."""
    bytes: int
    """What it holds; of a leak, what it grows by a step."""
    change_bytes: int | None = None
    """What it grew by since the base, or, of `max_spread`, what it has more than the median file;
    null without one."""
    function: str = ""
    """The function that it is put down to; empty if it has no stack."""
    file: str = ""
    """Its file, as it was recorded; empty if it has no stack."""
    line: int = 0
    """The line; 0 if it is not known."""


class Finding(Record, frozen=True, kw_only=True):
    """One limit held against one device."""

    # telling.py fills `message`, `snapshot`, `change_bytes`, and the place in code.
    text_only = ("detail", "budget", "of_devices")

    rule: str
    """The budget's name, else the limit's: `max-peak`."""
    kind: Kind
    """The limit; `trust`: whether the numbers can be trusted."""
    outcome: Outcome
    """What became of it. With `not_judged` it fails, with `skipped` not."""
    message: str = ""
    """All of it in a line."""
    snapshot: str = ""
    """The file that it is of."""
    device: int
    measure: MeasureName
    category: str | None = None
    """The category that alone counts."""
    guessed: bool = False
    """Whether part of the category is only likely to be in it: it was there before the recording
    began."""
    annotation: str | None = None
    """The annotation that it is within."""
    phase: Phase | None = None
    """The phase of the steps that it is within."""
    limit_bytes: int | None = None
    """The most that it may be."""
    limit_share: float | None = None
    """What that was given as: a share of the base's peak, of reserved memory, or of the median."""
    actual_bytes: int | None = None
    """The peak; of `max_fragmentation` what of reserved memory was never in use; of `no_leaks` the
    growth a step; of `no_oom` the first request that failed."""
    base_bytes: int | None = None
    """The base's peak of the same."""
    median_bytes: int | None = None
    """Of `max_spread`: the median of the peaks of all files, or of one file's devices."""
    change_bytes: int | None = None
    """The change since the base."""
    reserved_bytes: int | None = None
    """Of `max_fragmentation`: the peak of reserved memory."""
    event_index: int | None = None
    """Of the peak, or of the request that failed."""
    count: int | None = None
    """Of `no_leaks` the steps, of `no_oom` the requests that failed, of `max_spread` the files, or
    of one file its devices."""
    reasons: tuple[str, ...] = ()
    """Of `trust`: why not; of a limit that could not be judged, what is missing. See
    [reasons](#reasons)."""
    of_base: bool = False
    """Of `trust`: whether it is of the base."""
    function: str | None = None
    """The function of the first cause that has a place."""
    file: str | None = None
    """Its file, as it was recorded."""
    line: int | None = None
    """Its line; 0 if it is not known."""
    repository_file: str | None = None
    """That file below the repository; null if it is not there."""
    grown_category: str | None = None
    """Of a peak that failed: the category that grew most since the base, at the two peaks."""
    grown_category_bytes: int | None = None
    """What it grew by."""
    grown_category_cause: Cause | None = None
    """The line that holds most of it now."""
    causes: tuple[Cause, ...] = ()
    """The groups that it is put down to, the largest first; none of what passed."""
    detail: str = ""
    """Why it was skipped or not judged, in words."""
    budget: int = 0
    """The number of its budget."""
    of_devices: bool = False
    """Of `max_spread`: whether it compares the devices of one file, and not files."""

    @property
    def failed(self) -> bool:
        """Whether the limit is broken, or nobody can say that it is kept."""
        return self.outcome in ("failed", "not_judged")

    @property
    def growth_bytes(self) -> int | None:
        """Since the base."""
        if self.base_bytes is None or self.actual_bytes is None:
            return None
        return self.actual_bytes - self.base_bytes

    @property
    def place(self) -> Cause | None:
        """The first cause that has a file."""
        return next((cause for cause in self.causes if cause.file), None)


class PhasePeak(Record, frozen=True, kw_only=True):
    """The peak within one phase of the training steps."""

    device: int
    """The device."""
    measure: MeasureName
    """Which bytes these are."""
    phase: Phase
    """The phase."""
    bytes: int
    """The peak within it."""
    event_index: int
    """The first event after which usage is that high."""
    base_bytes: int | None
    """The base's peak within the same phase; null without one."""
    change_bytes: int | None
    """The change since the base."""


class GatedFile(Record, frozen=True, kw_only=True):
    """What became of one snapshot."""

    text_only = ("findings", "rules_changed", "ranges", "frames", "fewer")

    file: str
    rank: int | None = None
    """The rank that its name says; null if it says none."""
    dump: str | None = None
    """What its dump is called (`iteration_10`), if its rank has several; else null."""
    base_file: str | None = None
    """The base, as it was named; null without one."""
    passed: bool = False
    """Whether it is within its budgets."""
    error: str | None = None
    """Why it could not be judged, in a line; null if it was."""
    exit_code: int = 0
    """The exit code of that error."""
    overflowed: tuple[int, ...] = ()
    """Devices whose ring buffer was full: an earlier peak would not show."""
    notes: tuple[str, ...] = ()
    """What else to know, a line each."""
    phases: tuple[PhasePeak, ...] = ()
    """The peaks within each phase of the steps, if a limit is on the peak of a device."""
    findings: tuple[Finding, ...] = ()
    """All that was found, in order."""
    rules_changed: bool = False
    """Whether the base's categories, which a budget is of, are by other rules."""
    frames: FramesKept = "all"
    """Which frames of the stacks count: those that the base has, too."""
    fewer: str = ""
    """The file that has fewer frames than the other."""
    ranges: tuple[EventRange, EventRange] | None = None
    """Which events the base and this are of, where these are others."""


class GateReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.gate/1"):
    """What `memreplay gate` found."""

    passed: bool
    """Whether every file is within its budgets."""
    headline: str
    """The first line of the text."""
    files: tuple[GatedFile, ...]
    """One for each input."""
    findings: tuple[Finding, ...]
    """What failed."""
    kept: tuple[Finding, ...]
    """What was within its limit."""
    not_judged: tuple[Finding, ...]
    """What was not judged; its `outcome` says whether that fails."""
    missing_ranks: tuple[int, ...] = ()
    """Numbers between 0 and the last rank that no file has, where the files' names tell ranks."""
    dumps_choice: str = ""
    """Which of several dumps of each rank were judged, in words; empty if there was no choice."""

    def document(self) -> Document:
        from memreplay.gating.text import gate_document

        return gate_document(self)
