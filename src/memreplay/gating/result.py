"""The result of `memreplay gate`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.code.native import FramesKept
from memreplay.analysis.comparing.records import LimitKind, Phase
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import EventRange, MeasureName
from memreplay.snapshot.record import Record

Kind = LimitKind | Literal["trust"]
# "not_judged" means that the limit couldn't be checked, which counts as a failure, unlike
# "skipped".
Outcome = Literal["passed", "failed", "not_judged", "skipped"]


class Cause(Record, frozen=True):
    """A group of allocations that explains a finding."""

    label: str
    """The group's name."""
    bytes: int
    """Bytes that the group holds; for a leak, the group's growth per step."""
    change_bytes: int | None = None
    """Growth since the base or, for `max_spread`, the excess over the median file; otherwise null.
    """
    function: str = ""
    """The function that the group is attributed to; "" without a stack."""
    file: str = ""
    """File, as recorded; "" without a stack."""
    line: int = 0
    """Line; 0 if unknown."""


class Finding(Record, frozen=True, kw_only=True):
    """One limit checked on one device."""

    # reporting.py fills `message`, `snapshot`, `change_bytes` and the location.
    text_only = ("detail", "budget", "of_devices")

    rule: str
    """The budget's name, otherwise the limit's: `max-peak`."""
    kind: Kind
    """The limit, or `trust`: whether the numbers are trustworthy."""
    outcome: Outcome
    """The outcome. `not_judged` counts as a failure, `skipped` doesn't."""
    message: str = ""
    """The finding in one line."""
    snapshot: str = ""
    """The file."""
    device: int
    measure: MeasureName
    category: str | None = None
    """If given, only this category counts."""
    guessed: bool = False
    """Whether part of the category is a guess, because it was allocated before the recording."""
    annotation: str | None = None
    """If given, only memory during this annotation counts."""
    phase: Phase | None = None
    """If given, only memory in this phase of the steps counts."""
    limit_bytes: int | None = None
    """The limit in bytes."""
    limit_share: float | None = None
    """The limit as a share (of the base's peak, of reserved memory or of the median), if given as a
    share.
    """
    actual_bytes: int | None = None
    """The peak; for `max_fragmentation`, peak reserved minus peak active bytes; for `forbid_leaks`,
    the growth per step; for `forbid_oom`, the size of the first failed request.
    """
    base_bytes: int | None = None
    """The base's value."""
    median_bytes: int | None = None
    """For `max_spread`: the median peak of all files, or of a single file's devices."""
    change_bytes: int | None = None
    """Change since the base."""
    reserved_bytes: int | None = None
    """For `max_fragmentation`: peak of reserved memory."""
    event_index: int | None = None
    """Event of the peak or failed request."""
    count: int | None = None
    """The number of steps for `forbid_leaks`, of failed requests for `forbid_oom`, and of files (or
    a single file's devices) for `max_spread`.
    """
    reasons: tuple[str, ...] = ()
    """For `trust`, why the numbers aren't trustworthy; for a limit that couldn't be judged, what is
    missing. See [reasons](numbers.md#whether-to-trust-them-the-reasons).
    """
    of_base: bool = False
    """For `trust`: whether this is about the base."""
    function: str | None = None
    """The function of the first cause that has a location."""
    file: str | None = None
    """File, as recorded."""
    line: int | None = None
    """Line; 0 if unknown."""
    repository_file: str | None = None
    """Path in the repository; null if the file is outside the repository."""
    grown_category: str | None = None
    """For a failed peak: the category that grew most from the base's peak to this one."""
    grown_category_bytes: int | None = None
    """That category's growth."""
    grown_category_cause: Cause | None = None
    """The line that holds most of that category in the snapshot."""
    causes: tuple[Cause, ...] = ()
    """The groups that explain a failure, largest first."""
    detail: str = ""
    """Why the limit was skipped or not judged."""
    budget: int = 0
    """The budget's index."""
    of_devices: bool = False
    """For `max_spread`: whether this compares the devices of one file rather than several files."""

    @property
    def failed(self) -> bool:
        """Whether the limit is broken or couldn't be judged."""
        return self.outcome in ("failed", "not_judged")

    @property
    def growth_bytes(self) -> int | None:
        """Growth since the base."""
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
    """The measure."""
    phase: Phase
    """The phase."""
    bytes: int
    """Peak within the phase."""
    event_index: int
    """First event after which usage is at its peak."""
    base_bytes: int | None
    """The base's peak in the same phase; null if there is none."""
    change_bytes: int | None
    """Change since the base."""


class GatedFile(Record, frozen=True, kw_only=True):
    """The result for one snapshot."""

    text_only = ("findings", "rules_changed", "ranges", "frames", "fewer")

    file: str
    rank: int | None = None
    """The rank, from the file name; null without one."""
    dump: str | None = None
    """Name of the dump (e.g. `iteration_10`) if its rank has several; otherwise null."""
    base_file: str | None = None
    """The base, as given; null without one."""
    passed: bool = False
    """Whether the snapshot is within its budgets."""
    error: str | None = None
    """Why the snapshot couldn't be judged, in one line; null if it was judged."""
    exit_code: int = 0
    """That error's exit code."""
    overflowed_devices: tuple[int, ...] = ()
    """Devices whose ring buffer overflowed, which may hide an earlier peak."""
    notes: tuple[str, ...] = ()
    """Other notes, a line each."""
    phases: tuple[PhasePeak, ...] = ()
    """The peak within each phase of the steps, if there is a limit on a device's peak."""
    findings: tuple[Finding, ...] = ()
    """All findings, in order."""
    rules_changed: bool = False
    """Whether a budget uses categories for which the base had other rules."""
    frames: FramesKept = "all"
    """The frames that are compared: only those that the base has, too."""
    fewer: str = ""
    """The file with fewer frames than the other."""
    ranges: tuple[EventRange, EventRange] | None = None
    """Event ranges of base and snapshot, if they differ."""


class GateReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.gate/1"):
    """The result of `memreplay gate`."""

    passed: bool
    """Whether every file is within its budgets."""
    headline: str
    """First line of the text."""
    files: tuple[GatedFile, ...]
    """One result per input."""
    findings: tuple[Finding, ...]
    """Number of findings that failed."""
    kept: tuple[Finding, ...]
    """Number of findings within their limits."""
    not_judged: tuple[Finding, ...]
    """Number of findings that weren't judged. Their `outcome` says whether they fail."""
    missing_ranks: tuple[int, ...] = ()
    """Ranks without a file, below the highest rank that has one; empty if names have no ranks."""
    dumps_choice: str = ""
    """The dumps of each rank that were judged; "" if each rank has one."""

    def document(self) -> Document:
        from memreplay.gating.text import gate_document

        return gate_document(self)
