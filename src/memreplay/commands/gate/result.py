"""The results of `memreplay gate`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.comparing.records import LimitKind
from memreplay.snapshot.model import EventRange, MeasureName
from memreplay.snapshot.record import Record

Kind = LimitKind | Literal["trust"]
# "not_judged" is a limit that nothing could be held against: it fails, where "skipped" does not.
Outcome = Literal["passed", "failed", "not_judged", "skipped"]


class Cause(Record, frozen=True):
    """A group that a finding is put down to.

    `bytes` is what it holds (of a leak: what it grows by a step), `change_bytes` what it grew by
    since the base, None without one. The place is the frame that it is put down to; `file` is empty
    and `line` 0 where there is none.
    """

    label: str
    bytes: int
    change_bytes: int | None = None
    function: str = ""
    file: str = ""
    line: int = 0


class Finding(Record, frozen=True):
    """One limit held against one device.

    `rule` is the budget's name, else the limit's (`max-peak`). `actual_bytes` is what is limited:
    the peak; of `max_fragmentation` what was reserved and never used; of `no_leaks` the growth a
    step; of `no_oom` the first request that failed. `limit_bytes` is the most that it may be, and
    `limit_share` what that was given as. `base_bytes` is the base's peak of the same.
    `reserved_bytes` is of `max_fragmentation` alone. `causes` has the largest first, and is empty
    of what passed. `reasons` are of "trust"; `detail` says why something was skipped
    or not judged, in words.
    """

    rule: str
    kind: Kind
    outcome: Outcome
    device: int
    measure: MeasureName
    category: str | None = None
    annotation: str | None = None
    limit_bytes: int | None = None
    limit_share: float | None = None
    actual_bytes: int | None = None
    base_bytes: int | None = None
    reserved_bytes: int | None = None
    event_index: int | None = None
    count: int | None = None
    causes: tuple[Cause, ...] = ()
    reasons: tuple[str, ...] = ()
    of_base: bool = False
    detail: str = ""

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


class GatedFile(Record, frozen=True):
    """What became of one snapshot.

    `error` says in a line why it could not be judged, with its `exit_code`; it has no findings.
    `overflowed` are the devices whose ring buffer was full: an earlier peak would not show.
    `rules_changed` says that the base's categories, which a budget is of, are by other rules.
    `ranges` is which events the base and this are of, where these are others.
    """

    file: str
    base_file: str | None = None
    findings: tuple[Finding, ...] = ()
    overflowed: tuple[int, ...] = ()
    rules_changed: bool = False
    ranges: tuple[EventRange, EventRange] | None = None
    error: str = ""
    exit_code: int = 0

    @property
    def passed(self) -> bool:
        return not self.error and not any(finding.failed for finding in self.findings)


class GateReport(Record, frozen=True):
    """What `memreplay gate` found: it passed if every file did."""

    files: tuple[GatedFile, ...]

    @property
    def passed(self) -> bool:
        return all(one.passed for one in self.files)

    @property
    def failures(self) -> tuple[tuple[GatedFile, Finding], ...]:
        """What failed, with its file, in order."""
        return tuple(
            (one, finding) for one in self.files for finding in one.findings if finding.failed
        )
